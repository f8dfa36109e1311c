import { describe, expect, inject, it } from "vitest";
import { anthropic } from "../../src/models/anthropic/index.ts";
import type { Model, ModelPart } from "../../src/models/model.ts";
import { openai, openaiChat } from "../../src/models/openai/index.ts";
import { describeModel, KEY } from "../conformance/model.ts";
import { fakeProviderClient } from "../fakes/client.ts";
import { end, err, frame, open, raw, redact, say, script, think } from "../fakes/script.ts";
import type { Script } from "../fakes/script.ts";

const url = inject("fakeProviderUrl");
const fake = fakeProviderClient(url);
const env = { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: KEY, OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: KEY };

describeModel("anthropic", () => ({ wire: "anthropic", model: anthropic("claude-test"), env }), () => fake);
describeModel("openai", () => ({ wire: "responses", model: openai("gpt-test"), env }), () => fake);
describeModel("openai-chat", () => ({ wire: "chat", model: openaiChat("local-test"), env }), () => fake);

/** Plays a script to a model and gives back all parts. */
async function ask(model: Model, key: string, played: Script): Promise<ModelPart[]> {
  await fake.next(key, played);
  const parts: ModelPart[] = [];
  const messages = [{ id: "u", createdAt: 0, role: "user" as const, content: `hello #${key}` }];
  for await (const part of model.stream({ messages, tools: [] }, { env, signal: new AbortController().signal })) parts.push(part);
  return parts;
}

describe("anthropic alone", () => {
  const model = anthropic("claude-test");

  it("C114 running totals replace each other", async () => {
    const parts = await ask(
      model,
      "anthropic-totals",
      script(
        open({ input: 1405, output: 1 }),
        say("hi"),
        frame({ type: "message_delta", delta: {}, usage: { output_tokens: 20 } }),
        frame({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { input_tokens: 1405, output_tokens: 57, cache_read_input_tokens: null } }),
        frame({ type: "message_stop" }),
      ),
    );
    expect(parts.at(-1)).toMatchObject({ type: "finish", usage: { inputTokens: 1405, outputTokens: 57 } });
  });

  it("C114 a reply that fails tells what was reported until then", async () => {
    const parts = await ask(model, "anthropic-paid", script(open({ input: 1405, output: 1 }), say("hi"), err("overloaded")));
    expect(parts.at(-1)).toMatchObject({ type: "error", error: { kind: "overloaded" }, usage: { inputTokens: 1405, outputTokens: 1 } });
  });

  it("signature and redacted reasoning are kept as they came", async () => {
    const parts = await ask(model, "anthropic-proof", script(think(["hm"], "signature-1"), think([], "signature-2"), redact("opaque"), say("hi"), end()));
    expect(parts.filter((part) => part.type === "reasoning-end")).toEqual([
      { type: "reasoning-end", signature: "signature-1" },
      // The newest models leave out the text of their reasoning unless asked for it; the proof comes all the same.
      { type: "reasoning-end", signature: "signature-2" },
      { type: "reasoning-end", redacted: "opaque" },
    ]);
  });

  for (const [word, reason] of [["pause_turn", "other:pause_turn"], ["model_context_window_exceeded", "length"], ["stop_sequence", "stop"]]) {
    it(`stop reason ${word} is ${reason}`, async () => {
      expect((await ask(model, `anthropic-${word}`, script(say("hi"), end(word)))).at(-1)).toMatchObject({ type: "finish", reason });
    });
  }

  it("C061 text for a block that was never opened is not lost", async () => {
    const stray = frame({ type: "content_block_delta", index: 7, delta: { type: "text_delta", text: "stray " } });
    const parts = await ask(model, "anthropic-stray", script(open(), stray, say("text"), end()));
    expect(parts.filter((part) => part.type === "text").map((part) => part.text)).toEqual(["stray ", "text"]);
  });
});

describe("openai-chat alone", () => {
  const model = openaiChat("local-test");
  const fragments = (...toolCalls: Record<string, unknown>[]) => script(...toolCalls.map((one) => frame({ choices: [{ index: 0, delta: { tool_calls: [one] } }] })), end("tool"));
  const two = [
    { id: "A", name: "ping", argumentsText: '{"n":1}' },
    { id: "B", name: "ping", argumentsText: '{"n":2}' },
  ];

  const shapes: [string, Script, typeof two][] = [
    [
      "(a) two ids, both index 0",
      fragments({ index: 0, id: "A", function: { name: "ping", arguments: '{"n"' } }, { index: 0, function: { arguments: ":1}" } }, { index: 0, id: "B", function: { name: "ping", arguments: '{"n":' } }, { index: 0, function: { arguments: "2}" } }),
      two,
    ],
    [
      "(a) two ids, both index 0, fragments mixed",
      fragments({ index: 0, id: "A", function: { name: "ping", arguments: "" } }, { index: 0, id: "B", function: { name: "ping", arguments: "" } }, { index: 0, id: "A", function: { arguments: '{"n":1}' } }, { index: 0, id: "B", function: { arguments: '{"n":2}' } }),
      two,
    ],
    [
      "(b) no index, ids present",
      fragments({ id: "A", function: { name: "ping", arguments: '{"n"' } }, { id: "A", function: { arguments: ":1}" } }, { id: "B", function: { name: "ping", arguments: '{"n":2' } }, { function: { arguments: "}" } }),
      two,
    ],
    [
      "(c) indices 0 and 1, fragments mixed",
      fragments({ index: 0, id: "A", function: { name: "ping" } }, { index: 1, id: "B", function: { name: "ping" } }, { index: 1, function: { arguments: '{"n"' } }, { index: 0, function: { arguments: '{"n":1}' } }, { index: 1, function: { arguments: ":2}" } }),
      two,
    ],
    [
      "(d) the id only on the first fragment, later null or empty",
      fragments({ index: 0, id: "A", function: { name: "ping", arguments: null } }, { index: 0, id: null, function: { name: null, arguments: '{"n":1}' } }, { index: 1, id: "B", function: { name: "ping", arguments: "" } }, { index: 1, id: "", function: { name: "", arguments: '{"n":2}' } }),
      two,
    ],
    [
      "(e) the index begins at 1",
      fragments({ index: 1, id: "A", function: { name: "ping", arguments: '{"n":1}' } }, { index: 2, id: "B", function: { name: "ping", arguments: '{"n":2}' } }),
      two,
    ],
    [
      "(f) the name is sent twice",
      fragments({ index: 0, id: "A", function: { name: "ping", arguments: '{"n"' } }, { index: 0, function: { name: "ping", arguments: ":1}" } }, { index: 1, id: "B", function: { name: "ping", arguments: "" } }, { index: 1, id: "B", function: { name: "ping", arguments: '{"n":2}' } }),
      two,
    ],
    [
      "(g) one id twice with different index: two calls, told with the id they came with",
      fragments({ index: 0, id: "A", function: { name: "ping", arguments: '{"n":1}' } }, { index: 1, id: "A", function: { name: "ping", arguments: '{"n":2}' } }),
      [two[0]!, { ...two[1]!, id: "A" }],
    ],
    [
      "arguments as an object instead of text",
      fragments({ index: 0, id: "A", function: { name: "ping", arguments: { n: 1 } } }, { index: 1, id: "B", function: { name: "ping", arguments: { n: 2 } } }),
      two,
    ],
  ];
  for (const [index, [what, played, expected]] of shapes.entries()) {
    it(`C064 ${what}`, async () => {
      const parts = await ask(model, `chat-shape-${index}`, played);
      expect(parts.slice(0, -1)).toEqual(expected.map((one) => ({ type: "tool-call", ...one })));
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "tool_calls" });
    });
  }

  it("C064 calls without id and index, each in one piece, get ids of their own", async () => {
    const parts = await ask(model, "chat-no-names", fragments({ function: { name: "ping", arguments: '{"n":1}' } }, { function: { name: "ping", arguments: '{"n":2}' } }, { index: 0, id: "", function: { name: "ping", arguments: '{"n":3}' } }));
    const told = parts.filter((part) => part.type === "tool-call");
    expect(told.map((one) => one.argumentsText)).toEqual(['{"n":1}', '{"n":2}', '{"n":3}']);
    expect(new Set(told.map((one) => one.id)).size).toBe(3);
    expect(told.every((one) => one.id !== "")).toBe(true);
  });

  it("a server that says stop after calls meant tool calls", async () => {
    const call = frame({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: "A", function: { name: "ping", arguments: "{}" } }] } }] });
    expect((await ask(model, "chat-stop", script(call, end("stop")))).at(-1)).toMatchObject({ type: "finish", reason: "tool_calls" });
  });

  it("usage may come in every chunk, and [DONE] may be missing", async () => {
    const chunk = (content: string, completion_tokens: number, finish_reason: string | null) => frame({ choices: [{ index: 0, delta: { content }, finish_reason }], usage: { prompt_tokens: 1405, completion_tokens } });
    const parts = await ask(model, "chat-totals", script(chunk("a", 1, null), chunk("b", 2, null), chunk("c", 57, "stop"), { type: "eof" }));
    expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "stop", usage: { inputTokens: 1405, outputTokens: 57 } });
  });

  it("a reply that was whole before its socket was cut is whole", async () => {
    const parts = await ask(model, "chat-whole", script(frame({ choices: [{ index: 0, delta: { content: "all" }, finish_reason: "stop" }] }), { type: "wait", ms: 20 }, { type: "cut" }));
    expect(parts.map((part) => part.type)).toEqual(["text", "finish"]);
  });

  it("[DONE] without a finish reason completes nothing", async () => {
    const parts = await ask(model, "chat-done", script(say("half"), raw("data: [DONE]\n\n"), { type: "eof" }));
    expect(parts.at(-1)).toMatchObject({ type: "error", error: { kind: "interrupted" } });
  });

  it("an error frame with an HTTP status as its code is understood", async () => {
    const error = (code: number) => script(say("half"), frame({ id: "x", error: { code, message: "Upstream said no." }, choices: [{ index: 0, delta: {}, finish_reason: "error" }] }));
    expect((await ask(model, "chat-code", error(429))).at(-1)).toMatchObject({ type: "error", error: { kind: "rate_limited", status: 429 } });
    expect((await ask(model, "chat-code", error(502))).at(-1)).toMatchObject({ type: "error", error: { kind: "server_error" } });
  });
});

describe("openai alone", () => {
  const model = openai("gpt-test");

  it("an error event of its own is a failure", async () => {
    const parts = await ask(model, "responses-error", script(open(), frame({ type: "error", code: "rate_limit_exceeded", message: "Slow down.", param: null })));
    expect(parts).toEqual([{ type: "error", error: expect.objectContaining({ kind: "rate_limited", providerCode: "rate_limit_exceeded" }) }]);
  });

  it("C062 the closing frame's arguments count, and an item that is closed twice is one call", async () => {
    const item = { type: "function_call", id: "fc_1", call_id: "call_1", name: "ping", arguments: "" };
    const done = frame({ type: "response.output_item.done", output_index: 0, item: { ...item, arguments: '{"n":1}' } });
    const parts = await ask(model, "responses-done", script(open(), frame({ type: "response.output_item.added", output_index: 0, item }), done, done, end("tool")));
    expect(parts.slice(0, -1)).toEqual([{ type: "tool-call", id: "call_1", name: "ping", argumentsText: '{"n":1}' }]);
  });

  it("the phase of a message goes back with it", async () => {
    const message = (id: string, phase: string) => ({ type: "message", id, role: "assistant", phase, content: [] });
    const piece = (index: number, id: string, phase: string, text: string) => [
      frame({ type: "response.output_item.added", output_index: index, item: message(id, phase) }),
      frame({ type: "response.output_text.delta", output_index: index, item_id: id, delta: text }),
      frame({ type: "response.output_item.done", output_index: index, item: message(id, phase) }),
    ];
    const parts = await ask(model, "responses-phase", script(open(), ...piece(0, "m1", "commentary", "Looking. "), ...piece(1, "m2", "final_answer", "Found."), end()));
    const last = parts.at(-1);
    expect(last).toMatchObject({ type: "finish", providerData: { output: [{ type: "message", length: 9, phase: "commentary" }, { type: "message", length: 6, phase: "final_answer" }] } });
  });
});
