import { describe, expect, it } from "vitest";
import type { Requirement } from "../../../src/domain/requirement.ts";
import { type Effect, isSettled, isWaiting } from "../../../src/domain/tool-call.ts";
import { withToolResults } from "../../../src/engine/history.ts";
import { beginningOf } from "../../../src/session/branch.ts";
import type { ContinueRun } from "../../../src/session/commands.ts";
import type { OwnMessage } from "../../../src/session/store.ts";
import { readableMessages } from "../../../src/session/transcript.ts";
import { pairingProblems, seeded } from "../engine/harness.ts";

type Command = Pick<ContinueRun, "continueFrom" | "regenerate" | "input">;

const user = (content: string): OwnMessage => ({ id: content, role: "user", content, createdAt: 1 });
const assistant = (content: string, callIds: string[] = [], more: object = {}): OwnMessage => ({
  id: content,
  role: "assistant",
  content,
  createdAt: 1,
  toolCalls: callIds.map((id) => ({ id, name: "t", arguments: {} })),
  provider: "p",
  model: "m",
  finishReason: "stop",
  ...more,
});
const effect = (step: number, position: number, callId: string, row: Partial<Effect> = {}): Effect => ({
  runId: "run-1",
  step,
  position,
  callId,
  toolName: "t",
  status: "done",
  arguments: {},
  result: `result of ${callId}`,
  attempt: 1,
  plannedAt: 1,
  ...row,
});
const open: Requirement = { id: "r1", kind: "confirmation", createdAt: 1, approvalType: "required", approvalId: "a1" };

const from = (messages: OwnMessage[], effects: Effect[], command: Partial<Command> = {}) => beginningOf(messages, effects, { continueFrom: "end", regenerate: false, ...command }, 9);
const beginning = (...args: Parameters<typeof from>) => {
  const made = from(...args);
  if (!made.ok) throw new Error(made.error.message);
  return made.value;
};
const contents = (messages: readonly { content: string }[]) => messages.map(({ content }) => content);

describe("what a branch begins with", () => {
  const run = [user("q"), assistant("a1", ["c1", "c2"]), assistant("a2", ["c3"]), assistant("the end")];
  const effects = [effect(0, 0, "c1"), effect(0, 1, "c2"), effect(1, 0, "c3")];

  it("C042 at every index keeps each reply with all its results, and the rows of their calls", () => {
    const kept = [0, 1, 1, 4, 4, 4, 6, 7];
    for (const [index, cut] of kept.entries()) {
      const made = beginning(run, effects, { continueFrom: index, input: "on" });
      expect(made.index).toBe(cut);
      expect(pairingProblems(withToolResults(made.messages, made.effects))).toEqual([]);
      expect(made.effects).toEqual(effects.slice(0, cut < 4 ? 0 : cut < 6 ? 2 : 3));
      expect(contents(made.messages).at(-1)).toBe("on");
    }
    for (const continueFrom of [-1, 8, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) expect(from(run, effects, { continueFrom, input: "on" })).toMatchObject({ ok: false, error: { code: "invalid_request" } });
  });

  it("end keeps all, last_user up to the last question, regenerate all but the last words", () => {
    const asked = [...run, user("q2"), assistant("the end again")];
    expect(contents(beginning(asked, effects, { input: "on" }).messages)).toEqual(["q", "a1", "a2", "the end", "q2", "the end again", "on"]);
    expect(contents(beginning(asked, effects, { continueFrom: "last_user" }).messages)).toEqual(["q", "a1", "a2", "the end", "q2"]);
    expect(contents(beginning(asked, effects, { regenerate: true }).messages)).toEqual(["q", "a1", "a2", "the end", "q2"]);
    expect(contents(beginning(run, effects, { regenerate: true }).messages)).toEqual(["q", "a1", "a2"]);
    expect(beginning(run, effects, { regenerate: true }).effects).toEqual(effects);
  });

  it("says Continue where the model would have nothing to answer, and only there", () => {
    expect(contents(beginning(run, effects).messages).at(-1)).toBe("Continue.");
    expect(contents(beginning(run.slice(0, 3), effects).messages).at(-1)).toBe("a2");
    expect(contents(beginning(run.slice(0, 1), []).messages)).toEqual(["q"]);
    expect(contents(beginning(run.slice(0, 3), [...effects.slice(0, 2), effect(1, 0, "c3", { stopAfter: true })]).messages).at(-1)).toBe("Continue.");
    expect(from(run, effects, { continueFrom: 0 })).toMatchObject({ ok: false, error: { code: "invalid_request" } });
    expect(contents(beginning(run, effects, { continueFrom: 0, input: "new" }).messages)).toEqual(["new"]);
  });

  it("leaves out half a sentence that a failure cut off; it is no place to go on from", () => {
    const cut = [...run.slice(0, 3), assistant("Half a", [], { partial: true })];
    expect(contents(beginning(cut, effects).messages)).toEqual(["q", "a1", "a2"]);
    expect(beginning(cut, effects).index).toBe(6);
    expect(from(cut, effects, { continueFrom: 7, input: "on" }).ok).toBe(false);
  });

  it("S244 C044 no decision goes along: what waits or was decided is asked about anew, what has an outcome keeps it", () => {
    const decided = { ...open, resolution: { kind: "confirmation", confirmed: true } as const, resolvedBy: "bob", resolvedAt: 2 };
    const { result: _result, ...planned } = effect(0, 0, "c1", { status: "planned" });
    for (const requirement of [open, decided]) {
      const made = beginning([user("q"), assistant("a1", ["c1", "c2"])], [{ ...planned, requirement }, effect(0, 1, "c2", { requirement: decided })]);
      expect(made.effects).toEqual([planned, effect(0, 1, "c2")]);
      // Readers see the results that there are: the reply, and one of the two.
      expect(made.index).toBe(3);
    }
  });

  it("P4 a call that may have happened is asked about anew, and keeps its key", () => {
    const unknown = effect(0, 0, "c1", { status: "unknown", requirement: { id: "r1", kind: "unknown_outcome", createdAt: 1, shownHash: "h", resolution: { kind: "unknown_outcome", decision: "run" } } });
    const [kept] = beginning([user("q"), assistant("a1", ["c1"])], [unknown]).effects;
    expect(kept).toEqual({ ...unknown, requirement: { id: expect.any(String), kind: "unknown_outcome", createdAt: 9, shownHash: "h" } });
    expect(kept?.requirement?.id).not.toBe("r1");
    expect(isWaiting(kept as Effect)).toBe(true);
    // Of one that the end of its run overtook nobody was asked, and nobody is.
    const overtaken = effect(0, 0, "c1", { status: "unknown", result: "cancelled while running; it may have happened" });
    expect(beginning([user("q"), assistant("a1", ["c1"])], [overtaken]).effects).toEqual([overtaken]);
  });

  it("C042 of any run, at any index that readers see, is sound and only takes", () => {
    const random = seeded(42);
    for (let round = 0; round < 500; round += 1) {
      const messages: OwnMessage[] = [user("q")];
      const rows: Effect[] = [];
      for (let step = 0, steps = random.below(5); step < steps; step += 1) {
        const ids = Array.from({ length: random.below(4) }, (_, position) => `c${step}-${position}`);
        messages.push(assistant(`a${step}`, ids));
        ids.forEach((id, position) => rows.push(effect(step, position, id, { status: random.pick(["done", "failed", "rejected", "skipped", "unknown"]) })));
        if (random.below(4) === 0) messages.push(user(`u${step}`));
      }
      // The newest batch may wait.
      const last = messages.findLast((message) => message.role === "assistant");
      if (random.below(2) === 0 && last?.role === "assistant") {
        const ids = last.toolCalls.map(({ id }) => id);
        for (const row of rows) if (ids.includes(row.callId) && random.below(2) === 0) Object.assign(row, { status: "planned", result: undefined, requirement: open });
      }
      if (random.below(4) === 0) messages.push(assistant("Half", [], { partial: true }));
      const before = JSON.stringify([messages, rows]);
      const whole = messages.filter((message) => !(message.role === "assistant" && message.partial === true));
      const readable = readableMessages(whole, rows);
      for (let index = 0; index <= readable.length; index += 1) {
        const made = beginning(messages, rows, { continueFrom: index, input: "on" });
        expect(pairingProblems(withToolResults(made.messages, made.effects))).toEqual([]);
        expect(made.messages.slice(0, -1)).toEqual(whole.slice(0, made.messages.length - 1));
        expect(made.effects.every((row) => !isWaiting(row) && (isSettled(row.status) || row.status === "planned"))).toBe(true);
        expect(Math.abs(made.index - index)).toBeLessThanOrEqual(3);
      }
      expect(from(messages, rows, { continueFrom: readable.length + 1, input: "on" }).ok).toBe(false);
      expect(JSON.stringify([messages, rows])).toBe(before);
    }
  });
});
