import { describe, expect, it } from "vitest";
import { isDelta, type RunEvent, type RunEventBody } from "../../../src/domain/run-event.ts";
import { compactEvents, packEvents, unpackEvents } from "../../../src/session/event-rows.ts";
import { seeded } from "../engine/harness.ts";

type Random = ReturnType<typeof seeded>;

const text = (index: number, words: string, at = 0): RunEvent => ({ index, at, type: "text.delta", text: words });
const thought = (index: number, words: string): RunEvent => ({ index, at: 0, type: "reasoning.delta", text: words });
const done = (index: number): RunEvent => ({ index, at: 0, type: "text.completed" });

function randomBody(random: Random): RunEventBody {
  const words = random.pick(["", "a", "ünï", "😀", "\ud83d", "\u0000", "\n", '"quoted"', "x".repeat(300)]);
  return random.pick<() => RunEventBody>([
    () => ({ type: "text.delta", text: words }),
    () => ({ type: "text.delta", text: words }),
    () => ({ type: "reasoning.delta", text: words }),
    () => ({ type: "text.delta", text: words, compacted: { from: random.below(5), to: 5 } }),
    () => ({ type: "text.completed" }),
    () => ({ type: "custom", name: words, data: { index: 7, at: 8, ms: 9, type: "x", list: [1, null] } }),
    () => ({ type: "tool-call.progress", callId: "c", data: [1, "two"] }),
    () => ({ type: "run.retried", attempt: 2, maxAttempts: 3, delayMs: 0, reason: "crash", discarded: { from: 1, to: 2 } }),
  ])();
}

/** A log with holes, as crashes leave them. */
function randomLog(random: Random): RunEvent[] {
  let index = random.below(3);
  let at = 1_000_000;
  return Array.from({ length: 1 + random.below(20) }, () => {
    const event: RunEvent = { index, at, ...randomBody(random) };
    index += random.below(6) === 0 ? 1 + random.below(600) : 1;
    at += random.below(300) - 20;
    return event;
  });
}

describe("rows of events", () => {
  it("give back what was put in, whatever it is", () => {
    const random = seeded(3);
    for (let trial = 0; trial < 1_000; trial += 1) {
      const events = randomLog(random);
      const row = packEvents(events);
      expect(row).toMatchObject({ first: events[0]?.index, at: events[0]?.at });
      expect(unpackEvents(row)).toEqual(events);
      // The row is text that any store takes.
      expect(row.data.isWellFormed()).toBe(true);
    }
  });

  it("hold a delta in little more than its text", () => {
    const events = Array.from({ length: 100 }, (_, index) => text(index, "word ", index));
    expect(packEvents(events).data.length).toBeLessThan(100 * ("word ".length + 8));
  });
});

describe("compactEvents", () => {
  it("makes one event of each unbroken range, with its last index and the whole text", () => {
    expect(compactEvents([text(0, "a"), text(1, "b"), text(2, "c"), done(3), text(4, "d")])).toEqual([
      { ...text(2, "abc"), compacted: { from: 0, to: 2 } },
      done(3),
      { ...text(4, "d"), compacted: { from: 4, to: 4 } },
    ]);
  });

  it("keeps kinds apart, and ranges that a hole divides", () => {
    expect(compactEvents([thought(0, "h"), thought(1, "m"), text(2, "a"), text(3, "b"), text(9, "c")])).toEqual([
      { ...thought(1, "hm"), compacted: { from: 0, to: 1 } },
      { ...text(3, "ab"), compacted: { from: 2, to: 3 } },
      { ...text(9, "c"), compacted: { from: 9, to: 9 } },
    ]);
  });

  it("has nothing to do with an empty log", () => {
    expect(compactEvents([])).toEqual([]);
  });

  it("loses no text and no other event, covers exactly the indices there were, and does it once", () => {
    const random = seeded(4);
    for (let trial = 0; trial < 1_000; trial += 1) {
      const events = randomLog(random).filter((event) => !("compacted" in event));
      const compacted = compactEvents(events);
      const said = (log: readonly RunEvent[], type: RunEvent["type"]) => log.map((event) => (event.type === type && isDelta(event) ? event.text : "")).join("");
      for (const type of ["text.delta", "reasoning.delta"] as const) expect(said(compacted, type)).toBe(said(events, type));
      expect(compacted.filter((event) => !isDelta(event))).toEqual(events.filter((event) => !isDelta(event)));
      const covered = compacted.flatMap((event) => (isDelta(event) && event.compacted ? Array.from({ length: event.compacted.to - event.compacted.from + 1 }, (_, offset) => event.compacted!.from + offset) : [event.index]));
      expect(covered).toEqual(events.map((event) => event.index));
      expect(compacted.every((event) => !isDelta(event) || event.index === event.compacted?.to)).toBe(true);
      expect(compactEvents(compacted)).toEqual(compacted);
      expect(compacted.flatMap((event) => unpackEvents(packEvents([event])))).toEqual(compacted);
    }
  });

  it("goes on from a log that was compacted before", () => {
    const once = compactEvents([text(0, "a"), text(1, "b")]);
    expect(compactEvents([...once, text(2, "c")])).toEqual([{ ...text(2, "abc"), compacted: { from: 0, to: 2 } }]);
  });

  it("a cursor anywhere in a range gets the range's event, one at its end does not", () => {
    const compacted = compactEvents([text(0, "a"), text(1, "b"), text(2, "c"), done(3)]);
    const after = (cursor: number) => compacted.filter((event) => event.index > cursor).map((event) => event.index);
    expect([-1, 0, 1, 2, 3].map(after)).toEqual([[2, 3], [2, 3], [2, 3], [3], []]);
  });
});
