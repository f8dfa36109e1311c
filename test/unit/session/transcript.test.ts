import { describe, expect, it } from "vitest";
import type { AssistantMessage, UserMessage } from "../../../src/domain/message.ts";
import { type Run, RunRecord } from "../../../src/domain/run.ts";
import type { Effect } from "../../../src/domain/tool-call.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { contentOf, metricsOf, ownMessages, toRecord } from "../../../src/session/transcript.ts";

const asked: UserMessage = { id: "u", role: "user", content: "Hi.", createdAt: 1 };
const said = (content: string, more: Partial<AssistantMessage> = {}): AssistantMessage => ({
  id: "a",
  role: "assistant",
  content,
  createdAt: 2,
  toolCalls: [],
  provider: "p",
  model: "m",
  finishReason: "stop",
  ...more,
});
const calls = (...ids: string[]) => ids.map((id) => ({ id, name: "ping", arguments: {} }));
const effect = (step: number, position: number, more: Partial<Effect> = {}): Effect => ({
  runId: "r",
  step,
  position,
  callId: `c${step}${position}`,
  toolName: "ping",
  status: "done",
  arguments: {},
  result: `result ${step}${position}`,
  attempt: 1,
  plannedAt: 1,
  settledAt: 2,
  ...more,
});
const run: Run = {
  runId: "r",
  sessionId: "s",
  component: { kind: "agent", id: "a1", name: "a1", version: "1" },
  status: "completed",
  input: { message: "Hi." },
  background: false,
  stream: true,
  onDisconnect: "keep",
  attempt: 1,
  attemptsSinceCheckpoint: 1,
  content: "",
  metrics: { usage: NO_USAGE, modelCalls: 0 },
  createdAt: 1,
  startedAt: 10,
  endedAt: 35,
  updatedAt: 35,
  version: 3,
};

describe("contentOf", () => {
  it("is all that the replies said, in order", () => {
    expect(contentOf([asked, said("Let me look. ", { toolCalls: calls("c00") }), said("It is up.")], [effect(0, 0)])).toBe("Let me look. It is up.");
    expect(contentOf([asked], [])).toBe("");
  });

  it("ends with the results of the tools whose result is the answer", () => {
    const messages = [asked, said("Here: ", { toolCalls: calls("c00", "c01", "c02") })];
    expect(contentOf(messages, [effect(0, 0, { stopAfter: true }), effect(0, 1), effect(0, 2, { stopAfter: true })])).toBe("Here: result 00\nresult 02");
    expect(contentOf(messages, [effect(0, 0, { stopAfter: true, status: "failed" })])).toBe("Here: ");
    // A run that went on after such a call has its answer elsewhere.
    expect(contentOf([...messages, said("No, there.")], [effect(0, 0, { stopAfter: true })])).toBe("Here: No, there.");
  });
});

describe("a run that goes on from another", () => {
  const usage = { ...NO_USAGE, inputTokens: 3, outputTokens: 2 };
  const kept = [asked, said("Let me look. ", { toolCalls: calls("c00"), usage }), said("It is up.", { usage, reasoning: [{ text: "Up?" }] }), { ...asked, content: "And now?" }];

  it("has said and spent what it said and spent itself, and shows the whole story", () => {
    const messages = [...kept, said("Now as well.", { usage, timeToFirstTokenMs: 7 })];
    const record = toRecord({ ...run, firstStep: 2 }, messages, [effect(0, 0)]);
    expect(record).toMatchObject({ content: "Now as well.", metrics: { usage, modelCalls: 1, timeToFirstTokenMs: 7 } });
    expect(record).not.toHaveProperty("reasoning");
    expect(record.messages).toHaveLength(6);
    expect(record.effects).toHaveLength(1);
  });

  it("has said nothing yet at its start, also where a tool's result was the answer before", () => {
    const answered = [asked, said("", { toolCalls: calls("c00") }), { ...asked, content: "And?" }];
    expect(contentOf(answered, [effect(0, 0, { stopAfter: true })], { firstStep: 1 })).toBe("");
    expect(metricsOf(kept, { firstStep: 2 })).toEqual({ usage: NO_USAGE, modelCalls: 0 });
  });
});

describe("metricsOf", () => {
  it("adds up what the model calls cost", () => {
    const usage = { inputTokens: 10, outputTokens: 2, cacheReadTokens: 1, cacheWriteTokens: 0, reasoningTokens: 1 };
    expect(metricsOf([asked, said("", { usage, timeToFirstTokenMs: 7 }), said(""), said("", { usage, timeToFirstTokenMs: 9 })], { startedAt: 5, endedAt: 30 })).toEqual({
      usage: { inputTokens: 20, outputTokens: 4, cacheReadTokens: 2, cacheWriteTokens: 0, reasoningTokens: 2 },
      modelCalls: 3,
      durationMs: 25,
      timeToFirstTokenMs: 7,
    });
  });

  it("says nothing about times that are not known", () => {
    expect(metricsOf([asked], { endedAt: 3 })).toEqual({ usage: NO_USAGE, modelCalls: 0 });
  });
});

describe("toRecord", () => {
  it("shows a run with what it said and did, in a shape that its schema takes", () => {
    const messages = [asked, said("", { toolCalls: calls("c00", "c01"), reasoning: [{ text: "hm" }, { text: "", redacted: "x" }, { text: "so" }] }), said("Done.")];
    const record = toRecord(run, messages, [effect(0, 0), effect(0, 1, { status: "failed" })]);
    expect(record).toMatchObject({ content: "Done.", reasoning: "hm\nso", metrics: { durationMs: 25, modelCalls: 2 } });
    expect(record.messages.map((message) => [message.role, message.content])).toEqual([
      ["user", "Hi."],
      ["assistant", ""],
      ["tool", "result 00"],
      ["tool", "result 01"],
      ["assistant", "Done."],
    ]);
    expect(RunRecord.parse(record)).toEqual(record);
  });

  it("has no reasoning where all of it is kept from us", () => {
    expect(toRecord(run, [asked, said("x", { reasoning: [{ text: "", redacted: "a" }, { text: "", signature: "b" }] })], [])).not.toHaveProperty("reasoning");
  });

  it("makes up no result for a call that is still under way", () => {
    const { result: _result, settledAt: _settledAt, ...open } = effect(0, 1, { status: "started" });
    const record = toRecord({ ...run, status: "running" }, [asked, said("", { toolCalls: calls("c00", "c01") })], [effect(0, 0), open]);
    expect(record.messages.map((message) => (message.role === "tool" ? message.toolCallId : message.role))).toEqual(["user", "assistant", "c00"]);
    expect(record.effects).toHaveLength(2);
  });

  it("is a copy: who changes it changes nothing that is stored", () => {
    const effects = [effect(0, 0)];
    const messages = [asked, said("", { toolCalls: calls("c00") })];
    const record = toRecord(run, messages, effects);
    record.effects.pop();
    record.messages.pop();
    record.content = "changed";
    expect([effects.length, messages.length, run.content]).toEqual([1, 2, ""]);
  });

  it("gives back, the other way round, the messages that are rows of their own", () => {
    const messages = [asked, said("", { toolCalls: calls("c00") }), said("Done.")];
    expect(ownMessages(toRecord(run, messages, [effect(0, 0)]))).toEqual(messages);
  });
});
