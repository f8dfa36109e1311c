import { describe, expect, it } from "vitest";
import type { AppError } from "../../../src/domain/errors.ts";
import type { Requirement } from "../../../src/domain/requirement.ts";
import type { ToolCallView } from "../../../src/domain/run-event.ts";
import { readAnswers } from "../../../src/routes/answers.ts";
import { requirementToWire, toolToWire } from "../../../src/routes/wire/tool-execution.ts";

const view = (requirement?: Omit<Requirement, "id" | "createdAt">): ToolCallView & { requirement: Requirement } => ({
  callId: "c1",
  toolName: "send_mail",
  arguments: { to: "ann" },
  status: "planned",
  requirement: { id: "r1", createdAt: 1_000, kind: "confirmation", shownHash: "abc", ...requirement },
});

/** A call as the run shows it, and as AgentOS's clients send it back: with every key. */
const echo = (requirement: Omit<Requirement, "id" | "createdAt"> | undefined, changes: Record<string, unknown> = {}) => ({ ...toolToWire(view(requirement), 1_000), ...changes });
const echoed = (requirement: Omit<Requirement, "id" | "createdAt"> | undefined, changes: Record<string, unknown> = {}) => ({ ...requirementToWire(view(requirement)), ...changes });

const fields: Requirement["fields"] = [
  { name: "date", type: "str", description: "When." },
  { name: "seats", type: "int", value: 2 },
];
const questions: Requirement["questions"] = [
  { question: "Which?", multiSelect: false, options: [{ label: "A" }, { label: "B" }] },
  { question: "What else?", multiSelect: true, options: [{ label: "C" }] },
];

function refusal(given: Parameters<typeof readAnswers>[0]): AppError {
  try {
    readAnswers(given);
  } catch (error) {
    return error as AppError;
  }
  throw new Error("It was taken.");
}

describe("answers in tools", () => {
  it("a call that is echoed as it was told says nothing", () => {
    expect(readAnswers({ tools: [echo(undefined)] })).toEqual([{ callId: "c1" }]);
    expect(readAnswers({ tools: [echo({ kind: "external_execution" })] })).toEqual([{ callId: "c1" }]);
    expect(readAnswers({ tools: [echo({ kind: "user_feedback", questions })] })).toEqual([{ callId: "c1" }]);
    expect(readAnswers({ tools: [echo({ kind: "unknown_outcome" })] })).toEqual([{ callId: "c1" }]);
  });

  it("are taken as text, as forms write them, and as they are in JSON", () => {
    const tools = [echo(undefined, { confirmed: true, confirmation_note: "Go." })];
    const answers = [{ callId: "c1", confirmed: true, note: "Go." }];
    expect(readAnswers({ tools })).toEqual(answers);
    expect(readAnswers({ tools: JSON.stringify(tools) })).toEqual(answers);
    expect(readAnswers({})).toEqual([]);
    expect(readAnswers({ tools: "[]", requirements: [] })).toEqual([]);
  });

  it("C041 keep no, 0, false and the empty text as answers", () => {
    expect(readAnswers({ tools: [echo(undefined, { confirmed: false })] })).toEqual([{ callId: "c1", confirmed: false }]);
    const filled = [{ name: "a", value: 0 }, { name: "b", value: "" }, { name: "c", value: false }, { name: "d", value: [] }];
    expect(readAnswers({ tools: [echo(undefined, { user_input_schema: filled })] })).toEqual([{ callId: "c1", values: { a: 0, b: "", c: false, d: [] } }]);
    expect(readAnswers({ tools: [echo({ kind: "external_execution" }, { result: "" })] })).toEqual([{ callId: "c1", result: "" }]);
  });

  it.each([
    ["confirmed", "false"],
    ["confirmed", 1],
    ["confirmed", "yes"],
    ["confirmation_note", 7],
    ["edited_args", "{}"],
    ["edited_args", [1]],
    ["user_input_schema", { date: "x" }],
    ["user_input_schema", [{ value: 1 }]],
    ["user_feedback_schema", [{ selected_options: "A" }]],
    ["user_feedback_schema", [{ selected_options: [1] }]],
    ["result", { ok: true }],
    ["result", 7],
    ["outcome", "maybe"],
    ["answered", "true"],
    ["tool_call_id", null],
    ["tool_call_id", ""],
  ])("C041 %s: %j is refused by name", (key, value) => {
    const tools = [echo(undefined), echo(undefined, { [key]: value })];
    const error = refusal({ tools: JSON.stringify(tools) });
    expect(error).toMatchObject({ code: "invalid_request", details: { field: expect.stringMatching(new RegExp(`^tools\\.1\\.${key}`)) } });
    expect(error.message).toContain(`tools.1.${key}`);
  });

  it("C041 null is nothing said", () => {
    expect(readAnswers({ tools: [{ tool_call_id: "c1", confirmed: null, result: null, edited_args: null, user_input_schema: null, answered: null }] })).toEqual([{ callId: "c1" }]);
  });

  it("what is no JSON, or no array, is refused by field", () => {
    expect(refusal({ tools: "{nope" })).toMatchObject({ code: "invalid_request", message: "Invalid JSON in tools field", details: { field: "tools" } });
    expect(refusal({ requirements: "[" })).toMatchObject({ message: "Invalid JSON in requirements field" });
    for (const tools of ["{}", "null", "7", '"x"', {}, 7, true]) expect(refusal({ tools })).toMatchObject({ message: "tools must be a JSON array" });
    for (const tools of [[7], [null], ["c1"], [[]], [{}]]) expect(refusal({ tools })).toMatchObject({ code: "invalid_request", details: { field: expect.stringMatching(/^tools\.0/) } });
    expect(refusal({ tools: [echo(undefined, { confirmation_note: "\ud83d" })] })).toMatchObject({ details: { field: "tools" } });
  });

  it("of input fields are those that were filled in; the rest is left to what the model wrote", () => {
    const asked = { kind: "user_input", fields } as const;
    expect(readAnswers({ tools: [echo(asked)] })).toEqual([{ callId: "c1", values: { seats: 2 } }]);
    const filled = [{ name: "date", field_type: "str", description: null, value: "Monday" }, { name: "seats", field_type: "int", description: null, value: 3 }];
    expect(readAnswers({ tools: [echo(asked, { user_input_schema: filled, answered: true })] })).toEqual([{ callId: "c1", values: { date: "Monday", seats: 3 }, answered: true }]);
    // Who says that nothing is answered yet has not answered.
    expect(readAnswers({ tools: [echo(asked, { answered: false })] })).toEqual([{ callId: "c1", answered: false }]);
    // Who says that all is said leaves everything to the model.
    expect(readAnswers({ tools: [{ tool_call_id: "c1", user_input_schema: [{ name: "seats", value: null }], answered: true }] })).toEqual([{ callId: "c1", values: {}, answered: true }]);
  });

  it("of questions are lists of labels, one a question", () => {
    const chosen = [{ question: "Which?", selected_options: ["B"] }, { question: "What else?", selected_options: null }];
    expect(readAnswers({ tools: [echo({ kind: "user_feedback", questions }, { user_feedback_schema: chosen })] })).toEqual([{ callId: "c1", selections: [["B"], []] }]);
  });

  it("other arguments are only ever those that someone wrote as such", () => {
    expect(readAnswers({ tools: [echo(undefined, { tool_args: { to: "mallory" }, confirmed: true })] })).toEqual([{ callId: "c1", confirmed: true }]);
    expect(readAnswers({ tools: [echo(undefined, { edited_args: { to: "bob" }, confirmed: true })] })).toEqual([{ callId: "c1", confirmed: true, arguments: { to: "bob" } }]);
  });

  it("S361 of an unknown outcome say what is to be done", () => {
    expect(readAnswers({ tools: [echo({ kind: "unknown_outcome" }, { outcome: "happened", result: "done" })] })).toEqual([{ callId: "c1", outcome: "happened", result: "done" }]);
  });

  it("a call that was decided is echoed with its decision", () => {
    expect(readAnswers({ tools: [echo({ kind: "confirmation", resolution: { kind: "confirmation", confirmed: true, note: "ok", arguments: { to: "bob" } } })] })).toEqual([
      { callId: "c1", confirmed: true, note: "ok", arguments: { to: "bob" } },
    ]);
  });
});

describe("answers in requirements", () => {
  it("are named by id, and stand on the requirement", () => {
    expect(readAnswers({ requirements: [{ id: "r1", confirmation: true }] })).toEqual([{ requirementId: "r1", confirmed: true }]);
    expect(readAnswers({ requirements: [{ id: "r1", confirmed: false, confirmation_note: "no" }] })).toEqual([{ requirementId: "r1", confirmed: false, note: "no" }]);
    expect(readAnswers({ requirements: [{ id: "r1", external_execution_result: "200 OK" }] })).toEqual([{ requirementId: "r1", result: "200 OK" }]);
    expect(readAnswers({ requirements: [{ id: "r1", outcome: "skip" }] })).toEqual([{ requirementId: "r1", outcome: "skip" }]);
  });

  it("echoed whole, name the call as well, wherever the answer stands", () => {
    expect(readAnswers({ requirements: [echoed(undefined)] })).toEqual([{ requirementId: "r1", callId: "c1" }]);
    expect(readAnswers({ requirements: [echoed(undefined, { confirmation: true })] })).toEqual([{ requirementId: "r1", callId: "c1", confirmed: true }]);
    const inside = echo(undefined, { confirmed: true });
    expect(readAnswers({ requirements: [echoed(undefined, { tool_execution: inside })] })).toEqual([{ requirementId: "r1", callId: "c1", confirmed: true }]);
    expect(readAnswers({ requirements: [{ tool_execution: inside }] })).toEqual([{ callId: "c1", confirmed: true }]);
  });

  it("where both places hold a value, the call's counts, field by field", () => {
    const outside = [{ name: "date", value: "Monday" }, { name: "seats", value: 2 }];
    const tool = echo({ kind: "user_input", fields }, { user_input_schema: [{ name: "date", value: null }, { name: "seats", value: 4 }] });
    expect(readAnswers({ requirements: [{ id: "r1", user_input_schema: outside, tool_execution: tool }] })).toEqual([{ requirementId: "r1", callId: "c1", values: { date: "Monday", seats: 4 } }]);
  });

  it("a yes against a no is refused", () => {
    const no = echo(undefined, { confirmed: false });
    for (const requirement of [{ id: "r1", confirmation: true, tool_execution: no }, { id: "r1", confirmation: true, confirmed: false }]) {
      expect(refusal({ requirements: [requirement] })).toMatchObject({ code: "invalid_request", details: { field: "requirements.0.confirmation" } });
    }
  });

  it("that name no call are refused", () => {
    expect(refusal({ requirements: [{ confirmation: true }] })).toMatchObject({ code: "invalid_request", details: { field: "requirements.0.id" } });
    expect(refusal({ requirements: [{ id: "r1", confirmation: "true" }] })).toMatchObject({ details: { field: "requirements.0.confirmation" } });
    expect(refusal({ requirements: [{ id: "r1", tool_execution: { tool_call_id: "c1", confirmed: "true" } }] })).toMatchObject({ details: { field: "requirements.0.tool_execution.confirmed" } });
  });
});
