import { describe, expect, it } from "vitest";
import { defineAgent } from "../../../src/define/agent.ts";
import { defineTool } from "../../../src/define/tool.ts";
import type { RunEvent, RunEventBody } from "../../../src/domain/run-event.ts";
import { RUN_STATUSES, type RunRecord } from "../../../src/domain/run.ts";
import type { Effect } from "../../../src/domain/tool-call.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { agentToWire, modelOf, runSchemaToWire, runToWire, statusToWire, wireEncoder, withoutNulls } from "../../../src/routes/wire.ts";

const AT = 1_795_961_622_345;
const run = { runId: "r1", sessionId: "s2", component: { kind: "agent", id: "a1", name: "Agent One", version: "1" } } as const;

const told = (body: RunEventBody, index = 0) => wireEncoder.event(run, { index, at: AT, ...body } as RunEvent);

/** The keys that every frame of an agent's run begins with. */
const BASE = `{"created_at":1795961622,"event":"%","agent_id":"a1","agent_name":"Agent One","run_id":"r1","session_id":"s2","nested_depth":0`;
const base = (event: string) => BASE.replace("%", event);

const TOOL_KEYS = [
  "tool_call_id",
  "tool_name",
  "tool_args",
  "tool_call_error",
  "result",
  "metrics",
  "child_run_id",
  "stop_after_tool_call",
  "created_at",
  "requires_confirmation",
  "confirmed",
  "confirmation_note",
  "requires_user_input",
  "user_input_schema",
  "user_feedback_schema",
  "answered",
  "external_execution_required",
  "external_execution_silent",
  "approval_type",
  "approval_id",
];

const started = { callId: "c1", toolName: "lookup", arguments: { id: 7 }, status: "started", plannedAt: AT, startedAt: AT } as const;
const done = { ...started, status: "done", result: "found", settledAt: AT + 1_500 } as const;

describe("events", () => {
  it("are byte for byte what AgentOS sends", () => {
    expect(told({ type: "run.started", model: "mock-1", provider: "Mock" })).toEqual({
      name: "RunStarted",
      json: `${base("RunStarted")},"model":"mock-1","model_provider":"Mock","event_index":0}`,
    });
    expect(told({ type: "text.delta", text: "echo: é\n" }, 2)).toEqual({
      name: "RunContent",
      json: `${base("RunContent")},"content":"echo: é\\n","workflow_agent":false,"content_type":"str","reasoning_content":"","event_index":2}`,
    });
    expect(told({ type: "text.completed" }, 3).json).toBe(`${base("RunContentCompleted")},"event_index":3}`);
    expect(told({ type: "reasoning.started" }).json).toBe(`${base("ReasoningStarted")},"event_index":0}`);
    expect(told({ type: "reasoning.delta", text: "hm" }).json).toBe(`${base("ReasoningContentDelta")},"reasoning_content":"hm","event_index":0}`);
    expect(told({ type: "reasoning.completed", text: "hm" }).json).toBe(`${base("ReasoningCompleted")},"content":"hm","content_type":"str","event_index":0}`);
  });

  it("a child's frame names its parent", () => {
    const { json } = wireEncoder.event({ ...run, parentRunId: "r0" }, { index: 1, at: AT, type: "text.completed" });
    expect(json).toContain(`"run_id":"r1","parent_run_id":"r0","session_id":"s2","nested_depth":1`);
  });

  it("a model request's end has its tokens, or none where none were counted", () => {
    const ended = { type: "model.completed", model: "m", provider: "p", finishReason: "stop" } as const;
    const counted = JSON.parse(told({ ...ended, usage: { ...NO_USAGE, inputTokens: 3, outputTokens: 4 }, timeToFirstTokenMs: 250 }).json);
    expect(counted).toMatchObject({ input_tokens: 3, output_tokens: 4, total_tokens: 7, time_to_first_token: 0.25, reasoning_tokens: 0, cache_read_tokens: 0 });
    const uncounted = JSON.parse(told(ended).json);
    expect(uncounted).not.toHaveProperty("input_tokens");
    expect(uncounted).not.toHaveProperty("total_tokens");
  });

  it("a tool call carries every key, whether it has a value or not", () => {
    const begun = JSON.parse(told({ type: "tool-call.started", call: started }).json);
    expect(Object.keys(begun.tool)).toEqual(TOOL_KEYS);
    expect(begun.tool).toMatchObject({ tool_call_id: "c1", tool_args: { id: 7 }, result: null, tool_call_error: null, metrics: null, created_at: 1_795_961_622 });

    const ended = JSON.parse(told({ type: "tool-call.completed", call: done, durationMs: 1_500 }).json);
    expect(Object.keys(ended.tool)).toEqual(TOOL_KEYS);
    expect(ended.tool).toMatchObject({ result: "found", tool_call_error: false, metrics: { duration: 1.5 } });
    expect(ended.content).toBe("lookup() completed in 1.5000s.");

    const failed = JSON.parse(told({ type: "tool-call.failed", call: { ...done, status: "failed" }, error: "no such customer" }).json);
    expect(failed).toMatchObject({ event: "ToolCallError", error: "no such customer", tool: { tool_call_error: true } });
  });

  it("the end of a run says all of its answer", () => {
    const metrics = { usage: { ...NO_USAGE, inputTokens: 3, outputTokens: 4 }, durationMs: 2_000, modelCalls: 1 };
    const frame = JSON.parse(told({ type: "run.completed", content: "All of it.", metrics, sessionState: { a: 1 }, finishReason: "stop" }).json);
    expect(frame).toMatchObject({ event: "RunCompleted", content: "All of it.", content_type: "str", session_state: { a: 1 } });
    expect(frame.metrics).toEqual({ input_tokens: 3, output_tokens: 4, total_tokens: 7, duration: 2 });
    expect(frame).not.toHaveProperty("reasoning_content");
  });

  it("a failure, a cancel and another try are told with their reasons", () => {
    expect(JSON.parse(told({ type: "run.failed", error: { type: "model_overloaded", message: "Busy.", retryable: true } }).json)).toMatchObject({
      event: "RunError",
      content: "Busy.",
      error_type: "model_overloaded",
      additional_data: { retryable: true },
    });
    expect(JSON.parse(told({ type: "run.cancelled", reason: "Enough.", unfinished: ["c1"] }).json)).toMatchObject({ event: "RunCancelled", reason: "Enough.", unfinished: ["c1"] });
    expect(
      JSON.parse(told({ type: "run.retried", attempt: 2, maxAttempts: 3, delayMs: 1_500, reason: "crash", discarded: { from: 3, to: 9 } }).json),
    ).toMatchObject({ event: "RunRetry", attempt: 2, max_attempts: 3, delay: 1.5, reason: "crash", discarded: { from: 3, to: 9 } });
  });

  it("a compacted piece of text says which indices it stands for", () => {
    const frame = JSON.parse(told({ type: "text.delta", text: "whole", compacted: { from: 2, to: 8 } }, 8).json);
    expect(frame).toMatchObject({ content: "whole", compacted: { from: 2, to: 8 }, event_index: 8 });
  });

  it("an author's event has its fields beside ours, and never in their place", () => {
    const frame = JSON.parse(told({ type: "custom", name: "stage", callId: "c1", data: { done: 3, event: "RunCompleted", data: [1], run_id: "other" } }).json);
    expect(frame).toMatchObject({ event: "CustomEvent", name: "stage", tool_call_id: "c1", done: 3, run_id: "r1", payload: { event: "RunCompleted", data: [1], run_id: "other" } });
    expect(frame).not.toHaveProperty("data");
    expect(JSON.parse(told({ type: "tool-call.progress", callId: "c1", data: 0.5 }).json)).toMatchObject({ event: "CustomEvent", name: "tool_progress", progress: 0.5 });
  });

  it("every event has a name, one line, and its index last", () => {
    const metrics = { usage: NO_USAGE, modelCalls: 0 };
    const all: RunEventBody[] = [
      { type: "run.started" },
      { type: "run.retried", attempt: 2, maxAttempts: 3, delayMs: 0, reason: "crash" },
      { type: "run.paused", content: "", calls: [started] },
      { type: "run.continued" },
      { type: "model.started", model: "m", provider: "p" },
      { type: "text.delta", text: "a\nb" },
      { type: "reasoning.started" },
      { type: "reasoning.delta", text: "c" },
      { type: "reasoning.completed", text: "c" },
      { type: "model.completed", model: "m", provider: "p", finishReason: "stop" },
      { type: "text.completed" },
      { type: "tool-call.started", call: started },
      { type: "tool-call.completed", call: done, durationMs: 1 },
      { type: "tool-call.failed", call: done, error: "e" },
      { type: "tool-call.progress", callId: "c", data: null },
      { type: "custom", name: "n", data: {} },
      { type: "run.completed", content: "", metrics },
      { type: "run.failed", error: { type: "t", message: "m", retryable: false } },
      { type: "run.cancelled", reason: "r" },
    ];
    for (const [index, body] of all.entries()) {
      const { name, json } = told(body, index);
      expect(name).toMatch(/^[A-Z]\w+$/);
      expect(json).not.toContain("\n");
      expect(json.endsWith(`,"event_index":${index}}`), json).toBe(true);
      expect(JSON.parse(json).event).toBe(name);
    }
  });

  it("an event too large for a frame says where it is to be had", () => {
    const { name, json } = wireEncoder.oversized({ ...run, sessionId: "a/b c" }, { index: 4, at: AT, type: "text.delta", text: "x" }, 2_000_000);
    expect(name).toBe("RunContent");
    expect(JSON.parse(json)).toMatchObject({ event: "RunContent", event_index: 4, oversized: { bytes: 2_000_000, path: "/agents/a1/runs/r1/events?after=3&session_id=a%2Fb+c" } });
    expect(json).not.toContain('"content"');
  });
});

describe("notices", () => {
  it("are AgentOS's meta frames", () => {
    const notice = (about: Parameters<typeof wireEncoder.notice>[1]) => {
      const { name, json } = wireEncoder.notice({ runId: "r1" }, about);
      const { message: _words, ...fields } = JSON.parse(json);
      return [name, fields];
    };
    expect(notice({ type: "replay", status: "completed", totalEvents: 11, totalBuffered: 15, lastEventIndexRequested: 3 })).toEqual([
      "replay",
      { event: "replay", run_id: "r1", status: "COMPLETED", total_events: 11, total_buffered: 15, last_event_index_requested: 3 },
    ]);
    expect(notice({ type: "catch_up", missedEvents: 2, eventCount: 9 })).toEqual(["catch_up", { event: "catch_up", run_id: "r1", status: "running", missed_events: 2, current_event_count: 9 }]);
    expect(notice({ type: "subscribed", eventCount: 9 })).toEqual(["subscribed", { event: "subscribed", run_id: "r1", status: "running", current_event_count: 9 }]);
    expect(notice({ type: "error", error: "no" })).toEqual(["error", { event: "error", error: "no" }]);
  });
});

const effect: Effect = { runId: "r1", step: 0, position: 0, callId: "c1", toolName: "lookup", arguments: { id: 7 }, status: "done", result: "found", attempt: 1, plannedAt: AT, startedAt: AT, settledAt: AT + 100 };

const record: RunRecord = {
  ...run,
  component: { ...run.component },
  status: "completed",
  input: { message: "Who is 7?" },
  background: false,
  stream: true,
  onDisconnect: "keep",
  attempt: 1,
  attemptsSinceCheckpoint: 1,
  model: "m",
  provider: "p",
  content: "It is Ada.",
  metrics: { usage: { ...NO_USAGE, inputTokens: 3, outputTokens: 4 }, durationMs: 1_500, modelCalls: 2 },
  createdAt: AT,
  updatedAt: AT,
  version: 3,
  messages: [
    { role: "user", id: "m1", createdAt: AT, content: "Who is 7?" },
    { role: "assistant", id: "m2", createdAt: AT, content: "", toolCalls: [{ id: "c1", name: "lookup", arguments: { id: 7 } }], provider: "p", model: "m", finishReason: "tool_calls" },
    { role: "tool", id: "m3", createdAt: AT, toolCallId: "c1", toolName: "lookup", content: "found", isError: false },
    { role: "assistant", id: "m4", createdAt: AT, content: "It is Ada.", toolCalls: [], provider: "p", model: "m", finishReason: "stop", usage: { ...NO_USAGE, inputTokens: 3 }, reasoning: [{ text: "hm" }] },
  ],
  effects: [effect],
};

const events: RunEvent[] = [
  { index: 0, at: AT, type: "run.started" },
  { index: 1, at: AT, type: "text.delta", text: "It is " },
  { index: 5, at: AT, type: "text.delta", text: "Ada.", compacted: { from: 2, to: 5 } },
  { index: 6, at: AT, type: "run.completed", content: "It is Ada.", metrics: record.metrics },
];

/** As JSON makes it: what is undefined is gone. */
const written = (value: unknown) => JSON.parse(JSON.stringify(value)) as Record<string, any>;

describe("a run", () => {
  it("S112 shows its id, status, times, input and output, and no null", () => {
    const wire = written(runToWire({ record, events }));
    expect(wire).toMatchObject({
      run_id: "r1",
      agent_id: "a1",
      agent_name: "Agent One",
      session_id: "s2",
      status: "COMPLETED",
      created_at: 1_795_961_622,
      input: { input_content: "Who is 7?" },
      content: "It is Ada.",
      content_type: "str",
      model: "m",
      model_provider: "p",
      metrics: { input_tokens: 3, output_tokens: 4, total_tokens: 7, duration: 1.5, details: { model: [{ id: "m", provider: "p", total_tokens: 7 }] } },
    });
    expect(Object.values(wire)).not.toContain(null);
    expect(wire.metrics).not.toHaveProperty("cache_read_tokens");
  });

  it("has its messages with the tool's arguments as they ran", () => {
    const { messages, tools } = written(runToWire({ record, events }));
    expect(messages.map((message: { role: string }) => message.role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(messages[0]).toEqual({ id: "m1", role: "user", content: "Who is 7?", from_history: false, stop_after_tool_call: false, created_at: 1_795_961_622 });
    expect(messages[1].tool_calls).toEqual([{ id: "c1", type: "function", function: { name: "lookup", arguments: '{"id":7}' } }]);
    expect(messages[2]).toMatchObject({ tool_call_id: "c1", tool_name: "lookup", tool_args: { id: 7 }, tool_call_error: false, content: "found" });
    expect(messages[3]).toMatchObject({ reasoning_content: "hm", metrics: { input_tokens: 3, total_tokens: 3 } });
    expect(Object.keys(tools[0])).toEqual(TOOL_KEYS);
  });

  it("S64 has its events without the pieces of its text, the last one terminal", () => {
    expect(written(runToWire({ record, events })).events.map((event: { event: string }) => event.event)).toEqual(["RunStarted", "RunCompleted"]);
    expect(written(runToWire({ record, events: [] }))).not.toHaveProperty("events");
  });

  it("that failed says why in its content, that was cancelled keeps what there was", () => {
    const failed = { ...record, status: "failed", content: "", error: { type: "model_overloaded", message: "Busy.", retryable: true } } as const;
    expect(written(runToWire({ record: failed, events }))).toMatchObject({ status: "ERROR", content: "Busy.", error_type: "model_overloaded" });
    expect(written(runToWire({ record: { ...failed, content: "It is" }, events }))).toMatchObject({ content: "It is", error_type: "model_overloaded" });
    expect(runToWire({ record: { ...record, status: "cancelled", content: "It is" }, events }).content).toBe("It is");
    expect(runToWire({ record: { ...record, status: "cancelled", content: "" }, events }).content).toBe("Run r1 was cancelled");
    expect(written(runToWire({ record: { ...record, status: "running", content: "" }, events }))).not.toHaveProperty("content");
  });

  it("in a list has ISO times, empty text where there is none, and its nulls", () => {
    const wire = written(runSchemaToWire({ record: { ...record, messages: [], effects: [] }, events: [] }));
    expect(wire).toMatchObject({
      run_id: "r1",
      parent_run_id: "",
      user_id: "",
      reasoning_content: "",
      run_input: "Who is 7?",
      run_response_format: "text",
      created_at: "2026-11-29T14:13:42.345Z",
      status: "COMPLETED",
      messages: null,
      tools: null,
      events: null,
      session_state: null,
      images: [],
      input_media: { images: [], videos: [], audios: [], files: [] },
    });
    expect(wire).not.toHaveProperty("extra_data");
    expect(Object.values(withoutNulls(wire))).not.toContain(null);
  });

  it("has a status that every client knows", () => {
    expect(RUN_STATUSES.map(statusToWire)).toEqual(["PENDING", "RUNNING", "PAUSED", "COMPLETED", "ERROR", "CANCELLED", "REGENERATED"]);
  });
});

describe("an agent", () => {
  const lookup = defineTool({ name: "lookup", description: "Looks up.", effect: "none", execute: () => "" });
  const wire = written(agentToWire(defineAgent({ id: "a1", model: "anthropic:claude-x", instructions: ["Be kind."], tools: [lookup], numHistoryMessages: 5, retries: undefined }), {}));

  it("S111 shows its model, tools and instructions", () => {
    expect(wire).toMatchObject({
      id: "a1",
      name: "a1",
      model: { model: "claude-x", provider: "anthropic" },
      tools: { tools: [{ name: "lookup", description: "Looks up.", parameters: { type: "object" }, has_side_effects: false }], tool_choice: "auto" },
      system_message: { instructions: ["Be kind."] },
    });
  });

  it("S164 S172 shows what it may look up, and its limits", () => {
    expect(wire.sessions).toEqual({ add_history_to_context: false, num_history_messages: 5, add_session_state_to_context: false, overwrite_db_session_state: false });
    expect(wire.response_settings).toMatchObject({ retries: 0, delay_between_retries: 1, max_steps: 50 });
  });

  it("S165 S168 shows how the process is stored", () => {
    expect(wire.storage).toMatchObject({ store_events: true, checkpoint: "tool-batch", store_history_messages: false });
  });

  it("S166 has one section a group, defaults filled in, and a database that clients need to list its sessions", () => {
    for (const section of ["model", "tools", "sessions", "system_message", "response_settings", "storage"]) expect(wire).toHaveProperty(section);
    expect(wire.db_id).toMatch(/.+/);
    expect(wire.system_message).toMatchObject({ markdown: false, timezone_identifier: "UTC", resolve_in_context: true });
  });

  it("names its model however it was chosen", () => {
    const choose = (model: Parameters<typeof defineAgent>[0]["model"], env: object = {}) => modelOf(defineAgent({ id: "a", model }), env);
    expect(choose("openai-chat:llama3.3:70b")).toEqual({ provider: "openai-chat", id: "llama3.3:70b" });
    expect(choose((env) => (env as unknown as { PICK: string }).PICK, { PICK: "openai:gpt" })).toEqual({ provider: "openai", id: "gpt" });
    expect(choose(() => { throw new Error("PICK is not set"); })).toBeUndefined();
  });
});
