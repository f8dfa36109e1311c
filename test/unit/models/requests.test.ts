import { describe, expect, it } from "vitest";
import type { Message } from "../../../src/domain/message.ts";
import { toMessagesRequest } from "../../../src/models/anthropic/request.ts";
import type { GenerationOptions, ModelRequest } from "../../../src/models/model.ts";
import { toChatRequest } from "../../../src/models/openai/chat-request.ts";
import { toResponsesRequest } from "../../../src/models/openai/responses-request.ts";

const PING = { name: "ping", description: "Pings.", parameters: { properties: { host: { type: "string" } } } };
const user = (content: string): Message => ({ id: "u", createdAt: 0, role: "user", content });
const system = (content: string): Message => ({ id: "s", createdAt: 0, role: "system", content });
const reply = (content: string, callId?: string, more: object = {}): Message => ({
  id: "a",
  createdAt: 0,
  role: "assistant",
  content,
  toolCalls: callId ? [{ id: callId, name: "ping", arguments: {} }] : [],
  provider: "scripted",
  model: "demo",
  finishReason: "stop",
  ...more,
});
const result = (toolCallId: string, content = "pong", isError = false): Message => ({ id: "r", createdAt: 0, role: "tool", toolCallId, toolName: "ping", content, isError });

const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({ messages: [user("hi")], tools: [], ...more });

describe("the Messages request", () => {
  const CACHE = { type: "ephemeral" };
  const sonnet = (more: Partial<ModelRequest> = {}, options = {}) => toMessagesRequest(request(more), "claude-sonnet-5", options);

  it("marks the end of the system prompt and of the last two user messages for the cache", () => {
    const body = sonnet({ system: "Be brief.", tools: [PING], messages: [user("one"), reply("1"), user("two"), reply("", "t1"), result("t1"), user("three")] });
    expect(body.system).toEqual([{ type: "text", text: "Be brief.", cache_control: CACHE }]);
    expect(body.tools).toEqual([{ name: "ping", description: "Pings.", input_schema: { type: "object", properties: PING.parameters.properties } }]);
    expect(body.messages).toEqual([
      { role: "user", content: [{ type: "text", text: "one" }] },
      { role: "assistant", content: [{ type: "text", text: "1" }] },
      { role: "user", content: [{ type: "text", text: "two", cache_control: CACHE }] },
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "ping", input: {} }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "pong" }, { type: "text", text: "three", cache_control: CACHE }] },
    ]);
  });

  it("marks the last tool where there is no system prompt, and nothing where caching is off", () => {
    expect(sonnet({ tools: [PING, { ...PING, name: "pong" }] }).tools).toMatchObject([{ name: "ping" }, { name: "pong", cache_control: CACHE }]);
    expect(JSON.stringify(sonnet({ system: "x", tools: [PING] }, { promptCaching: false }))).not.toContain("cache_control");
  });

  it("puts system messages of the history behind the system prompt", () => {
    expect(sonnet({ system: "One.", messages: [system("Two."), user("hi"), system(" ")] }).system).toMatchObject([{ text: "One." }, { text: "Two." }]);
  });

  it("puts consecutive messages of a user into one, each text on its own", () => {
    expect(sonnet({ messages: [user("one"), user("two")] }).messages).toMatchObject([{ role: "user", content: [{ text: "one" }, { text: "two" }] }]);
  });

  it("begins and ends with a user's message, also where the history does not", () => {
    const { messages } = sonnet({ messages: [reply("earlier "), user("hi"), reply("half an ans", undefined, { partial: true })] });
    expect(messages.map((message) => message.role)).toEqual(["user", "assistant", "user", "assistant", "user"]);
    expect(messages.at(-1)).toMatchObject({ content: [{ text: "Continue." }] });
  });

  it("says of a result that it is an error", () => {
    const { messages } = sonnet({ messages: [user("hi"), reply("", "t1"), result("t1", "no such host", true)], tools: [PING] });
    expect(messages.at(-1)).toMatchObject({ content: [{ type: "tool_result", content: "no such host", is_error: true }] });
  });

  it("declares the tools of the history where the agent has none any more, and lets none be called", () => {
    const body = sonnet({ messages: [user("hi"), reply("", "t1"), result("t1"), user("and now?")], toolChoice: "required" });
    expect(body.tools).toMatchObject([{ name: "ping", input_schema: { type: "object" } }]);
    expect(body.tool_choice).toEqual({ type: "none" });
  });

  it("passes on the choice of tools", () => {
    const choice = (toolChoice: ModelRequest["toolChoice"]) => sonnet({ tools: [PING], toolChoice }).tool_choice;
    expect([choice(undefined), choice("none"), choice("required"), choice({ name: "ping" })]).toEqual([{ type: "auto" }, { type: "none" }, { type: "any" }, { type: "tool", name: "ping" }]);
    expect(sonnet()).not.toHaveProperty("tool_choice");
  });

  it("asks for the bound of a reply that the agent sets, else the model's option, else the default", () => {
    expect(sonnet().max_tokens).toBe(32_000);
    expect(sonnet({}, { maxOutputTokens: 500 }).max_tokens).toBe(500);
    expect(sonnet({ options: { maxOutputTokens: 100, stop: ["END"] } }, { maxOutputTokens: 500 })).toMatchObject({ max_tokens: 100, stop_sequences: ["END"] });
  });

  for (const model of ["claude-sonnet-5", "claude-fable-5-1", "claude-opus-4-10", "claude-opus-4-6", "claude-next"]) {
    it(`asks ${model} for reasoning by effort`, () => {
      const body = toMessagesRequest(request({ options: { reasoningEffort: "minimal", temperature: 0.2 } }), model);
      expect(body).toMatchObject({ thinking: { type: "adaptive", display: "summarized" }, output_config: { effort: "low" } });
      expect(body).not.toHaveProperty("temperature");
    });
  }

  for (const model of ["claude-haiku-4-5-20251001", "claude-sonnet-4-20250514", "claude-3-7-sonnet-latest"]) {
    it(`asks ${model} for reasoning by budget, below the bound of the reply`, () => {
      const thinking = (more: Partial<ModelRequest>) => toMessagesRequest(request({ tools: [PING], ...more }), model).thinking;
      expect(thinking({ options: { reasoningEffort: "high" } })).toEqual({ type: "enabled", budget_tokens: 16_384 });
      expect(thinking({ options: { reasoningEffort: "high", maxOutputTokens: 2000 } })).toEqual({ type: "enabled", budget_tokens: 1999 });
      expect(thinking({ options: { reasoningEffort: "high", maxOutputTokens: 500 } })).toBeUndefined();
      expect(thinking({ options: { reasoningEffort: "high" }, toolChoice: "required" })).toBeUndefined();
    });
  }

  it("gives own reasoning back as it was signed, also without its text, and only with its proof", () => {
    const own = reply("yes", undefined, { provider: "anthropic", model: "claude-sonnet-5", reasoning: [{ text: "hm", signature: "s1" }, { text: "", signature: "s2" }, { text: "", redacted: "r" }, { text: "cut off" }] });
    expect(sonnet({ messages: [user("hi"), own, user("go on")] }).messages[1]).toEqual({
      role: "assistant",
      content: [
        { type: "thinking", thinking: "hm", signature: "s1" },
        { type: "thinking", thinking: "", signature: "s2" },
        { type: "redacted_thinking", data: "r" },
        { type: "text", text: "yes" },
      ],
    });
  });

  it("passes sampling on to the generations that take it, unless they reason", () => {
    const options = { temperature: 0.2, topP: 0.9 };
    expect(toMessagesRequest(request({ options }), "claude-sonnet-4-5")).toMatchObject({ temperature: 0.2, top_p: 0.9 });
    expect(toMessagesRequest(request({ options: { ...options, reasoningEffort: "low" } }), "claude-sonnet-4-5")).not.toHaveProperty("temperature");
    expect(toMessagesRequest(request({ options }), "claude-opus-4-7")).not.toHaveProperty("temperature");
  });
});

describe("the Responses request", () => {
  const options: GenerationOptions = { temperature: 0.2, topP: 0.9, maxOutputTokens: 100, reasoningEffort: "low", stop: ["END"] };

  it("stores nothing at the provider and asks for the encrypted reasoning", () => {
    expect(toResponsesRequest(request({ system: "Be brief.", options }), "gpt-5.2")).toEqual({
      model: "gpt-5.2",
      stream: true,
      store: false,
      instructions: "Be brief.",
      input: [{ role: "user", content: "hi" }],
      max_output_tokens: 100,
      include: ["reasoning.encrypted_content"],
      reasoning: { effort: "low", summary: "auto" },
    });
  });

  it("asks a model that does not reason for nothing of the kind, and passes sampling on to it", () => {
    for (const [model, more] of [["gpt-4.1", {}], ["gpt-5-chat-latest", {}], ["openai/gpt-4o", {}], ["ft:gpt-4o:acme", {}], ["o3", { reasoning: false }]] as const) {
      const body = toResponsesRequest(request({ options }), model, more);
      expect(body).toMatchObject({ temperature: 0.2, top_p: 0.9 });
      expect(body).not.toHaveProperty("include");
      expect(body).not.toHaveProperty("reasoning");
    }
  });

  it("keys the prompt cache by the session, within the bound of the API", () => {
    expect(toResponsesRequest(request({ sessionId: "s-1" }), "gpt-5.2").prompt_cache_key).toBe("s-1");
    const long = `sbx:${"😀".repeat(60)}x`;
    const key = toResponsesRequest(request({ sessionId: long }), "gpt-5.2").prompt_cache_key!;
    expect(key.length).toBeLessThanOrEqual(64);
    expect(key.isWellFormed()).toBe(true);
  });

  it("says tools and their choice, without demanding strict schemas", () => {
    expect(toResponsesRequest(request({ tools: [PING], toolChoice: { name: "ping" } }), "gpt-5.2")).toMatchObject({
      tools: [{ type: "function", name: "ping", strict: false, parameters: PING.parameters }],
      tool_choice: { type: "function", name: "ping" },
    });
  });

  it("sends messages with their phase and reasoning in front of what it led to", () => {
    const item = (id: string) => ({ type: "reasoning", id, summary: [], encrypted_content: `secret ${id}` });
    const own = reply("Looking. Found.", "t1", {
      provider: "openai",
      model: "gpt-5.2",
      providerData: {
        output: [{ type: "reasoning", item: item("rs_1") }, { type: "message", length: 9, phase: "commentary" }, { type: "reasoning", item: item("rs_2") }, { type: "call" }, { type: "message", length: 6 }, { type: "reasoning", item: item("rs_3") }],
      },
    });
    expect(toResponsesRequest(request({ messages: [user("hi"), own, result("t1")] }), "gpt-5.2").input).toEqual([
      { role: "user", content: "hi" },
      item("rs_1"),
      { role: "assistant", content: "Looking. ", phase: "commentary" },
      item("rs_2"),
      { type: "function_call", call_id: "t1", name: "ping", arguments: "{}" },
      { role: "assistant", content: "Found." },
      { type: "function_call_output", call_id: "t1", output: "pong" },
    ]);
  });
});

describe("the Chat Completions request", () => {
  const chat = (more: Partial<ModelRequest>, ownServer = false) => toChatRequest(request(more), "local-x", { ownServer });

  it("asks for usage, and names the bound as the server knows it", () => {
    expect(chat({ options: { maxOutputTokens: 100, stop: ["END"], reasoningEffort: "low" }, sessionId: "s" })).toEqual({
      model: "local-x",
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: "user", content: "hi" }],
      max_tokens: 100,
      stop: ["END"],
      reasoning_effort: "low",
    });
    expect(chat({ options: { maxOutputTokens: 100 }, sessionId: "s" }, true)).toMatchObject({ max_completion_tokens: 100, prompt_cache_key: "s" });
  });

  it("puts every system message in front, as one", () => {
    expect(chat({ system: "One.", messages: [user("hi"), system("Two."), user("there")] }).messages).toEqual([
      { role: "system", content: "One.\n\nTwo." },
      { role: "user", content: "hi" },
      { role: "user", content: "there" },
    ]);
  });

  it("gives reasoning back within the turn only, under the name it came by", () => {
    const own = (callId: string) => reply("", callId, { provider: "openai-chat", model: "local-x", reasoning: [{ text: "hm " }, { text: "so" }], providerData: { reasoningField: "reasoning" } });
    expect(chat({ messages: [user("one"), own("t1"), result("t1"), user("two"), own("t2"), result("t2")], tools: [PING] }).messages).toEqual([
      { role: "user", content: "one" },
      { role: "assistant", content: null, tool_calls: [{ id: "t1", type: "function", function: { name: "ping", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "t1", content: "pong" },
      { role: "user", content: "two" },
      { role: "assistant", content: null, tool_calls: [{ id: "t2", type: "function", function: { name: "ping", arguments: "{}" } }], reasoning: "hm so" },
      { role: "tool", tool_call_id: "t2", content: "pong" },
    ]);
  });
});
