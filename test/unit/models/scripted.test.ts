import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { Message } from "../../../src/domain/message.ts";
import type { Clock } from "../../../src/lib/clock.ts";
import type { Model, ModelContext, ModelErrorKind, ModelPart, ModelRequest } from "../../../src/models/model.ts";
import {
  call,
  cutOff,
  end,
  fail,
  gate,
  gateReached,
  hang,
  refuse,
  releaseGate,
  reply,
  resetGates,
  say,
  scripted,
  scriptedModels,
  think,
  usage,
  wait,
} from "../../../src/models/scripted.ts";

const user = (content: string): Message => ({ id: "u", createdAt: 0, role: "user", content });
const assistant = (content: string, extra: Partial<Message & { role: "assistant" }> = {}): Message => ({
  id: "a",
  createdAt: 0,
  role: "assistant",
  content,
  toolCalls: [],
  provider: "scripted",
  model: "script",
  finishReason: "stop",
  ...extra,
});
const tool = (content: string): Message => ({ id: "t", createdAt: 0, role: "tool", toolCallId: "c", toolName: "look", content, isError: false });
const asked = (...messages: Message[]): ModelRequest => ({ messages: messages.length > 0 ? messages : [user("Hello")], tools: [] });

async function partsOf(model: Model, request = asked(), context: Partial<ModelContext> = {}): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of model.stream(request, { env: {}, signal: new AbortController().signal, ...context })) parts.push(part);
  return parts;
}

const textOf = (parts: ModelPart[]) => parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
const lastOf = (parts: ModelPart[]) => parts[parts.length - 1];
const endings = (parts: ModelPart[]) => parts.filter((part) => part.type === "finish" || part.type === "error");
const errorKind = (parts: ModelPart[]) => {
  const last = lastOf(parts);
  return last?.type === "error" ? last.error.kind : undefined;
};

afterEach(resetGates);

describe("what a reply says", () => {
  it("says text word by word and ends with stop and an estimate of what it used", async () => {
    expect(await partsOf(scripted(["Good day to you."]), asked(user("Hello, box")))).toEqual([
      { type: "text", text: "Good" },
      { type: "text", text: " day" },
      { type: "text", text: " to" },
      { type: "text", text: " you." },
      { type: "finish", reason: "stop", usage: { inputTokens: 3, outputTokens: 4, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 } },
    ]);
  });

  it.each(["", " ", "a", " a  b\n\nc ", "\n", "é 👩‍👩‍👧 x"])("loses nothing of %j, however it is cut", async (text) => {
    for (const pieces of ["words", 1, 2, 3, 100] as const) {
      expect(textOf(await partsOf(scripted([reply(say(text, { pieces }))])))).toBe(text);
    }
  });

  it("cuts inside a surrogate pair when it is told to", async () => {
    const parts = await partsOf(scripted([reply(say("😀", { pieces: 1 }))]));
    expect(parts.slice(0, 2)).toEqual([{ type: "text", text: "\ud83d" }, { type: "text", text: "\ude00" }]);
  });

  it("takes pieces as they are given", async () => {
    const parts = await partsOf(scripted([reply(say("", { pieces: ["ab", "", "c"] }))]));
    expect(parts.slice(0, 3).map((part) => part.type === "text" && part.text)).toEqual(["ab", "", "c"]);
  });

  it("refuses a cut that would never end", () => {
    expect(() => say("abc", { pieces: 0 })).toThrow(RangeError);
  });

  it("thinks aloud and closes the block with its proof", async () => {
    const parts = await partsOf(scripted([reply(think("Hm, well", { signature: "sig", redacted: "xx" }), "Yes.")]));
    expect(parts.slice(0, 4)).toEqual([
      { type: "reasoning", text: "Hm," },
      { type: "reasoning", text: " well" },
      { type: "reasoning-end", signature: "sig", redacted: "xx" },
      { type: "text", text: "Yes." },
    ]);
  });

  it("reports the usage it is told to, or none", async () => {
    expect(lastOf(await partsOf(scripted([reply("x", usage({ inputTokens: 9, reasoningTokens: 4 }))])))).toMatchObject({
      usage: { inputTokens: 9, outputTokens: 1, reasoningTokens: 4 },
    });
    expect(lastOf(await partsOf(scripted([reply("x", usage("none"))])))).toEqual({ type: "finish", reason: "stop" });
  });
});

describe("tool calls", () => {
  it("asks for several tools in one reply, each under an id of its own, and ends with tool_calls", async () => {
    const parts = await partsOf(scripted([reply("Both:", call("look", { id: 1 }), call("look", { id: 2 }))]));
    const calls = parts.filter((part) => part.type === "tool-call");
    expect(calls.map((part) => part.argumentsText)).toEqual(['{"id":1}', '{"id":2}']);
    expect(new Set(calls.map((part) => part.id)).size).toBe(2);
    expect(lastOf(parts)).toMatchObject({ type: "finish", reason: "tool_calls" });
  });

  it("uses another id in the next step, and the same one when the same step is asked for again", async () => {
    const model = scripted(() => reply(call("look")));
    const idOf = async (request: ModelRequest) => (await partsOf(model, request)).flatMap((part) => (part.type === "tool-call" ? [part.id] : []))[0];
    const first = asked(user("go"));
    const second = asked(user("go"), assistant(""), tool("1"));
    expect(await idOf(first)).toBe(await idOf(first));
    expect(await idOf(first)).not.toBe(await idOf(second));
  });

  it.each([
    ["text that is not JSON", "{customer: 7"],
    ["JSON that is no object", '["c-1001"]'],
    ["text that is cut off", '{"customer_id":"c-10'],
    ["nothing at all", ""],
  ])("passes on %s untouched", async (_what, text) => {
    const parts = await partsOf(scripted([reply(call("look", text, { id: "id-1" }), end("length"))]));
    expect(parts).toEqual([
      { type: "tool-call", id: "id-1", name: "look", argumentsText: text },
      expect.objectContaining({ type: "finish", reason: "length" }),
    ]);
  });

  it("never asked for a call that an abort stopped it from writing", async () => {
    const abort = new AbortController();
    const model = scripted([reply("One moment.", call("look", { customer_id: "c-1001" }, { pieces: 4, everyMs: 5 }))]);
    const parts: ModelPart[] = [];
    for await (const part of model.stream(asked(), { env: {}, signal: abort.signal })) {
      parts.push(part);
      if (part.type === "text" && part.text.includes("moment")) abort.abort();
    }
    expect(parts.some((part) => part.type === "tool-call")).toBe(false);
    expect(errorKind(parts)).toBe("aborted");
  });
});

describe("endings", () => {
  const KINDS: ModelErrorKind[] = [
    "aborted",
    "overloaded",
    "rate_limited",
    "server_error",
    "connection",
    "interrupted",
    "stalled",
    "authentication",
    "billing",
    "invalid_request",
    "context_overflow",
    "not_found",
    "protocol",
    "misconfigured",
  ];

  it.each(KINDS)("fails as %s before the stream and in the middle of it", async (kind) => {
    const details = { retryAfterMs: 20, status: 429, providerCode: "slow_down" };
    expect(await partsOf(scripted([reply(fail(kind, details))]))).toEqual([{ type: "error", error: { kind, message: expect.any(String), ...details } }]);
    const middle = await partsOf(scripted([reply("half a", fail(kind), "never")]));
    expect(textOf(middle)).toBe("half a");
    expect(endings(middle)).toEqual([{ type: "error", error: { kind, message: expect.any(String) } }]);
  });

  it("refuses, is cut off, stops for length and for reasons nobody knows", async () => {
    expect(lastOf(await partsOf(scripted([reply("I can't", refuse(), "x")])))).toMatchObject({ type: "finish", reason: "refusal" });
    expect(errorKind(await partsOf(scripted([reply("half", cutOff(), "x")])))).toBe("interrupted");
    expect(lastOf(await partsOf(scripted([reply("long", end("length"))])))).toMatchObject({ reason: "length" });
    expect(lastOf(await partsOf(scripted([reply(end("other:moon", { id: "r1" }))])))).toMatchObject({ reason: "other:moon", providerData: { id: "r1" } });
  });

  it("ends with exactly one finish or error, whatever is written after it", async () => {
    for (const written of [reply("a"), reply(), reply(refuse(), refuse()), reply(fail("billing"), end("stop")), reply(call("t"), cutOff())]) {
      const parts = await partsOf(scripted([written]));
      expect(endings(parts)).toHaveLength(1);
      expect(endings(parts)[0]).toBe(lastOf(parts));
    }
  });
});

describe("which reply is played", () => {
  const model = scripted([reply(call("look")), "Found it."]);

  it("goes by the replies given since the user last spoke", async () => {
    expect(lastOf(await partsOf(model, asked(user("go"))))).toMatchObject({ reason: "tool_calls" });
    expect(textOf(await partsOf(model, asked(user("go"), assistant(""), tool("7"))))).toBe("Found it.");
    // The next turn of the same conversation begins at the first reply again.
    expect(lastOf(await partsOf(model, asked(user("go"), assistant(""), tool("7"), assistant("Found it."), user("again"))))).toMatchObject({ reason: "tool_calls" });
  });

  it("is the same when the same step is asked for again, and when a failure left half a reply behind", async () => {
    const request = asked(user("go"), assistant(""), tool("7"));
    expect(await partsOf(model, request)).toEqual(await partsOf(model, request));
    expect(textOf(await partsOf(model, asked(user("go"), assistant(""), tool("7"), assistant("Fou", { partial: true }))))).toBe("Found it.");
  });

  it("is misconfigured where the script has no reply for the step", async () => {
    expect(await partsOf(model, asked(user("go"), assistant(""), tool("7"), assistant("x")))).toEqual([
      { type: "error", error: { kind: "misconfigured", message: 'Script "script" has 2 replies for a turn and was asked for number 3.' } },
    ]);
  });

  it("can be a function of the request and of what the turn holds", async () => {
    const echo = scripted((_request, { step, input, results }) => `${step} ${input} ${results.map((result) => result.content).join("+")}`);
    expect(textOf(await partsOf(echo, asked(user("old"), assistant("x"), user("go"), assistant(""), tool("1"), tool("2"))))).toBe("1 go 1+2");
  });

  it("does not throw when the script does", async () => {
    const broken = scripted(() => {
      throw new Error("no such customer");
    });
    expect(await partsOf(broken)).toEqual([{ type: "error", error: { kind: "misconfigured", message: 'Script "script" threw: no such customer' } }]);
  });

  it("comes from the models by name, and a name nobody gave lists those there are", async () => {
    const models = scriptedModels({ demo: ["Hi."], sad: ["Oh."] });
    expect(models("demo")).toMatchObject({ provider: "scripted", id: "demo" });
    expect(textOf(await partsOf(models("sad")))).toBe("Oh.");
    expect(await partsOf(models("toString"))).toEqual([
      { type: "error", error: { kind: "misconfigured", message: 'There is no script named "toString". There are: demo, sad.' } },
    ]);
  });

  it("remembers what it was asked, as it was asked", async () => {
    const messages = [user("go")];
    const remembering = scripted(["ok"], { keepRequests: 2 });
    await partsOf(remembering, { messages, tools: [], system: "Be kind." });
    messages.push(assistant("later"));
    expect(remembering.requests).toEqual([{ messages: [user("go")], tools: [], system: "Be kind." }]);
    await partsOf(remembering, asked(user("2")));
    await partsOf(remembering, asked(user("3")));
    expect(remembering.requests.map((request) => request.messages[0]?.content)).toEqual(["2", "3"]);
  });
});

describe("silence", () => {
  /** A clock that moves only when the test says so. */
  function heldClock() {
    let now = 0;
    const sleepers = new Set<{ at: number; wake: () => void }>();
    const clock: Clock = {
      now: () => now,
      sleep: (ms, signal) =>
        new Promise((resolve) => {
          if (signal?.aborted) return resolve();
          const sleeper = { at: now + ms, wake: () => (sleepers.delete(sleeper), resolve()) };
          sleepers.add(sleeper);
          signal?.addEventListener("abort", sleeper.wake, { once: true });
        }),
    };
    return {
      clock,
      sleepers,
      advance(ms: number) {
        now += ms;
        for (const sleeper of [...sleepers]) if (sleeper.at <= now) sleeper.wake();
      },
    };
  }

  /** Takes parts one by one, so that a test stands between two of them. */
  function taking(model: Model, context: Partial<ModelContext> = {}) {
    const parts = model.stream(asked(), { env: {}, signal: new AbortController().signal, ...context })[Symbol.asyncIterator]();
    return async () => (await parts.next()).value as ModelPart | undefined;
  }

  it("waits as long as it is told to and goes on", async () => {
    const { clock, advance, sleepers } = heldClock();
    const next = taking(scripted([reply(wait(500), say("a b", { everyMs: 20 }))], { clock }));
    const first = next();
    advance(499);
    expect(sleepers.size).toBe(1);
    advance(1);
    await expect.poll(() => [...sleepers][0]?.at).toBe(520);
    advance(20);
    expect(await first).toEqual({ type: "text", text: "a" });
    const second = next();
    await expect.poll(() => sleepers.size).toBe(1);
    advance(20);
    expect(await second).toEqual({ type: "text", text: " b" });
    expect(await next()).toMatchObject({ type: "finish" });
  });

  it.each([
    ["a wait", wait(60_000)],
    ["silence", hang()],
    ["a gate", gate("never")],
  ])("is aborted out of %s at once, and leaves nothing waiting", async (_what, cue) => {
    const { clock, sleepers } = heldClock();
    const abort = new AbortController();
    const next = taking(scripted([reply("a", cue, "b")], { clock }), { signal: abort.signal });
    expect(await next()).toEqual({ type: "text", text: "a" });
    const ended = next();
    await expect.poll(() => sleepers.size).toBe(1);
    abort.abort();
    expect(await ended).toEqual({ type: "error", error: { kind: "aborted", message: "The request was aborted." } });
    expect(sleepers.size).toBe(0);
    expect(await next()).toBeUndefined();
  });

  it.each([
    ["a wait that is too long", wait(60_000)],
    ["silence", hang()],
    ["a gate nobody releases", gate("never")],
  ])("gives up %s as stalled when the request bears no more of it", async (_what, cue) => {
    const { clock, advance, sleepers } = heldClock();
    const next = taking(scripted([reply(cue, "b")], { clock }), { stallTimeoutMs: 1000 });
    const ended = next();
    await expect.poll(() => sleepers.size).toBe(1);
    advance(1000);
    expect(await ended).toEqual({ type: "error", error: { kind: "stalled", message: "The model was silent for 1000 ms." } });
    expect(sleepers.size).toBe(0);
  });

  it("is aborted before it begins, and between two parts", async () => {
    expect(await partsOf(scripted(["x"]), asked(), { signal: AbortSignal.abort() })).toEqual([
      { type: "error", error: { kind: "aborted", message: "The request was aborted." } },
    ]);
    const abort = new AbortController();
    const parts: ModelPart[] = [];
    for await (const part of scripted(["one two three"]).stream(asked(), { env: {}, signal: abort.signal })) {
      parts.push(part);
      if (part.type === "text" && part.text === " two") abort.abort();
    }
    expect(textOf(parts)).toBe("one two");
    expect(errorKind(parts)).toBe("aborted");
  });
});

describe("gates", () => {
  it("hold the model until they are released, and the test can tell when it has come", async () => {
    const parts: ModelPart[] = [];
    const done = (async () => {
      for await (const part of scripted([reply("before", gate("g"), " after")]).stream(asked(), { env: {}, signal: new AbortController().signal })) parts.push(part);
    })();
    await gateReached("g");
    expect(textOf(parts)).toBe("before");
    releaseGate("g");
    await done;
    expect(textOf(parts)).toBe("before after");
  });

  it("released before the model comes, do not hold it; forgotten, they hold again", async () => {
    releaseGate("g");
    const model = scripted([reply(gate("g"), "through")]);
    expect(textOf(await partsOf(model))).toBe("through");
    resetGates();
    expect(errorKind(await partsOf(model, asked(), { stallTimeoutMs: 20 }))).toBe("stalled");
  });

  it("can be an address, for a test in another process: it opens when the server there answers", async () => {
    let open: (() => void) | undefined;
    const server = createServer((request, response) => {
      if (request.url === "/shut") return response.writeHead(503).end();
      open = () => response.writeHead(204).end();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      const answer = partsOf(scripted([reply(gate(`${base}/g1`), "through")]));
      await expect.poll(() => open).toBeDefined();
      open?.();
      expect(textOf(await answer)).toBe("through");

      expect(await partsOf(scripted([reply(gate(`${base}/shut`), "x")]))).toEqual([
        { type: "error", error: { kind: "connection", message: `The gate at ${base}/shut did not open.` } },
      ]);

      open = undefined;
      const abort = new AbortController();
      const aborted = partsOf(scripted([reply(gate(`${base}/g2`), "x")]), asked(), { signal: abort.signal });
      await expect.poll(() => open).toBeDefined();
      abort.abort();
      expect(errorKind(await aborted)).toBe("aborted");
    } finally {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
