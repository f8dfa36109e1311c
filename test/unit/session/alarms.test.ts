import { expect, it } from "vitest";
import { Alarms } from "../../../src/session/alarms.ts";
import { migrate } from "../../../src/session/tables.ts";
import { heldClock } from "./held-clock.ts";
import { memoryStorage } from "./sql-storage.ts";

function world() {
  const { storage, alarmAt } = memoryStorage();
  const clock = heldClock();
  storage.transactionSync(() => migrate(storage.sql));
  /** A new instance over the same storage, which knows of no alarm that stands. */
  const start = () => new Alarms(storage, clock);
  const standsIn = () => (alarmAt() === null ? null : alarmAt()! - clock.now());
  return { storage, clock, start, standsIn };
}

it("the platform's alarm stands at the earliest of the names, and is not moved back when one is cleared", () => {
  const { clock, start, standsIn } = world();
  const alarms = start();
  alarms.set("retention", clock.now() + 500);
  alarms.set("lease", clock.now() + 200);
  alarms.set("outbox", clock.now() + 300);
  expect(standsIn()).toBe(200);
  alarms.clear("lease");
  expect([standsIn(), alarms.at("lease")]).toEqual([200, undefined]);
});

it("an instance does not put off what an earlier one armed", () => {
  const { clock, start, standsIn } = world();
  start().set("grace:1", clock.now() + 200);
  start().set("lease", clock.now() + 25_000);
  expect(standsIn()).toBe(200);
});

it("after it fired it stands at what is named next, at once where that is due", async () => {
  const { clock, start, standsIn } = world();
  const alarms = start();
  alarms.set("lease", clock.now() + 200);
  alarms.set("retention", clock.now() + 900);
  await clock.pass(300);
  alarms.rearm();
  expect(alarms.due()).toEqual(["lease"]);
  expect(standsIn()).toBe(0);
  alarms.clear("lease");
  alarms.rearm();
  expect(standsIn()).toBe(600);
});

it("a name that is set by some time keeps an earlier one", () => {
  const { clock, start } = world();
  const alarms = start();
  alarms.setBy("outbox", clock.now() + 500);
  alarms.setBy("outbox", clock.now() + 900);
  expect(alarms.at("outbox")).toBe(clock.now() + 500);
  alarms.setBy("outbox", clock.now() + 100);
  expect(alarms.at("outbox")).toBe(clock.now() + 100);
});

it("one that the platform gave up is armed again by an instance's first look, and one that is only late is left to it", async () => {
  const { storage, clock, start, standsIn } = world();
  start().set("retention", clock.now() + 1_000);
  await storage.deleteAlarm();
  await clock.pass(31_000);
  start().rearmIfGivenUp();
  expect(standsIn()).toBeNull();
  await clock.pass(31_000);
  const alarms = start();
  alarms.rearmIfGivenUp();
  expect(standsIn()).toBe(0);

  // Once an instance: it is asked at every event.
  await storage.deleteAlarm();
  alarms.rearmIfGivenUp();
  expect(standsIn()).toBeNull();
});

it("one that this instance armed and that never fired does not count as standing for ever", async () => {
  const { storage, clock, start, standsIn } = world();
  const alarms = start();
  alarms.set("lease", clock.now() + 1_000);
  expect(alarms.standsBy(clock.now() + 1_000)).toBe(true);
  expect(alarms.standsBy(clock.now() + 999)).toBe(false);
  await storage.deleteAlarm();
  await clock.pass(120_000);
  expect(alarms.standsBy(clock.now() + 1_000)).toBe(false);
  alarms.set("outbox", clock.now() + 500);
  expect(standsIn()).toBe(0);
});
