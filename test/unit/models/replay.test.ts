import { describe, expect, it } from "vitest";
import type { AssistantMessage, Message, ToolMessage, UserMessage } from "../../../src/domain/message.ts";
import { toMessagesRequest } from "../../../src/models/anthropic/request.ts";
import type { ModelRequest } from "../../../src/models/model.ts";
import { toChatRequest } from "../../../src/models/openai/chat-request.ts";
import { toResponsesRequest } from "../../../src/models/openai/responses-request.ts";
import { NO_RESULT, replayable } from "../../../src/models/replay.ts";
import { historyProblems } from "../../fakes/valid-history.ts";

const target = { provider: "anthropic", model: "claude-x" };

const user = (content: string): UserMessage => ({ id: "u", createdAt: 0, role: "user", content });
const result = (toolCallId: string, content = `result of ${toolCallId}`): ToolMessage => ({ id: "r", createdAt: 0, role: "tool", toolCallId, toolName: "ping", content, isError: false });
const assistant = (content: string, callIds: string[] = [], more: Partial<AssistantMessage> = {}): AssistantMessage => ({
  id: "a",
  createdAt: 0,
  role: "assistant",
  content,
  toolCalls: callIds.map((id) => ({ id, name: "ping", arguments: {} })),
  provider: "anthropic",
  model: "claude-x",
  finishReason: "stop",
  ...more,
});

/** The messages in short: `a:t1,t2` for calls, `t1=…` for results. */
const short = (messages: Message[]) =>
  messages.map((message) => {
    if (message.role === "tool") return `${message.toolCallId}=${message.content}`;
    return message.role === "assistant" ? `a:${message.toolCalls.map((call) => call.id).join(",")}` : `u:${message.content}`;
  });

describe("replayable", () => {
  it("leaves a sound history as it is", () => {
    const history = [user("hi"), assistant("", ["t1", "t2"]), result("t1"), result("t2"), assistant("done")];
    expect(replayable(history, target)).toEqual(history);
  });

  it("C001 gives a call without result one that claims neither success nor failure", () => {
    const [, , made] = replayable([user("hi"), assistant("", ["t1"]), user("still there?")], target);
    expect(made).toMatchObject({ role: "tool", toolCallId: "t1", content: NO_RESULT, isError: true });
  });

  it("C003 drops a result whose call is gone", () => {
    expect(short(replayable([user("hi"), result("q1"), user("next")], target))).toEqual(["u:hi", "u:next"]);
  });

  it("puts results directly after their calls, in call order", () => {
    expect(short(replayable([assistant("", ["t1", "t2"]), user("hurry"), result("t2"), result("t1")], target))).toEqual([
      "a:t1,t2",
      "t1=result of t1",
      "t2=result of t2",
      "u:hurry",
    ]);
  });

  it("keeps the first of two results for one call", () => {
    expect(short(replayable([assistant("", ["t1"]), result("t1", "first"), result("t1", "second")], target))).toEqual(["a:t1", "t1=first"]);
  });

  it("C064 tells ids apart that a server used again, in one reply and over the turns", () => {
    const history = [assistant("", ["call_0", "call_0"]), result("call_0", "one"), result("call_0", "two"), user("go on"), assistant("", ["call_0"]), result("call_0", "three")];
    expect(short(replayable(history, target))).toEqual(["a:call_0,call_0_2", "call_0=one", "call_0_2=two", "u:go on", "a:call_0_3", "call_0_3=three"]);
  });

  it("a result belongs to the newest call with its id", () => {
    const history = [assistant("", ["call_0"]), user("cancelled that"), assistant("", ["call_0"]), result("call_0", "of the second")];
    expect(short(replayable(history, target))).toEqual(["a:call_0", `call_0=${NO_RESULT}`, "u:cancelled that", "a:call_0_2", "call_0_2=of the second"]);
  });

  it("writes ids in the alphabet that every provider takes, and renames the result with the call", () => {
    const long = "x".repeat(80);
    const ids = ["toolu|fc:1", "", long, `${long}y`];
    const replayed = replayable([assistant("", ids), ...ids.map((id) => result(id))], target);
    const [asked, ...answers] = replayed as [AssistantMessage, ...ToolMessage[]];
    expect(asked.toolCalls.map((call) => call.id)).toEqual(["toolu_fc_1", "call", "x".repeat(64), `${"x".repeat(62)}_2`]);
    expect(answers.map((answer) => [answer.toolCallId, answer.content])).toEqual(asked.toolCalls.map((call, index) => [call.id, `result of ${ids[index]}`]));
  });

  it("C067 a tool name that the model made up does not poison later requests", () => {
    for (const name of ["multi_tool_use.parallel", "", "x".repeat(80), "schön", "\ud83d"]) {
      const [, reply, answer] = replayable([user("hi"), { ...assistant("", ["t1"]), toolCalls: [{ id: "t1", name, arguments: {} }] }, result("t1")], target);
      const [call] = (reply as AssistantMessage).toolCalls;
      expect(call!.name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect((answer as ToolMessage).toolName).toBe(call!.name);
    }
  });

  it("C057 C058 drops messages that say nothing, keeps what a cancelled reply had said", () => {
    const history = [user("hi"), assistant(""), assistant(" \n"), user("  "), assistant("Step one is A. ", [], { partial: true })];
    expect(replayable(history, target).map((message) => message.content)).toEqual(["hi", "Step one is A. "]);
  });

  it("C057 a reply of reasoning alone is dropped", () => {
    expect(replayable([user("hi"), assistant("", [], { reasoning: [{ text: "no", signature: "s" }] })], target)).toEqual([user("hi")]);
  });

  it("keeps opaque reasoning for the model that wrote it, and for no other", () => {
    const written = assistant("yes", [], { reasoning: [{ text: "hm", signature: "sig" }], providerData: { layout: [] } });
    expect(replayable([written], target)).toEqual([written]);
    for (const other of [{ provider: "openai", model: "claude-x" }, { provider: "anthropic", model: "claude-y" }]) {
      const [message] = replayable([written], other);
      expect(message).not.toHaveProperty("reasoning");
      expect(message).not.toHaveProperty("providerData");
    }
  });

  it("C068 a lone half of a surrogate pair becomes U+FFFD wherever it stands", () => {
    const broken = assistant("a\ud83d", [], { toolCalls: [{ id: "t1", name: "ping", arguments: { "k\ude00": ["\ud83d"] } }] });
    const replayed = replayable([user("\ud83d and \u0000"), broken, result("t1", "\ude00")], target);
    expect(replayed.map((message) => message.content)).toEqual(["\ufffd and \u0000", "a\ufffd", "\ufffd"]);
    expect((replayed[1] as AssistantMessage).toolCalls[0]!.arguments).toEqual({ "k\ufffd": ["\ufffd"] });
  });

  it("does not touch what it is given, and a longer history begins with the shorter one", () => {
    for (let seed = 1; seed <= 50; seed += 1) {
      const history = randomHistory(seed).filter((message) => message.role !== "tool");
      const before = structuredClone(history);
      const whole = replayable(history, target);
      expect(history).toEqual(before);
      const part = replayable(history.slice(0, -1), target);
      expect(whole.slice(0, part.length)).toEqual(part);
    }
  });
});

describe("any history becomes a request that providers take", () => {
  const bodies: Record<string, (request: ModelRequest) => [Parameters<typeof historyProblems>[0], object]> = {
    "anthropic": (request) => ["anthropic", toMessagesRequest(request, "claude-x")],
    "responses": (request) => ["responses", toResponsesRequest(request, "gpt-x")],
    "chat": (request) => ["chat", toChatRequest(request, "local-x", { ownServer: false })],
  };

  for (const [name, toBody] of Object.entries(bodies)) {
    it(`on the ${name} wire, whoever wrote it and however its turns ended`, () => {
      for (let seed = 1; seed <= 400; seed += 1) {
        const messages = [...randomHistory(seed), user("and now?")];
        const [wire, body] = toBody({ messages, system: "Be brief.", tools: [] });
        expect(historyProblems(wire, body as Record<string, unknown>), `seed ${seed}`).toEqual([]);
      }
    });
  }

  it("C007 also when a window cuts it anywhere", () => {
    const messages = [1, 2, 3, 4].flatMap((turn) => {
      const ids = ["a", "b", "c"].map((call) => `${call}${turn}`);
      return [user(`turn ${turn}`), assistant("", ids), ...ids.map((id) => result(id)), assistant(`answer ${turn}`)];
    });
    for (let from = 0; from < messages.length; from += 1) {
      for (const toBody of Object.values(bodies)) {
        const [wire, body] = toBody({ messages: [...messages.slice(from), user("newest")], tools: [] });
        expect(historyProblems(wire, body as Record<string, unknown>), `from ${from}`).toEqual([]);
      }
    }
  });
});

/** Histories as crashes, cancels, forks and careless servers leave them. */
function randomHistory(seed: number): Message[] {
  const random = mulberry32(seed);
  const pick = <T>(choices: readonly T[]): T => choices[Math.floor(random() * choices.length)]!;
  const ids = ["call_0", "call_1", "toolu_1", "fc|1:2", "", "é", "y".repeat(90)];
  const texts = ["hello", "", "   ", "\n", "half \ud83d", "\ude00", "family 👨‍👩‍👧", "a\u0000b"];
  const writers = [
    { provider: "anthropic", model: "claude-x" },
    { provider: "anthropic", model: "claude-old" },
    { provider: "openai", model: "gpt-x" },
    { provider: "openai-chat", model: "local-x" },
    { provider: "scripted", model: "demo" },
  ];
  const reasoningItem = (encrypted: boolean) => ({ type: "reasoning", item: { type: "reasoning", id: "rs_1", summary: [], ...(encrypted && { encrypted_content: "xyz" }) } });

  function reply(): AssistantMessage {
    const content = pick(texts);
    const callIds = Array.from({ length: Math.floor(random() * 4) }, () => pick(ids));
    const writer = pick(writers);
    const reasoning = pick([undefined, [], [{ text: "hm", signature: "s" }], [{ text: "", redacted: "r" }, { text: "cut" }], [{ text: "a \ud83d", signature: "s" }, { text: "b", signature: "t" }]]);
    const layout = pick([undefined, ["reasoning", content.length, "reasoning", ...callIds.map(() => "call")], [99, "call"], ["call", null, {}]]);
    const output = pick([
      undefined,
      [reasoningItem(true), { type: "message", length: content.length }, reasoningItem(true), ...callIds.map(() => ({ type: "call" }))],
      [...callIds.map(() => ({ type: "call" })), { type: "message", length: content.length, phase: "final_answer" }, reasoningItem(true)],
      [{ type: "message", length: 1 }],
      "nonsense",
    ]);
    return assistant(content, callIds, {
      ...writer,
      ...(reasoning && { reasoning }),
      providerData: writer.provider === "openai" ? { output } : writer.provider === "anthropic" ? { layout } : { reasoningField: "reasoning_content" },
      toolCalls: callIds.map((id) => ({ id, name: "ping", arguments: pick<Record<string, unknown>>([{}, { a: 1 }, { "\ud83d": "\ude00" }]) })),
      ...(random() < 0.2 && { partial: true }),
    });
  }

  return Array.from({ length: Math.floor(random() * 12) }, (): Message => {
    const kind = random();
    if (kind < 0.3) return user(pick(texts));
    if (kind < 0.65) return reply();
    if (kind < 0.7) return { id: "s", createdAt: 0, role: "system", content: pick(texts) };
    return result(pick(ids), pick(texts));
  });
}

/** A small generator of random numbers that gives the same ones for the same seed. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
