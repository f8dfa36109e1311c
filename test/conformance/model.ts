import { beforeEach, describe, expect, it, vi } from "vitest";
import type { AssistantMessage, Message, ToolMessage, UserMessage } from "../../src/domain/message.ts";
import { TextJoiner } from "../../src/lib/text.ts";
import type { Model, ModelContext, ModelErrorKind, ModelPart, ModelRequest } from "../../src/models/model.ts";
import type { FakeProviderClient, RecordedRequest } from "../fakes/client.ts";
import { call, calls, callScript, cut, end, eof, err, frame, gate, http, open, ping, raw, redact, refuse, say, script, think, wait } from "../fakes/script.ts";
import type { ErrorWord, Step } from "../fakes/script.ts";
import { countUserText } from "../fakes/valid-history.ts";
import type { WireName } from "../fakes/wire.ts";

/** A provider under test. Its fake speaks the same wire. */
export interface Subject {
  wire: WireName;
  model: Model;
  /** Holds the fake's address and `KEY`. */
  env: Record<string, unknown>;
}

export const KEY = "sk-secret-0123456789abcdef";

/** Frames that a reader must pass over, each in its vendor's words (C061). */
const JUNK: Record<WireName, Step[]> = {
  anthropic: [
    ping(),
    frame({ type: "foo_delta", index: 0, delta: { type: "text_delta", text: "not text" } }),
    frame({ type: "content_block_start", index: 5, content_block: { type: "hologram", text: "not text" } }),
    frame({ type: "content_block_delta", index: 5, delta: { type: "text_delta", text: "not text" } }),
    frame({ type: "content_block_delta", index: 7, delta: { type: "input_json_delta", partial_json: "{" } }),
    frame({ type: "content_block_stop", index: 7 }),
    frame({ type: "content_block_stop", index: 7 }),
    frame({ type: "content_block_delta", index: null, delta: null }),
    frame({ type: "message_delta", delta: {}, usage: null, extra: { deep: [1] } }),
  ],
  responses: [
    ping(),
    frame({ type: "response.foo.delta", delta: "not text" }),
    frame({ type: "response.output_item.added", output_index: 40, item: { type: "hologram", id: "h" } }),
    frame({ type: "response.output_item.done", output_index: 40, item: { type: "hologram", id: "h" } }),
    frame({ type: "response.function_call_arguments.delta", output_index: 77, item_id: "fc_none", delta: "{" }),
    frame({ type: "response.output_text.delta", delta: null, extra: { deep: [1] } }),
    frame({ type: "response.output_item.done", item: null }),
  ],
  chat: [
    ping(),
    frame({ id: "x", choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }),
    frame({ id: "x", choices: [{ index: 0, delta: {} }] }),
    frame({ id: "x", choices: [{ index: 0, delta: null, finish_reason: null }], extra: { deep: [1] } }),
    frame({ id: "x", choices: [{ index: 1, delta: { content: "not text" } }] }),
    frame({ id: "x", choices: null }),
    frame({ object: "foo" }),
  ],
};

/** One suite for every provider: a test is a phenomenon. */
export function describeModel(name: string, subject: () => Subject, fake: () => FakeProviderClient): void {
  let key = "";
  let count = 0;

  beforeEach(() => {
    count += 1;
    key = `${name}-${count}`;
  });

  const play = (...steps: Step[]) => fake().next(key, script(...steps));
  const userText = () => `hello #${key}`;
  const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({ messages: [user(userText())], tools: [PING], ...more });
  const reply = (more: Partial<ModelRequest> = {}, context: Partial<ModelContext> = {}) => listen(subject(), request(more), context);
  const sent = async (): Promise<RecordedRequest> => {
    const all = await fake().requests(key);
    expect(all).toHaveLength(1);
    return all[0]!;
  };
  const closedByClient = () => fake().until(key, (all) => all.length === 1 && all[0]!.state === "closed-by-client");

  describe(`${name}: what a reply says`, () => {
    it("text in deltas, then one finish with usage", async () => {
      await play(say("Hel"), say("lo"), end("stop", { input: 12, output: 7 }));
      const parts = await reply();
      expect(parts).toEqual([
        { type: "text", text: "Hel" },
        { type: "text", text: "lo" },
        expect.objectContaining({ type: "finish", reason: "stop", usage: { inputTokens: 12, outputTokens: 7, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 } }),
      ]);
      expect((await sent()).problems).toEqual([]);
    });

    it("reasoning is told apart from text and closed", async () => {
      await play(think(["I should ", "greet."], "proof"), say("Hello"), end());
      const parts = await reply();
      expect(parts.slice(0, 2)).toEqual([
        { type: "reasoning", text: "I should " },
        { type: "reasoning", text: "greet." },
      ]);
      expect(parts[2]).toMatchObject({ type: "reasoning-end" });
      expect(parts[3]).toEqual({ type: "text", text: "Hello" });
    });

    it("a tool call in fragments is told once, whole", async () => {
      await play(say("Let me look."), call("call_1", "ping", { host: "a", times: 3 }), end("tool"));
      const parts = await reply();
      expect(callsIn(parts)).toEqual([{ type: "tool-call", id: "call_1", name: "ping", argumentsText: '{"host":"a","times":3}' }]);
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "tool_calls" });
    });

    it("C064 parallel calls with mixed fragments stay apart and in order", async () => {
      await play(calls(callScript("call_a", "ping", { host: "a" }), callScript("call_b", "ping", { host: "b" }), callScript("call_c", "ping")), end("tool"));
      expect(callsIn(await reply())).toEqual([
        { type: "tool-call", id: "call_a", name: "ping", argumentsText: '{"host":"a"}' },
        { type: "tool-call", id: "call_b", name: "ping", argumentsText: '{"host":"b"}' },
        { type: "tool-call", id: "call_c", name: "ping", argumentsText: "{}" },
      ]);
    });

    it("C064 two calls with one id are told as two", async () => {
      await play(calls(callScript("call_1", "ping", { host: "a" }), callScript("call_1", "ping", { host: "b" })), end("tool"));
      expect(callsIn(await reply()).map((one) => [one.id, one.argumentsText])).toEqual([
        ["call_1", '{"host":"a"}'],
        ["call_1", '{"host":"b"}'],
      ]);
    });

    for (const [what, fragments] of [["no fragment", []], ["an empty fragment", [""]], ["a blank fragment", ["  "]], ["{}", ["{}"]], ["null fragments", [null, "{", null, "}"]]] as const) {
      it(`C062 a call without arguments: ${what}`, async () => {
        await play(call("call_1", "ping", [...fragments]), end("tool"));
        expect(callsIn(await reply())).toEqual([{ type: "tool-call", id: "call_1", name: "ping", argumentsText: "{}" }]);
      });
    }

    it("C062 a start value is replaced by the fragments, not put before them", async () => {
      await play(call("call_1", "ping", ['{"a":', null, " 1}"], {}), end("tool"));
      expect(callsIn(await reply())[0]!.argumentsText).toBe('{"a": 1}');
    });

    for (const text of ['{"amount": 5, "memo": "ab', "[1,2]", '"text"', "null", "{}{}"]) {
      it(`arguments that are no JSON object are passed on as written: ${text}`, async () => {
        await play(call("call_1", "ping", text), end("tool"));
        expect(callsIn(await reply())[0]!.argumentsText).toBe(text);
      });
    }

    it("C055 a call cut by the token limit keeps its text, and the reason says so", async () => {
      await play(calls(callScript("call_1", "ping", { host: "a" }), callScript("call_2", "ping", '{"host":"b","te')), end("length"));
      const parts = await reply();
      expect(callsIn(parts).map((one) => one.argumentsText)).toEqual(['{"host":"a"}', '{"host":"b","te']);
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "length" });
    });

    it("C055 a cut call that the server calls a tool call is passed on as written", async () => {
      await play(call("call_1", "ping", '{"path":"n.md","text":"first ha'), end("tool"));
      const parts = await reply();
      expect(callsIn(parts)[0]!.argumentsText).toBe('{"path":"n.md","text":"first ha');
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "tool_calls" });
    });

    it("C058 an empty reply is a finish and nothing else", async () => {
      await play(end("stop"));
      expect(await reply()).toEqual([expect.objectContaining({ type: "finish", reason: "stop" })]);
    });
  });

  describe(`${name}: why a reply ended`, () => {
    it("C057 (a) an empty refusal", async () => {
      await play(end("refusal"));
      expect(await reply()).toEqual([expect.objectContaining({ type: "finish", reason: "refusal" })]);
    });

    it("C057 (b) reasoning, then a refusal", async () => {
      await play(think(["No."], "proof"), end("refusal"));
      expect((await reply()).map((part) => part.type)).toEqual(["reasoning", "reasoning-end", "finish"]);
    });

    it("C057 (c) a content filter keeps the text", async () => {
      await play(say("I can't help with that."), end("filter"));
      const parts = await reply();
      expect(textIn(parts)).toBe("I can't help with that.");
      expect(parts.at(-1)).toMatchObject({ reason: subject().wire === "anthropic" ? "refusal" : "content_filter" });
    });

    it("C057 (d) a refusal in a field of its own is text, and the reason names it", async () => {
      await play(refuse("I can't "), refuse("do that."), end(subject().wire === "anthropic" ? "refusal" : "stop"));
      const parts = await reply();
      expect(textIn(parts)).toBe("I can't do that.");
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "refusal" });
    });

    it("C057 (f) a reason that nobody knows is passed through", async () => {
      await play(say("hm"), end("weird_new_reason"));
      expect((await reply()).at(-1)).toMatchObject({ type: "finish", reason: "other:weird_new_reason" });
    });

    it("the token limit", async () => {
      await play(say("and so"), end("length"));
      expect((await reply()).at(-1)).toMatchObject({ type: "finish", reason: "length" });
    });
  });

  describe(`${name}: usage`, () => {
    it("C114 counts everything that was read, and which of it was cached", async () => {
      await play(say("hi"), end("stop", { input: 1000, output: 50, cacheRead: 700, cacheWrite: 200, reasoning: 30 }));
      expect((await reply()).at(-1)).toMatchObject({ usage: { inputTokens: 1000, outputTokens: 50, cacheReadTokens: 700, cacheWriteTokens: 200, reasoningTokens: 30 } });
    });

    it("C114 usage that was not reported is absent, not zero", async () => {
      await play(say("hi"), end("stop", false));
      expect((await reply()).at(-1)).not.toHaveProperty("usage");
    });
  });

  describe(`${name}: failures`, () => {
    const kinds: [ErrorWord, number, ModelErrorKind][] = [
      ["rate_limited", 429, "rate_limited"],
      ["overloaded", 503, "overloaded"],
      ["overloaded", 529, "overloaded"],
      ["server_error", 500, "server_error"],
      ["authentication", 401, "authentication"],
      ["billing", 402, "billing"],
      ["not_found", 404, "not_found"],
      ["invalid_request", 400, "invalid_request"],
      ["context_overflow", 400, "context_overflow"],
      ["unknown", 502, "server_error"],
    ];
    for (const [word, status, kind] of kinds) {
      it(`C052 HTTP ${status} ${word} is ${kind}`, async () => {
        await play(http(status, {}, word));
        expect(failureIn(await reply())).toMatchObject({ kind, status });
        await sent();
      });
    }

    for (const [word, , kind] of kinds.filter(([word], index) => kinds.findIndex(([other]) => other === word) === index)) {
      it(`C052 ${word} inside the stream, before any output, is ${kind}`, async () => {
        await play(open(), err(word));
        const parts = await reply();
        expect(parts).toHaveLength(1);
        expect(failureIn(parts)).toMatchObject({ kind, providerCode: expect.any(String) });
        await sent();
      });
    }

    it("C053 an error after part of the answer keeps the part and is no answer itself", async () => {
      await play(say("The three causes are"), call("call_1", "ping", {}), err("overloaded"));
      const parts = await reply();
      expect(textIn(parts)).toBe("The three causes are");
      expect(failureIn(parts)).toMatchObject({ kind: "overloaded" });
    });

    it("Retry-After is understood in seconds, milliseconds and as a date", async () => {
      await fake().next(
        key,
        script(http(429, { "retry-after": "2" })),
        script(http(529, { "retry-after": "7", "retry-after-ms": "350" })),
        script(http(503, { "retry-after": new Date(Date.now() + 60_000).toUTCString() })),
        script(http(429, { "retry-after": "soon" })),
      );
      expect(failureIn(await reply()).retryAfterMs).toBe(2000);
      expect(failureIn(await reply()).retryAfterMs).toBe(350);
      const dated = failureIn(await reply()).retryAfterMs!;
      expect(dated).toBeGreaterThan(50_000);
      expect(dated).toBeLessThanOrEqual(60_000);
      expect(failureIn(await reply())).not.toHaveProperty("retryAfterMs");
    });

    it("a gateway's page of HTML with an error status", async () => {
      await play({ type: "http", status: 502, body: "<html><body>Bad gateway</body></html>" });
      expect(failureIn(await reply())).toMatchObject({ kind: "server_error", status: 502 });
    });

    it("an answer that is no event stream is a protocol failure", async () => {
      await play({ type: "http", status: 200, body: "<html><body>Welcome</body></html>" });
      expect(failureIn(await reply())).toMatchObject({ kind: "protocol", message: expect.stringContaining("text/html") });
    });

    it("a stream that ends without its last frame was interrupted", async () => {
      await play(say("half of"), eof());
      const parts = await reply();
      expect(textIn(parts)).toBe("half of");
      expect(failureIn(parts)).toMatchObject({ kind: "interrupted" });
    });

    it("a stream that ends before its first frame was interrupted", async () => {
      await play(eof());
      expect(failureIn(await reply())).toMatchObject({ kind: "interrupted" });
    });

    it("a stream that ends inside a frame was interrupted", async () => {
      await play(say("half of"), raw('data: {"type":"content_blo'), eof());
      expect(failureIn(await reply())).toMatchObject({ kind: "interrupted" });
    });

    it("a socket that is cut is a lost connection", async () => {
      await play(say("half of"), cut());
      const parts = await reply();
      expect(textIn(parts)).toBe("half of");
      expect(failureIn(parts)).toMatchObject({ kind: "connection" });
    });

    it("a socket that is cut before the headers is a lost connection", async () => {
      await play(cut());
      expect(failureIn(await reply())).toMatchObject({ kind: "connection" });
    });

    it("calls that were not whole when the stream broke are not told", async () => {
      const broken: Record<WireName, Step> = {
        anthropic: frame({ type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "call_1", name: "ping", input: {} } }),
        responses: frame({ type: "response.output_item.added", output_index: 0, item: { type: "function_call", id: "fc_1", call_id: "call_1", name: "ping", arguments: "" } }),
        chat: frame({ choices: [{ index: 0, delta: { tool_calls: [{ index: 0, id: "call_1", function: { name: "ping", arguments: "" } }] } }] }),
      };
      await play(open(), broken[subject().wire], eof());
      expect(callsIn(await reply())).toEqual([]);
    });

    it("no failure holds the key, wherever the server repeats it", async () => {
      const message = `Incorrect API key provided: ${KEY}. You can find your key in the settings.`;
      await fake().next(key, script(http(401, {}, "authentication", message)), script(open(), err("authentication", message)), script({ type: "http", status: 403, body: `<p>${KEY}</p>` }));
      for (let round = 0; round < 3; round += 1) {
        const failure = failureIn(await reply());
        expect(failure.kind).toBe("authentication");
        expect(JSON.stringify(failure)).not.toContain(KEY);
      }
    });

    it("without key and address the failure names what to set, and nothing is sent", async () => {
      const failure = failureIn(await listen({ ...subject(), env: {} }, request()));
      expect(failure).toMatchObject({ kind: "misconfigured", message: expect.stringMatching(/(ANTHROPIC|OPENAI)_API_KEY/) });
      expect(await fake().requests(key)).toEqual([]);
    });

    it("an address that is none is named", async () => {
      const env = { ANTHROPIC_BASE_URL: "not a url", OPENAI_BASE_URL: "not a url", ANTHROPIC_API_KEY: KEY, OPENAI_API_KEY: KEY };
      expect(failureIn(await listen({ ...subject(), env }, request()))).toMatchObject({ kind: "misconfigured", message: expect.stringContaining("_BASE_URL is not a URL") });
    });

    it("an address where nobody listens is a lost connection", async () => {
      const env = { ANTHROPIC_BASE_URL: "http://127.0.0.1:1", OPENAI_BASE_URL: "http://127.0.0.1:1/v1", ANTHROPIC_API_KEY: KEY, OPENAI_API_KEY: KEY };
      expect(failureIn(await listen({ ...subject(), env }, request()))).toMatchObject({ kind: "connection" });
    });

    it("an address without a key is asked with a placeholder", async () => {
      const { ANTHROPIC_API_KEY: _a, OPENAI_API_KEY: _o, ...env } = subject().env;
      expect((await listen({ ...subject(), env }, request())).at(-1)).toMatchObject({ type: "finish" });
      const { headers } = await sent();
      expect(headers["x-api-key"] ?? headers.authorization).toMatch(/placeholder$/);
    });
  });

  describe(`${name}: abort and silence`, () => {
    it("aborted before the call: nothing is sent", async () => {
      const failure = failureIn(await reply({}, { signal: AbortSignal.abort() }));
      expect(failure.kind).toBe("aborted");
      expect(await fake().requests(key)).toEqual([]);
    });

    it("aborted before the headers: the request is closed", async () => {
      await play(gate(`${key}-never`));
      const controller = new AbortController();
      const parts = reply({}, { signal: controller.signal });
      await fake().until(key, (all) => all.length === 1);
      controller.abort();
      expect(failureIn(await parts).kind).toBe("aborted");
      await closedByClient();
    });

    it("aborted in mid-stream: the request is closed and nothing more is told", async () => {
      await play(...Array.from({ length: 400 }, (_, index) => [say(`${index} `), wait(5)]).flat(), end());
      const controller = new AbortController();
      const parts: ModelPart[] = [];
      for await (const part of subject().model.stream(request(), { env: subject().env, signal: controller.signal })) {
        parts.push(part);
        if (parts.length === 3) controller.abort(new Error("the user left"));
      }
      expect(parts.map((part) => part.type)).toEqual(["text", "text", "text", "error"]);
      expect(failureIn(parts).kind).toBe("aborted");
      await closedByClient();
    });

    it("aborted in mid-silence: the request is closed", async () => {
      await play(say("thinking"), gate(`${key}-never`));
      const controller = new AbortController();
      const parts: ModelPart[] = [];
      for await (const part of subject().model.stream(request(), { env: subject().env, signal: controller.signal })) {
        parts.push(part);
        // The reader is waiting for the next frame by the time this runs.
        if (part.type === "text") setTimeout(() => controller.abort(), 20);
      }
      expect(textIn(parts)).toBe("thinking");
      expect(failureIn(parts).kind).toBe("aborted");
      await closedByClient();
    });

    it("a consumer that stops listening closes the request", async () => {
      await play(say("one"), gate(`${key}-never`));
      for await (const part of subject().model.stream(request(), { env: subject().env, signal: new AbortController().signal })) {
        if (part.type === "text") break;
      }
      await closedByClient();
    });

    it("a provider that falls silent is given up as stalled, and the request is closed", async () => {
      await play(say("one"), gate(`${key}-never`));
      const parts = await reply({}, { stallTimeoutMs: 150 });
      expect(textIn(parts)).toBe("one");
      expect(failureIn(parts)).toMatchObject({ kind: "stalled", message: expect.stringContaining("150 ms") });
      await closedByClient();
    });

    it("a provider that never answers is given up as stalled", async () => {
      await play(gate(`${key}-never`));
      expect(failureIn(await reply({}, { stallTimeoutMs: 150 }))).toMatchObject({ kind: "stalled" });
      await closedByClient();
    });

    it("pings are a sign of life", async () => {
      // Longer in all than the silence that is allowed; far shorter each, so that a busy machine does not add up to one.
      await play(open(), ...Array.from({ length: 12 }, () => [wait(250), ping()]).flat(), say("done"), end());
      expect(textIn(await reply({}, { stallTimeoutMs: 2_500 }))).toBe("done");
    });
  });

  describe(`${name}: text and framing`, () => {
    const text = "Grüße 😀 and a family 👨‍👩‍👧, hello world";

    it("a frame that is cut inside a character, a JSON string or an SSE line arrives whole", async () => {
      await fake().next(key, { steps: [say(text), call("call_1", "ping", { host: "größe" }), end("tool")], splitInside: ["😀", "ü", "👨‍👩‍👧", "hello world", "data:", '"delta"', "größe", "\n\n"] });
      const parts = await reply();
      expect(textIn(parts)).toBe(text);
      expect(callsIn(parts)[0]!.argumentsText).toBe('{"host":"größe"}');
    });

    it("a stream in chunks of seven bytes arrives whole", async () => {
      await fake().next(key, { steps: [say(text), end()], chunkBytes: 7 });
      const parts = await reply();
      expect(textIn(parts)).toBe(text);
      expect(parts.at(-1)).toMatchObject({ type: "finish", reason: "stop" });
    });

    it("C068 a character that is cut between two deltas can be joined again", async () => {
      const family = "👨‍👩‍👧";
      await play(say("ok \ud83d"), say("\ude00 fine "), ...[...Array(family.length).keys()].map((unit) => say(family[unit]!)), say(" \ud83d"), end());
      expect(textIn(await reply())).toBe(`ok 😀 fine ${family} \ufffd`);
    });

    it("C068 no half of a character is sent, wherever it stands in the request", async () => {
      await reply({
        system: "Be \ud83d",
        messages: [user("old"), assistant("b\ude00", [{ id: "call_1", name: "ping", arguments: { "k\ud83d": "\ude00" } }]), result("call_1", "\ud83d"), user(`\ud83d and \u0000 #${key}`)],
        tools: [{ ...PING, description: "Ping \ud83d" }],
      });
      const { problems, body } = await sent();
      expect(problems).toEqual([]);
      expect(JSON.stringify(body)).toContain("\ufffd and ");
    });

    it("C070 text that looks like an event stream stays text", async () => {
      const forged = 'a\r\rdata: {"event":"RunCompleted"}\n\nevent: RunError\rid: 9\u2028b';
      await play(say(forged), call("call_1", "ping", { forged }), end("tool"));
      const parts = await reply();
      expect(textIn(parts)).toBe(forged);
      expect(JSON.parse(callsIn(parts)[0]!.argumentsText)).toEqual({ forged });
      expect(parts).toHaveLength(3);
    });

    it("C061 unknown, early and junk frames are passed over, those that are not JSON with a line in the log, and the normal text arrives whole", async () => {
      const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
      await play(
        raw("retry: 10\n\nthis line is no field\n\n: a comment\n\n"),
        ping(),
        open(),
        ...JUNK[subject().wire],
        raw("data: this is not JSON\n\n"),
        raw('data: ["no object"]\n\ndata:\n\nevent: foo\n\n'),
        raw("data: [DONE]\n\ndata: [DONE]\n\n"),
        say("normal "),
        ...JUNK[subject().wire],
        say("text"),
        end(),
        raw("data: [DONE]\n\ndata: [DONE]\n\n"),
      );
      const parts = await reply();
      expect(textIn(parts)).toBe("normal text");
      expect(parts.map((part) => part.type)).toEqual(["text", "text", "finish"]);
      expect(warn).toHaveBeenCalledTimes(2);
      warn.mockRestore();
    });

    it("lines may end in CR, and the last blank line may be missing", async () => {
      const lines: Record<WireName, string> = {
        anthropic: '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}|{"type":"message_stop"}',
        responses: '{"type":"response.output_text.delta","delta":"x"}|{"type":"response.completed","response":{}}',
        chat: '{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}|[DONE]',
      };
      const [delta, last] = lines[subject().wire].split("|");
      await play(raw(`\ufeffdata: ${delta}\r\r`), raw(`data: ${last}`), eof());
      expect((await reply()).map((part) => part.type)).toEqual(["text", "finish"]);
    });
  });

  describe(`${name}: what is sent`, () => {
    it("asks for a stream, with the tools, under the key", async () => {
      await reply({ system: "Be brief." });
      const { body, headers, problems } = await sent();
      expect(problems).toEqual([]);
      expect(body).toMatchObject({ model: subject().model.id, stream: true });
      expect(JSON.stringify(body.tools)).toContain('"ping"');
      expect(JSON.stringify(body)).toContain("Be brief.");
      expect(headers["x-api-key"] ?? headers.authorization).toContain(KEY);
    });

    it("C058 blank messages of the history are not sent", async () => {
      await reply({ messages: [user("first"), assistant(""), user("second"), assistant(" \n"), user(userText())] });
      const { body, problems } = await sent();
      expect(problems).toEqual([]);
      expect(countUserText(subject().wire, body, "second")).toBe(1);
    });

    it("C003 calls and results are paired, also where a turn was abandoned", async () => {
      await reply({
        messages: [
          user("first"),
          assistant("", [{ id: "t:1", name: "ping", arguments: {} }, { id: "t:1", name: "ping", arguments: { host: "b" } }]),
          user("are you there?"),
          result("gone"),
          assistant("", [{ id: "t:1", name: "ping", arguments: {} }]),
          result("t:1"),
          user(userText()),
        ],
      });
      expect((await sent()).problems).toEqual([]);
    });

    it("own reasoning goes back with the call that it led to", async () => {
      await fake().next(key, script(think(["Look it up."], "proof-1"), redact("proof-2"), say("Looking."), call("call_1", "ping", {}), end("tool")), script(say("done"), end()));
      const first = await reply();
      const asked = toMessage(subject().model, first);
      expect((await reply({ messages: [user(userText()), asked, result("call_1")] })).at(-1)).toMatchObject({ type: "finish", reason: "stop" });
      const [, second] = await fake().requests(key);
      expect(second!.problems).toEqual([]);
      const body = JSON.stringify(second!.body);
      if (subject().wire === "chat") expect(body).toContain('"reasoning_content":"Look it up."');
      else expect(body.indexOf("proof-1")).toBeLessThan(body.indexOf("proof-2"));
      expect(body).toContain("Looking.");
    });

    it("reasoning between text and calls goes back in its place", async () => {
      await fake().next(key, script(think(["First."], "proof-1"), say("Looking."), think(["Then."], "proof-2"), call("call_1", "ping", {}), end("tool")), script(say("done"), end()));
      const asked = toMessage(subject().model, await reply());
      await reply({ messages: [user(userText()), asked, result("call_1")] });
      const [, second] = await fake().requests(key);
      expect(second!.problems).toEqual([]);
      if (subject().wire === "chat") return;
      const body = JSON.stringify(second!.body);
      const places = ["proof-1", "Looking.", "proof-2", "call_1"].map((piece) => body.indexOf(piece));
      expect(places).toEqual([...places].sort((a, b) => a - b));
      expect(places).not.toContain(-1);
    });

    it("a history that others wrote is readable, and nothing opaque of theirs is in it", async () => {
      const foreign = ["anthropic", "openai", "openai-chat", "scripted"].flatMap((provider, index): Message[] => [
        user(`question ${index}`),
        assistant(`thinking of ${index}`, [{ id: `weird|id:${index}`, name: "ping", arguments: { index } }], {
          provider,
          model: "another-model",
          reasoning: [{ text: "their thought", signature: "their-signature" }, { text: "", redacted: "their-redacted" }],
          providerData: { output: [{ type: "reasoning", item: { type: "reasoning", id: "rs", summary: [], encrypted_content: "their-secret" } }], reasoningField: "reasoning_content", layout: ["reasoning"] },
        }),
        result(`weird|id:${index}`),
        assistant(`answer ${index}`, [], { provider, model: "another-model" }),
      ]);
      await reply({ messages: [...foreign, user(userText())] });
      const { body, problems } = await sent();
      expect(problems).toEqual([]);
      expect(JSON.stringify(body)).not.toContain("their");
      expect(countUserText(subject().wire, body, userText())).toBe(1);
    });
  });
}

const PING = { name: "ping", description: "Pings a host.", parameters: { type: "object", properties: { host: { type: "string" } } } };

/** All parts of a reply. Every reply ends with exactly one finish or error, and it is last. */
async function listen({ model, env }: Subject, request: ModelRequest, context: Partial<ModelContext> = {}): Promise<ModelPart[]> {
  const parts: ModelPart[] = [];
  for await (const part of model.stream(request, { env, signal: new AbortController().signal, ...context })) parts.push(part);
  expect(parts.filter((part) => part.type === "finish" || part.type === "error")).toEqual(parts.slice(-1));
  return parts;
}

function textIn(parts: readonly ModelPart[]): string {
  const joiner = new TextJoiner();
  return parts.map((part) => (part.type === "text" ? joiner.push(part.text) : "")).join("") + joiner.end();
}

const callsIn = (parts: readonly ModelPart[]) => parts.filter((part) => part.type === "tool-call");

function failureIn(parts: readonly ModelPart[]) {
  const last = parts.at(-1);
  if (last?.type !== "error") throw new Error(`The reply did not fail: ${JSON.stringify(parts)}`);
  return last.error;
}

/** The message that the engine makes of a reply. */
function toMessage({ provider, id }: Model, parts: readonly ModelPart[]): AssistantMessage {
  const reasoning: NonNullable<AssistantMessage["reasoning"]> = [];
  let thought = "";
  for (const part of parts) {
    if (part.type === "reasoning") thought += part.text;
    if (part.type !== "reasoning-end") continue;
    const { type: _type, ...proof } = part;
    reasoning.push({ text: thought, ...proof });
    thought = "";
  }
  const last = parts.at(-1);
  return assistant(textIn(parts), callsIn(parts).map((one) => ({ id: one.id, name: one.name, arguments: JSON.parse(one.argumentsText) as Record<string, unknown> })), {
    provider,
    model: id,
    reasoning,
    ...(last?.type === "finish" && last.providerData && { providerData: last.providerData }),
  });
}

const user = (content: string): UserMessage => ({ id: "u", createdAt: 0, role: "user", content });

const result = (toolCallId: string, content = "pong"): ToolMessage => ({ id: "r", createdAt: 0, role: "tool", toolCallId, toolName: "ping", content, isError: false });

function assistant(content: string, toolCalls: AssistantMessage["toolCalls"] = [], more: Partial<AssistantMessage> = {}): AssistantMessage {
  return { id: "a", createdAt: 0, role: "assistant", content, toolCalls, provider: "scripted", model: "demo", finishReason: "stop", ...more };
}
