import { describe, expect, it } from "vitest";
import type { Requirement, Resolution } from "../../../src/domain/requirement.ts";
import type { Effect } from "../../../src/domain/tool-call.ts";
import { decides, matchAnswers } from "../../../src/session/answers.ts";
import type { Answer } from "../../../src/session/commands.ts";

/** A call of a paused run, and what it waits for. */
function effect(callId: string, requirement?: Partial<Requirement>, row: Partial<Effect> = {}): Effect {
  return {
    runId: "run-1",
    step: 0,
    position: 0,
    callId,
    toolName: "send",
    status: "planned",
    arguments: { to: "ada" },
    attempt: 1,
    plannedAt: 1,
    ...(requirement === undefined ? {} : { requirement: { id: `r-${callId}`, kind: "confirmation", createdAt: 1, ...requirement } }),
    ...row,
  };
}

const decided = (callId: string, resolution: Resolution, row: Partial<Effect> = {}) => effect(callId, { kind: resolution.kind === "rejected" ? "confirmation" : resolution.kind, resolution }, row);

/** What the answers make of each call, by its id; a refusal's code where they are refused. */
function match(answers: Answer[], effects: Effect[]) {
  const matched = matchAnswers(answers, effects);
  return matched.ok ? Object.fromEntries([...matched.value].map(([{ callId }, one]) => [callId, one.resolution ?? one.problems])) : matched.error.code;
}

describe("an answer finds its call", () => {
  const two = [effect("c1", {}), effect("c2", {})];

  it("C041 by the call's id or the requirement's, whatever their order", () => {
    expect(match([{ callId: "c2", confirmed: false }, { requirementId: "r-c1", confirmed: true }], two)).toEqual({ c1: { kind: "confirmation", confirmed: true }, c2: { kind: "confirmation", confirmed: false } });
  });

  it("C029 C035 or is refused: an id of no call, of another requirement than the call's, of none at all", () => {
    for (const answer of [{ callId: "c9" }, { requirementId: "r-c9" }, { requirementId: "r-c1", callId: "c2" }, {}]) expect(match([{ ...answer, confirmed: true }], two)).toBe("conflict");
  });

  it("C029 twice alike counts once; twice differently is refused", () => {
    expect(match([{ callId: "c1", confirmed: true }, { requirementId: "r-c1", confirmed: true }], two)).toEqual({ c1: { kind: "confirmation", confirmed: true } });
    expect(match([{ callId: "c1", confirmed: true }, { callId: "c1", confirmed: false }], two)).toBe("conflict");
    expect(match([{ callId: "c1", confirmed: true }, { callId: "c1", confirmed: true, note: "but" }], two)).toBe("conflict");
  });
});

describe("an answer in the words of what is asked", () => {
  it("C041 nothing is ever taken for a yes, nor for a no", () => {
    const one = [effect("c1", {})];
    expect(match([{ callId: "c1", confirmed: true }], one)).toEqual({ c1: { kind: "confirmation", confirmed: true } });
    expect(match([{ callId: "c1", confirmed: false, note: "No." }], one)).toEqual({ c1: { kind: "confirmation", confirmed: false, note: "No." } });
    expect(match([{ callId: "c1" }, { callId: "c1", confirmed: null as never }], one)).toEqual({ c1: [] });
    for (const confirmed of ["false", "true", 1, 0, "", {}]) expect(match([{ callId: "c1", confirmed: confirmed as never }], one)).toEqual({ c1: [expect.stringContaining("can not be read: confirmed")] });
    // An answer to something else says nothing about this.
    expect(match([{ callId: "c1", result: "x", values: { a: 1 }, outcome: "run" }], one)).toEqual({ c1: [] });
  });

  it("edited arguments are those that differ from the call's own", () => {
    const one = [effect("c1", undefined, { arguments: { to: "ada", n: 1 }, requirement: { id: "r", kind: "confirmation", createdAt: 1 } })];
    expect(match([{ callId: "c1", confirmed: true, arguments: { n: 1, to: "ada" } }], one)).toEqual({ c1: { kind: "confirmation", confirmed: true } });
    expect(match([{ callId: "c1", confirmed: true, arguments: { to: "bob" } }], one)).toEqual({ c1: { kind: "confirmation", confirmed: true, arguments: { to: "bob" } } });
    expect(match([{ callId: "c1", confirmed: true, arguments: "bob" as never }], one)).toEqual({ c1: [expect.stringContaining("arguments")] });
  });

  it("C041 values are kept as they are, field by field; what is no field is left out", () => {
    const fields = [{ name: "qty", type: "int" as const }, { name: "note", type: "str" as const }];
    const one = [effect("c1", { kind: "user_input", fields })];
    expect(match([{ callId: "c1", values: { note: "", qty: 0, other: 1 } }], one)).toEqual({ c1: { kind: "user_input", values: { qty: 0, note: "" } } });
    expect(match([{ callId: "c1", values: { qty: "many" } }], one)).toEqual({ c1: ['needs a value of type int for "qty"', 'needs a value for "note"'] });
  });

  it("values that only repeat what the model wrote are an echo, unless somebody says that they are the answer", () => {
    const one = [effect("c1", { kind: "user_input", fields: [{ name: "qty", type: "int", value: 4 }] })];
    expect(match([{ callId: "c1", values: { qty: 4 } }], one)).toEqual({ c1: [] });
    expect(match([{ callId: "c1", values: { qty: 4 }, answered: true }], one)).toEqual({ c1: { kind: "user_input", values: { qty: 4 } } });
    expect(match([{ callId: "c1", answered: true }], one)).toEqual({ c1: { kind: "user_input", values: { qty: 4 } } });
    expect(match([{ callId: "c1", values: { qty: 5 } }], one)).toEqual({ c1: { kind: "user_input", values: { qty: 5 } } });
  });

  it("a result from outside, selections, and what became of a call that nobody saw the end of", () => {
    const asked = [effect("c1", { kind: "external_execution" }), effect("c2", { kind: "user_feedback", questions: [{ question: "?", multiSelect: false, options: [{ label: "A" }] }] }), effect("c3", { kind: "unknown_outcome" }, { status: "unknown", result: "Nobody knows." })];
    expect(match([{ callId: "c1", result: "" }, { callId: "c2", selections: [["A"]] }, { callId: "c3", outcome: "happened", result: "receipt" }], asked)).toEqual({
      c1: { kind: "external_execution", result: "" },
      c2: { kind: "user_feedback", selections: [["A"]] },
      c3: { kind: "unknown_outcome", decision: "happened", result: "receipt" },
    });
    expect(match([{ callId: "c3", outcome: "happened", result: "Nobody knows." }], asked)).toEqual({ c3: ["needs the result of the call that happened"] });
    expect(match([{ callId: "c3", outcome: "maybe" as never }], asked)).toEqual({ c3: [expect.stringContaining("decision")] });
    expect(match([{ callId: "c1", result: 5 as never }, { callId: "c2", selections: "A" as never }], asked)).toEqual({ c1: [expect.any(String)], c2: [expect.any(String)] });
  });
});

describe("an answer about a call that is decided", () => {
  const approved = decided("c1", { kind: "confirmation", confirmed: true });
  const edited = decided("c1", { kind: "confirmation", confirmed: true, arguments: { to: "bob" } });
  const rejected = decided("c1", { kind: "rejected" });
  const outside = decided("c1", { kind: "external_execution", result: "r" });
  const filled = decided("c1", { kind: "user_input", values: { qty: 4 } });
  const chosen = decided("c1", { kind: "user_feedback", selections: [["A"]] });
  const done = effect("c1", undefined, { status: "done", result: "pong" });

  it.each<[string, Effect, Answer]>([
    ["nothing at all", rejected, {}],
    ["a yes to a yes", approved, { confirmed: true }],
    ["a no to a no", rejected, { confirmed: false, note: "again" }],
    ["the call's own arguments", approved, { confirmed: true, arguments: { to: "ada" } }],
    ["the edited arguments", edited, { confirmed: true, arguments: { to: "bob" } }],
    ["the values, and fields that are none of it", filled, { values: { qty: 4, other: 1 } }],
    ["the selections", chosen, { selections: [["A"]] }],
    ["the result", outside, { result: "r" }],
    ["the result of a call that nobody was asked about", done, { result: "pong" }],
  ])("that repeats %s is passed over", (_what, row, answer) => {
    expect(match([{ callId: "c1", ...answer }], [row])).toEqual({});
  });

  it.each<[string, Effect, Answer]>([
    ["S363 a yes to a no", rejected, { confirmed: true }],
    ["a no to a yes", approved, { confirmed: false }],
    ["C035 a yes to what nobody was asked about", done, { confirmed: true }],
    ["S363 other arguments", rejected, { arguments: { to: "bob" } }],
    ["other arguments than the edited ones", edited, { arguments: { to: "eve" } }],
    ["S363 a result where it was rejected", rejected, { result: "x" }],
    ["another result", outside, { result: "x" }],
    ["another result of a call that is done", done, { result: "x" }],
    ["other values", filled, { values: { qty: 5 } }],
    ["other selections", chosen, { selections: [["B"]] }],
    ["an outcome where nobody asked for one", approved, { outcome: "run" }],
  ])("that says %s comes too late", (_what, row, answer) => {
    expect(match([{ callId: "c1", ...answer }], [row])).toBe("conflict");
  });

  it("closed by the end of its run can not be decided any more", () => {
    expect(match([{ callId: "c1", confirmed: true }], [effect("c1", {}, { status: "skipped", result: "Not executed." })])).toBe("conflict");
  });
});

it("what decides, and what only names a call", () => {
  for (const answer of [{ confirmed: false }, { values: {} }, { selections: [] }, { result: "" }, { outcome: "skip" as const }]) expect(decides({ callId: "c1", ...answer })).toBe(true);
  for (const answer of [{}, { note: "x" }, { confirmed: null as never }, { answered: true }]) expect(decides({ callId: "c1", ...answer })).toBe(false);
});
