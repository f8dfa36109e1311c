import { describe, expect, it } from "vitest";
import { countUserText, historyProblems } from "../../fakes/valid-history.ts";

// A checker that lets everything pass proves nothing: each rule is broken once.

const problems = (wire: "anthropic" | "responses" | "chat", list: object[], more: object = {}) =>
  historyProblems(wire, wire === "responses" ? { input: list, store: false, ...more } : { messages: list, ...more }).join(" ");

describe("on the Chat wire", () => {
  const u = { role: "user", content: "hi" };
  const ask = (...ids: string[]) => ({ role: "assistant", content: null, tool_calls: ids.map((id) => ({ id, function: { name: "ping", arguments: "{}" } })) });
  const answer = (id: string) => ({ role: "tool", tool_call_id: id, content: "pong" });

  it("a sound history has no problem", () => {
    expect(problems("chat", [u, ask("a", "b"), answer("a"), answer("b"), { role: "assistant", content: "done" }, u])).toBe("");
  });

  it.each([
    ["a missing result", [u, ask("a"), u], "no result directly after"],
    ["a missing result at the end", [u, ask("a")], "have no result"],
    ["one result of two", [u, ask("a", "b"), answer("a"), u], "The calls b have no result"],
    ["a result out of order", [u, ask("a", "b"), answer("b"), answer("a")], "out of order"],
    ["a result without a call", [u, answer("a")], "no open call"],
    ["a second result", [u, ask("a"), answer("a"), answer("a")], "no open call"],
    ["a result in front", [answer("a")], "begins with a result"],
    ["an id that is used twice", [u, ask("a"), answer("a"), ask("a"), answer("a")], "used twice"],
    ["an id that providers refuse", [u, ask("a:b"), answer("a:b")], "refuse"],
    ["a blank text", [{ role: "user", content: " " }], "is blank"],
    ["a blank result", [u, ask("a"), { ...answer("a"), content: "" }], "is blank"],
    ["an empty message", [u, { role: "assistant", content: null }], "is empty"],
    ["arguments that are no object", [u, { role: "assistant", content: null, tool_calls: [{ id: "a", function: { arguments: "[1]" } }] }, answer("a")], "no JSON object"],
    ["arguments that are no JSON", [u, { role: "assistant", content: null, tool_calls: [{ id: "a", function: { arguments: "{" } }] }, answer("a")], "no JSON object"],
    ["half of a character", [{ role: "user", content: "\ud83d" }], "surrogate"],
    ["a late system message", [u, { role: "system", content: "x" }], "not in front"],
    ["nothing at all", [], "is empty"],
  ])("%s", (_what, list, problem) => expect(problems("chat", list)).toContain(problem));

  it("counts what users said", () => {
    expect(countUserText("chat", { messages: [u, { role: "assistant", content: "hi" }, u] }, "hi")).toBe(2);
  });
});

describe("on the Messages wire", () => {
  const u = { role: "user", content: [{ type: "text", text: "hi" }] };
  const ask = { role: "assistant", content: [{ type: "tool_use", id: "a", name: "ping", input: {} }] };
  const answer = { type: "tool_result", tool_use_id: "a", content: "pong" };
  const tools = { tools: [{ name: "ping" }] };
  const marked = { type: "text", text: "x", cache_control: {} };

  it("a sound history has no problem", () => {
    expect(problems("anthropic", [u, ask, { role: "user", content: [answer, { type: "text", text: "go on" }] }], tools)).toBe("");
  });

  it.each([
    ["a first message of the assistant", [{ role: "assistant", content: "x" }, u], {}, "first message"],
    ["a last message of the assistant", [u, { role: "assistant", content: "x" }], {}, "last message"],
    ["two messages of one role", [u, u], {}, "one role"],
    ["a message without content", [u, { role: "assistant", content: [] }, u], {}, "no content"],
    ["reasoning at the end", [u, { role: "assistant", content: [{ type: "text", text: "x" }, { type: "thinking", thinking: "", signature: "s" }] }, u], {}, "ends with reasoning"],
    ["reasoning without a signature", [u, { role: "assistant", content: [{ type: "thinking", thinking: "" }, { type: "text", text: "x" }] }, u], {}, "no signature"],
    ["a result after text", [u, ask, { role: "user", content: [{ type: "text", text: "x" }, answer] }], tools, "after text"],
    ["calls without a declared tool", [u, ask, { role: "user", content: [answer] }], {}, "no tool is declared"],
    ["too many cache marks", [{ role: "user", content: [marked, marked, marked, marked, marked] }], {}, "four are allowed"],
    ["a blank system block", [u], { system: [{ type: "text", text: "" }] }, "system block is blank"],
  ])("%s", (_what, list, more, problem) => expect(problems("anthropic", list, more)).toContain(problem));
});

describe("on the Responses wire", () => {
  const u = { role: "user", content: "hi" };
  const call = { type: "function_call", call_id: "a", name: "ping", arguments: "{}" };
  const output = { type: "function_call_output", call_id: "a", output: "pong" };
  const reasoning = { type: "reasoning", id: "rs", summary: [], encrypted_content: "x" };

  it("a sound history has no problem", () => {
    expect(problems("responses", [u, reasoning, { role: "assistant", content: "x" }, reasoning, call, output, u])).toBe("");
  });

  it.each([
    ["a stored request", [u], { store: true }, "stored"],
    ["reasoning that leads to nothing", [u, reasoning, u], {}, "not followed"],
    ["reasoning without content", [u, { type: "reasoning", id: "rs" }, call, output], {}, "no encrypted content"],
    ["a missing output", [u, call, u], {}, "no result directly after"],
  ])("%s", (_what, list, more, problem) => expect(problems("responses", list, more)).toContain(problem));
});
