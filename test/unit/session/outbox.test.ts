import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import type { Projection } from "../../../src/domain/projection.ts";
import { Alarms } from "../../../src/session/alarms.ts";
import { type Entity, Outbox } from "../../../src/session/outbox.ts";
import { migrate } from "../../../src/session/tables.ts";
import { isRefusal, ProjectionRefused } from "../../../src/storage/refusal.ts";
import { heldClock, settled } from "./held-clock.ts";
import { memoryStorage } from "./sql-storage.ts";

/** What arrives: the entity's name, and its value when it was sent. */
type Told = [entity: Entity, value: unknown];

/** An object with nothing in it but an outbox, and a D1 that does as it is told. */
function world({ release = "1" } = {}) {
  const { storage, alarmAt } = memoryStorage();
  const clock = heldClock();
  /** The entities as the object has them now. */
  const rows = new Map<Entity, unknown>();
  /** Each batch that D1 was asked to take, taken or not. */
  const asked: Told[][] = [];
  /** What D1 took. */
  const told: Told[] = [];
  const d1 = { answer: async (_batch: Told[]): Promise<void> => {} };
  let alarms!: Alarms;
  let outbox!: Outbox;

  const commit = (change: () => void) =>
    storage.transactionSync(() => {
      migrate(storage.sql);
      change();
      outbox.tidy();
    });
  const stored = () => storage.sql.exec<{ entity: string; tries: number; parked: string | null }>("SELECT entity, tries, parked FROM outbox ORDER BY entity").toArray();

  /** A new instance over the same storage: a crash, or a deploy. */
  function restart(deployed = release): void {
    alarms = new Alarms(storage, clock);
    outbox = new Outbox(
      {
        sql: storage.sql,
        clock,
        alarms,
        release: deployed,
        project: (entity) => {
          const value = entity.startsWith("parked:") ? (outbox.parked(entity.slice("parked:".length) as "session")?.reason ?? "arrived") : rows.get(entity);
          if (value === "unreadable") throw new Error("It can not be read.");
          return value === undefined ? undefined : ([entity, value] as unknown as Projection);
        },
        deliver: async (projections) => {
          const batch = projections as unknown as Told[];
          asked.push(batch);
          await d1.answer(batch);
          told.push(...batch);
        },
        isRefusal,
        commit,
      },
      true,
    );
  }
  storage.transactionSync(() => migrate(storage.sql));
  restart();

  return {
    sql: storage.sql,
    clock,
    rows,
    asked,
    told,
    d1,
    commit,
    stored,
    restart,
    alarmAt,
    get alarms() {
      return alarms;
    },
    get outbox() {
      return outbox;
    },
    /** Changes an entity, in a commit. */
    change(entity: Entity, value: unknown): void {
      commit(() => {
        rows.set(entity, value);
        outbox.put(entity);
      });
    },
    /** What the object's alarm does with it. */
    async alarm(): Promise<void> {
      commit(() => alarms.rearm());
      // Every event that reaches the object does this first.
      if (outbox.isBehind) void outbox.kick();
      if (alarms.due().includes("outbox")) commit(() => alarms.clear("outbox"));
      await outbox.retry();
      commit(() => alarms.rearm());
    },
    /** Lets time pass until the alarm fires, and fires it. */
    async untilAlarm(): Promise<number> {
      const at = alarmAt();
      if (at === null) throw new Error("No alarm stands.");
      const waited = at - clock.now();
      await clock.pass(waited);
      await this.alarm();
      return waited;
    },
  };
}

const down = () => Promise.reject(new Error("D1_ERROR: Network connection lost."));
const up = async () => {};
const refuse =
  (...entities: Entity[]) =>
  async (batch: Told[]) => {
    if (batch.some(([entity]) => entities.includes(entity))) throw new ProjectionRefused("It is too long.");
  };

/** An answer that the test gives when it likes. */
function held() {
  let give!: () => void;
  let fail!: (error: Error) => void;
  const answer = new Promise<void>((resolve, reject) => {
    give = resolve;
    fail = reject;
  });
  return { answer: () => answer, give, fail };
}

let errors: MockInstance<typeof console.error>;
beforeEach(() => {
  errors = vi.spyOn(console, "error").mockImplementation(() => undefined);
});
afterEach(() => vi.restoreAllMocks());

describe("an entry", () => {
  it("is delivered as the entity is then, and goes with the next commit", async () => {
    const { outbox, change, commit, stored, told } = world();
    change("session", "a");
    change("session", "b");
    expect(outbox.isBehind).toBe(true);
    await outbox.kick();
    expect(told).toEqual([["session", "b"]]);
    expect(outbox.isBehind).toBe(false);
    // A commit for the acknowledgement alone would be a write for each delivery.
    expect(stored()).toHaveLength(1);
    commit(() => {});
    expect(stored()).toEqual([]);
  });

  it("that is put while it is being delivered is delivered again", async () => {
    const { outbox, change, told, d1, commit, stored, rows } = world();
    const first = held();
    d1.answer = first.answer;
    change("session", "a");
    const kicked = outbox.kick();
    change("session", "b");
    change("run:1", "x");
    d1.answer = up;
    first.give();
    await kicked;
    expect(told).toEqual([
      ["session", "a"],
      ["session", "b"],
      ["run:1", "x"],
    ]);
    rows.clear();
    commit(() => {});
    expect(stored()).toEqual([]);
  });

  it("that is put in whatever moment of a delivery's end is not missed", async () => {
    for (let moment = 0; moment < 12; moment += 1) {
      const { outbox, change, told, d1 } = world();
      const first = held();
      d1.answer = first.answer;
      change("session", "a");
      void outbox.kick();
      const putThen = async () => {
        await first.answer();
        for (let steps = 0; steps < moment; steps += 1) await undefined;
        change("session", "b");
        void outbox.kick();
      };
      void putThen();
      first.give();
      await settled();
      expect(told.at(-1), `moment ${moment}`).toEqual(["session", "b"]);
    }
  });

  it("that changes after D1 took it and before the row went is kept, also by a crash", async () => {
    for (const crashes of [false, true]) {
      const object = world();
      object.change("session", "a");
      await object.outbox.kick();
      object.change("session", "b");
      expect(object.stored()).toHaveLength(1);
      if (crashes) object.restart();
      await object.outbox.kick();
      expect(object.told).toEqual([
        ["session", "a"],
        ["session", "b"],
      ]);
    }
  });

  it("is delivered once more after a crash that took the acknowledgement, and told from nothing that is left", async () => {
    const object = world();
    object.change("session", "a");
    object.change("run:1", "x");
    await object.outbox.kick();
    object.rows.delete("run:1");
    object.restart();
    expect(object.outbox.isBehind).toBe(true);
    await object.outbox.kick();
    expect(object.told.slice(2)).toEqual([["session", "a"]]);
    object.commit(() => {});
    expect(object.stored()).toEqual([]);
    expect(object.outbox.owes).toBe(false);
  });

  it("is one of eight at most in a batch: their documents are in memory together", async () => {
    const { outbox, change, asked, told } = world();
    for (let run = 0; run < 20; run += 1) change(`run:${run}`, run);
    await outbox.kick();
    expect(told).toHaveLength(20);
    expect(asked.map((batch) => batch.length)).toEqual([8, 8, 4]);
  });

  it("has an alarm behind it as long as D1 lacks it", async () => {
    const object = world();
    object.change("session", "a");
    expect(object.alarmAt()).toBe(object.clock.now() + 30_000);

    // One that stands earlier, for whatever, will do: no row is written for another.
    const busy = world();
    busy.commit(() => {
      busy.alarms.set("lease", busy.clock.now() + 25_000);
      busy.outbox.put("session");
    });
    expect(busy.alarms.at("outbox")).toBeUndefined();
    busy.restart();
    busy.rows.set("session", "a");
    await busy.untilAlarm();
    expect(busy.told).toEqual([["session", "a"]]);
  });
});

describe("D1 out of reach", () => {
  it("is tried again on the alarm, more seldom each time, and everything arrives when it is back", async () => {
    const object = world();
    object.d1.answer = down;
    object.change("session", "a");
    object.change("run:1", "x");
    await object.outbox.kick();
    const waits: number[] = [];
    for (let tries = 0; tries < 9; tries += 1) {
      // Whoever else wakes the object does not make it try sooner.
      await object.outbox.kick();
      await object.outbox.kick();
      waits.push(await object.untilAlarm());
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * 1_000));
    expect(object.asked).toHaveLength(1 + waits.length);
    expect(object.stored().map(({ tries, parked }) => [tries, parked])).toEqual([
      [0, null],
      [0, null],
    ]);
    object.d1.answer = up;
    await object.untilAlarm();
    expect(object.told.map(([entity]) => entity)).toEqual(["session", "run:1"]);
    object.commit(() => {});
    expect(object.alarmAt() === null || object.alarms.at("outbox") === undefined).toBe(true);
  });

  it("is tried at once when there is something new to tell, and then takes all", async () => {
    const { outbox, change, d1, told } = world();
    d1.answer = down;
    change("run:1", "x");
    await outbox.kick();
    d1.answer = up;
    change("session", "a");
    await outbox.kick();
    expect(told.map(([entity]) => entity)).toEqual(["run:1", "session"]);
  });

  it("is what a try alone says as well: the rest of a refused batch is not thrown after it", async () => {
    const { outbox, change, d1, asked } = world();
    d1.answer = (batch) => (batch.length > 1 ? Promise.reject(new ProjectionRefused("It is too long.")) : down());
    for (let run = 1; run <= 3; run += 1) change(`run:${run}`, run);
    await outbox.kick();
    expect(asked.map((batch) => batch.length)).toEqual([3, 1]);
  });

  it("counts anew when it was back in between", async () => {
    const object = world();
    for (let outage = 0; outage < 3; outage += 1) {
      object.d1.answer = down;
      object.change("session", outage);
      await object.outbox.kick();
      expect(await object.untilAlarm()).toBe(1_000);
      object.d1.answer = up;
      expect(await object.untilAlarm()).toBe(2_000);
      expect(object.told.at(-1)).toEqual(["session", outage]);
    }
  });

  it("keeps whoever waits for so long and no longer", async () => {
    for (const answer of [down, () => new Promise<void>(() => {})]) {
      const { outbox, change, d1, clock, asked } = world();
      d1.answer = answer;
      change("session", "a");
      let waited = false;
      void outbox.waitFor(["session"], 1_000).then(() => (waited = true));
      await clock.pass(999);
      expect(waited).toBe(false);
      await clock.pass(1);
      expect(waited).toBe(true);
      expect(asked).toHaveLength(1);
    }
  });
});

describe("waiting", () => {
  it("ends when D1 has what was there when it began", async () => {
    const { outbox, change, d1, told } = world();
    await outbox.waitFor(["session"], 1_000);
    const [first, second] = [held(), held()];
    d1.answer = first.answer;
    change("session", "a");
    const kicked = outbox.kick();
    change("session", "b");
    let waited = false;
    const waiting = outbox.waitFor(["session", "run:none"], 1_000).then(() => (waited = true));
    d1.answer = second.answer;
    first.give();
    await settled();
    expect(waited).toBe(false);
    second.give();
    await waiting;
    expect(told).toEqual([
      ["session", "a"],
      ["session", "b"],
    ]);
    await kicked;
  });

  it("ends at once when D1 refuses, also what it refused before and what is parked", async () => {
    const object = world();
    object.d1.answer = refuse("session");
    for (let tries = 1; tries <= 7; tries += 1) {
      object.change("session", tries);
      // The clock stands still: nothing but the answer ends this.
      await object.outbox.waitFor(["session"], 1_000);
      expect(object.asked.filter((batch) => batch[0]![0] === "session")).toHaveLength(tries);
    }
    object.d1.answer = up;
    object.change("session", "short");
    await object.outbox.waitFor(["session"], 1_000);
    expect(object.told.at(-2)).toEqual(["session", "short"]);
  });

  it("for what is gone with its session does not outlast it", async () => {
    const { outbox, change, d1, clock } = world();
    const answer = held();
    d1.answer = answer.answer;
    change("session", "a");
    const waiting = outbox.waitFor(["session"], 1_000);
    outbox.forget();
    answer.give();
    await waiting;
    expect(clock.now()).toBe(1_000_000);
  });
});

describe("a row that D1 refuses", () => {
  it("is tried five times with pauses between, while the others go on, and then it is parked and told of", async () => {
    const object = world();
    object.d1.answer = refuse("run:1");
    object.change("session", "a");
    object.change("run:1", "long");
    object.change("run:2", "x");
    await object.outbox.kick();
    expect(object.told).toEqual([
      ["session", "a"],
      ["run:2", "x"],
    ]);
    const waits: number[] = [];
    for (let tries = 1; tries < 5; tries += 1) {
      // One try each time: not on every event that reaches the object.
      await object.outbox.kick();
      expect(object.stored()).toContainEqual({ entity: "run:1", tries, parked: null });
      object.change("run:2", tries);
      await object.outbox.kick();
      expect(object.told.at(-1)).toEqual(["run:2", tries]);
      object.change("run:3", tries);
      waits.push(await object.untilAlarm());
      expect(object.told).toContainEqual(["run:3", tries]);
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(object.stored()).toContainEqual({ entity: "run:1", tries: 5, parked: "It is too long." });
    expect(object.told.at(-1)).toEqual(["parked:run:1", "It is too long."]);
    expect(object.outbox).toMatchObject({ isBehind: false, owes: true });
    expect(object.outbox.parked("run:1")).toEqual({ reason: "It is too long.", at: object.clock.now() });
    expect(errors.mock.calls.map((line) => JSON.parse(String(line[0])))).toMatchObject([1, 2, 3, 4, 5].map((tries) => ({ error: "projection_refused", entity: "run:1", tries, parked: tries === 5 })));
    // Once refused it goes alone: a batch is taken as a whole or not at all.
    expect(object.asked.filter((batch) => batch.some(([entity]) => entity === "run:1")).map((batch) => batch.length)).toEqual([3, 1, 1, 1, 1, 1]);
  });

  async function withParked() {
    const object = world();
    object.d1.answer = refuse("run:1");
    object.change("run:1", "long");
    await object.outbox.kick();
    while (object.outbox.isBehind) await object.untilAlarm();
    object.commit(() => {});
    expect(object.stored()).toEqual([{ entity: "run:1", tries: 5, parked: "It is too long." }]);
    object.asked.length = 0;
    object.told.length = 0;
    return object;
  }

  it("is not tried again by the release that parked it, however often it starts", async () => {
    const object = await withParked();
    await object.alarm();
    object.restart();
    expect(object.outbox.isBehind).toBe(false);
    await object.alarm();
    object.change("session", "a");
    await object.outbox.kick();
    expect(object.asked).toEqual([[["session", "a"]]]);
  });

  it("is tried by another release, and leaves the list when D1 takes it", async () => {
    const object = await withParked();
    object.restart("2");
    expect(object.outbox.isBehind).toBe(true);
    object.d1.answer = up;
    await object.outbox.kick();
    expect(object.told).toEqual([
      ["run:1", "long"],
      ["parked:run:1", "arrived"],
    ]);
    object.commit(() => {});
    expect(object.stored()).toEqual([]);
  });

  it("is parked anew by another release that can not store it either", async () => {
    const object = await withParked();
    object.restart("2");
    await object.outbox.kick();
    // A crash between the tries takes none of them back.
    object.restart("2");
    let tries = 1;
    for (; object.outbox.isBehind; tries += 1) await object.alarm();
    expect(tries).toBe(5);
    // It was listed all the while.
    expect(object.told).toEqual([["parked:run:1", "It is too long."]]);
    object.restart("2");
    expect(object.outbox.isBehind).toBe(false);
  });

  it("gets one more try whenever it changes, and counts anew once D1 took it", async () => {
    const object = await withParked();
    object.change("run:1", "still long");
    await object.outbox.kick();
    expect(object.asked[0]).toEqual([["run:1", "still long"]]);
    expect(object.outbox.isBehind).toBe(false);
    object.change("run:1", "lost");
    object.restart();
    // A change that a crash overtook is tried as well.
    expect(object.outbox.isBehind).toBe(true);
    object.d1.answer = up;
    await object.outbox.kick();
    expect(object.told.slice(-2)).toEqual([
      ["run:1", "lost"],
      ["parked:run:1", "arrived"],
    ]);

    object.d1.answer = refuse("run:1");
    object.change("run:1", "long again");
    object.restart();
    await object.outbox.kick();
    expect(object.stored()).toContainEqual({ entity: "run:1", tries: 1, parked: null });
  });

  it("counts the refusals since D1 last took it, also where its row has not gone yet", async () => {
    const object = world();
    for (let round = 0; round < 4; round += 1) {
      object.d1.answer = refuse("session");
      object.change("session", "long");
      expect(object.stored()).toEqual([{ entity: "session", tries: 0, parked: null }]);
      await object.outbox.kick();
      await object.outbox.retry();
      expect(object.stored()).toEqual([{ entity: "session", tries: 2, parked: null }]);
      object.d1.answer = up;
      await object.outbox.retry();
    }
  });

  it("that changes while it arrives after all is parked no more, and counts anew", async () => {
    const object = await withParked();
    const answer = held();
    object.d1.answer = answer.answer;
    object.change("run:1", "shorter");
    const kicked = object.outbox.kick();
    object.change("run:1", "long again");
    object.d1.answer = down;
    answer.give();
    await kicked;
    expect(object.stored()).toEqual([
      { entity: "parked:run:1", tries: 0, parked: null },
      { entity: "run:1", tries: 0, parked: null },
    ]);
  });

  it("is not parked for what it was before it changed", async () => {
    const object = world();
    object.d1.answer = refuse("session");
    object.change("session", "long");
    await object.outbox.kick();
    for (let tries = 2; tries < 5; tries += 1) await object.untilAlarm();
    const last = held();
    object.d1.answer = last.answer;
    const alarm = object.untilAlarm();
    await settled();
    object.change("session", "short");
    object.d1.answer = up;
    last.fail(new ProjectionRefused("It is too long."));
    await alarm;
    expect(object.outbox).toMatchObject({ isBehind: true });
    await object.untilAlarm();
    expect(object.told).toEqual([["session", "short"]]);
  });

  it("is parked without an end of words about it, when D1 refuses those too", async () => {
    const object = world();
    object.d1.answer = refuse("session", "parked:session");
    object.change("session", "long");
    for (let tries = 0; object.outbox.isBehind; tries += 1) {
      expect(tries).toBeLessThan(20);
      await object.alarm();
    }
    expect(object.stored().map(({ entity }) => entity)).toEqual(["parked:session", "session"]);
    expect(object.asked).toHaveLength(10);
  });

  it("may be one that can not even be read: the others go on", async () => {
    const object = world();
    object.change("run:1", "unreadable");
    object.change("run:2", "x");
    for (let tries = 0; object.outbox.isBehind; tries += 1) await object.alarm();
    expect(object.told).toEqual([
      ["run:2", "x"],
      ["parked:run:1", "It can not be read."],
    ]);
  });
});

describe("a session that is deleted while a delivery is under way", () => {
  it.each([
    ["taken", (answer: ReturnType<typeof held>) => answer.give()],
    ["refused", (answer: ReturnType<typeof held>) => answer.fail(new ProjectionRefused("It is too long."))],
    ["lost", (answer: ReturnType<typeof held>) => answer.fail(new Error("D1_ERROR: Network connection lost."))],
  ])("owes only its end, and its next life what is its own: the delivery is %s", async (_how, end) => {
    for (const entities of [["session"], ["session", "run:1"]] as Entity[][]) await deletedWhile(entities, end);
  });

  async function deletedWhile(entities: readonly Entity[], end: (answer: ReturnType<typeof held>) => void): Promise<void> {
    const object = world();
    const answer = held();
    object.d1.answer = answer.answer;
    for (const entity of entities) object.change(entity, "first life");
    const kicked = object.outbox.kick();

    object.commit(() => {
      object.outbox.forget();
      object.rows.clear();
      for (const table of ["outbox", "timers"]) object.sql.exec(`DELETE FROM ${table}`);
      object.rows.set("deleted", 2);
      object.outbox.put("deleted");
    });
    object.change("session", "second life");
    object.d1.answer = up;
    end(answer);
    await kicked;
    expect(object.stored().map(({ entity, tries }) => [entity, tries])).toEqual([
      ["deleted", 0],
      ["session", 0],
    ]);
    if (object.outbox.isBehind) await object.untilAlarm();
    expect(object.told.slice(-2)).toEqual([
      ["deleted", 2],
      ["session", "second life"],
    ]);
    object.commit(() => {});
    expect(object.stored()).toEqual([]);
    expect(object.outbox.owes).toBe(false);
  }

  it("is not told of as what arrived after all", async () => {
    const object = world();
    object.d1.answer = refuse("session");
    object.change("session", "long");
    while (object.outbox.isBehind) await object.alarm();
    const answer = held();
    object.d1.answer = answer.answer;
    object.change("session", "short");
    const kicked = object.outbox.kick();
    object.commit(() => {
      object.outbox.forget();
      object.sql.exec("DELETE FROM outbox");
      object.rows.set("deleted", 2);
      object.outbox.put("deleted");
    });
    object.d1.answer = down;
    answer.give();
    await kicked;
    expect(object.stored()).toEqual([{ entity: "deleted", tries: 0, parked: null }]);
  });
});

/** The same on every run of the suite: a failing order can be had again. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

describe("whatever happens in whatever order", () => {
  it.each(Array.from({ length: 60 }, (_, seed) => seed + 1))("seed %i: nothing is lost, nothing comes out of order, and D1 is not flooded", async (seed) => {
    const roll = dice(seed);
    const object = world();
    const entities: Entity[] = ["session", "run:1", "run:2", "run:3"];
    let value = 0;
    let release = 1;
    const under: Promise<unknown>[] = [];
    const steps = [
      () => object.change(entities[roll(4)]!, (value += 1)),
      () => object.change(entities[roll(4)]!, (value += 1)),
      () => void under.push(object.outbox.kick()),
      () => void under.push(object.outbox.waitFor([entities[roll(4)]!], 1_000)),
      () => object.commit(() => {}),
      () => object.clock.pass(roll(5_000)),
      () => object.alarm(),
      () => settled(),
      () => void (object.d1.answer = [up, down, refuse(entities[roll(4)]!), refuse("run:1", "session"), refuse("parked:session")][roll(5)]!),
      () => object.restart(String(release)),
      () => object.restart(String((release += 1))),
    ];
    for (let step = 0; step < 150; step += 1) await steps[roll(steps.length)]!();

    // One instance at a time tries one batch at a time, and only for a reason: it never spins.
    expect(object.asked.length).toBeLessThan(150 * 8);
    object.d1.answer = up;
    object.restart(String((release += 1)));
    await object.outbox.kick();
    await object.clock.pass(60_000);
    await Promise.all(under);
    object.commit(() => {});
    expect(object.stored()).toEqual([]);
    expect(object.outbox.owes).toBe(false);

    for (const entity of entities) {
      const values = object.told.filter(([name]) => name === entity).map(([, told]) => told as number);
      expect(values.at(-1)).toBe(object.rows.get(entity));
      expect(values).toEqual([...values].sort((a, b) => a - b));
      const words = object.told.filter(([name]) => name === `parked:${entity}`);
      if (words.length > 0) expect(words.at(-1)![1]).toBe("arrived");
    }
  });
});

describe("who waits until D1 has an entity, however long that takes", () => {
  const isOver = async (waiting: Promise<void>): Promise<boolean> => {
    let over = false;
    void waiting.then(() => (over = true));
    await settled();
    return over;
  };

  it("waits through every outage, and hears of it in the moment that D1 has it", async () => {
    const w = world();
    w.d1.answer = down;
    w.change("approval:1", "open");
    const waiting = w.outbox.waitUntilHeld(["approval:1"]);
    for (let outage = 0; outage < 12; outage += 1) {
      await w.untilAlarm();
      expect(await isOver(waiting)).toBe(false);
    }
    expect(w.outbox.waiting()).toEqual(["approval:1"]);
    w.d1.answer = up;
    await w.untilAlarm();
    expect(await isOver(waiting)).toBe(true);
    expect(w.told).toEqual([["approval:1", "open"]]);
    expect(w.outbox.waiting()).toEqual([]);
  });

  it("waits through refusals until it is set aside", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const w = world();
    w.d1.answer = refuse("approval:1");
    w.change("approval:1", "open");
    const waiting = w.outbox.waitUntilHeld(["approval:1"]);
    for (let tries = 1; tries < 5; tries += 1) {
      expect(await isOver(waiting)).toBe(false);
      await w.untilAlarm();
    }
    expect(await isOver(waiting)).toBe(true);
    expect(w.outbox.parked("approval:1")).toBeDefined();
    expect(w.outbox.waiting()).not.toContain("approval:1");
  });

  it("does not wait for what was forgotten with its session, nor for what nobody has changed", async () => {
    const w = world();
    w.d1.answer = down;
    w.change("approval:1", "open");
    const waiting = w.outbox.waitUntilHeld(["approval:1"]);
    expect(await isOver(waiting)).toBe(false);
    w.outbox.forget();
    expect(await isOver(waiting)).toBe(true);
    expect(await isOver(w.outbox.waitUntilHeld(["approval:9"]))).toBe(true);
  });

  it("who waits for a second hears of it as well, when the alarm's try brings it over", async () => {
    const w = world();
    w.d1.answer = down;
    w.change("session", "a");
    const waiting = w.outbox.waitFor(["session"], 60_000);
    await settled();
    expect(await isOver(waiting)).toBe(false);
    w.d1.answer = up;
    await w.untilAlarm();
    expect(await isOver(waiting)).toBe(true);
  });
});
