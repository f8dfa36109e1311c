import type { RunEvent } from "../../domain/run-event.ts";
import type { ReplayNotice, RunIdentity, WireEncoder, WireFrame } from "../../session/wire-encoder.ts";
import { requirementsToWire, toolToWire } from "./tool-execution.ts";
import { metricsToWire, secondsOf, statusToWire, toSeconds } from "./words.ts";

/**
 * Events and notices in the words that clients are promised. It runs once for every token of every reply, inside the
 * session's object: one `JSON.stringify` an event, nothing else.
 */
export const wireEncoder: WireEncoder = {
  event(run, event) {
    const [name, fields] = nameAndFields(event);
    return frameOf(run, event, name, fields);
  },
  oversized(run, event, bytes) {
    const [name] = nameAndFields(event);
    const query = new URLSearchParams({ after: String(event.index - 1), session_id: run.sessionId });
    const path = `/agents/${encodeURIComponent(run.component.id)}/runs/${run.runId}/events?${query}`;
    return frameOf(run, event, name, { oversized: { bytes, path } });
  },
  notice: (run, notice) => ({ name: notice.type, json: JSON.stringify({ event: notice.type, ...noticeFields(run.runId, notice) }) }),
};

function frameOf(run: RunIdentity, event: RunEvent, name: string, fields: Record<string, unknown>): WireFrame {
  const json = JSON.stringify({
    created_at: toSeconds(event.at),
    event: name,
    agent_id: run.component.id,
    agent_name: run.component.name,
    run_id: run.runId,
    parent_run_id: run.parentRunId,
    session_id: run.sessionId,
    nested_depth: run.parentRunId === undefined ? 0 : 1,
    ...fields,
    event_index: event.index,
  });
  return { name, json };
}

/** An event's name and its own fields, in the order that clients know. What is `undefined` is left out. */
function nameAndFields(event: RunEvent): [name: string, fields: Record<string, unknown>] {
  switch (event.type) {
    case "text.delta":
      return ["RunContent", { content: event.text, workflow_agent: false, content_type: "str", reasoning_content: "", compacted: event.compacted }];
    case "reasoning.delta":
      return ["ReasoningContentDelta", { reasoning_content: event.text, compacted: event.compacted }];
    case "run.started":
      return ["RunStarted", { model: event.model, model_provider: event.provider }];
    case "run.retried":
      return [
        "RunRetry",
        {
          attempt: event.attempt,
          max_attempts: event.maxAttempts,
          delay: event.delayMs / 1000,
          reason: event.reason,
          error: event.error,
          discarded: event.discarded,
        },
      ];
    case "run.paused":
      return ["RunPaused", { content: event.content, tools: event.calls.map((call) => toolToWire(call, event.at)), requirements: requirementsToWire(event.calls) }];
    case "run.continued":
      return ["RunContinued", { note: event.note }];
    case "model.started":
      return ["ModelRequestStarted", { model: event.model, model_provider: event.provider }];
    case "model.completed":
      return [
        "ModelRequestCompleted",
        {
          model: event.model,
          model_provider: event.provider,
          // Tokens that nobody counted are absent: 0 would say that there were none.
          input_tokens: event.usage?.inputTokens,
          output_tokens: event.usage?.outputTokens,
          total_tokens: event.usage && event.usage.inputTokens + event.usage.outputTokens,
          time_to_first_token: secondsOf(event.timeToFirstTokenMs),
          reasoning_tokens: event.usage?.reasoningTokens,
          cache_read_tokens: event.usage?.cacheReadTokens,
          cache_write_tokens: event.usage?.cacheWriteTokens,
          finish_reason: event.finishReason,
        },
      ];
    case "text.completed":
      return ["RunContentCompleted", {}];
    case "reasoning.started":
      return ["ReasoningStarted", {}];
    case "reasoning.completed":
      return ["ReasoningCompleted", { content: event.text, content_type: "str" }];
    case "tool-call.started":
      return ["ToolCallStarted", { tool: toolToWire(event.call, event.at) }];
    case "tool-call.completed":
      return [
        "ToolCallCompleted",
        { content: `${event.call.toolName}() completed in ${(event.durationMs / 1000).toFixed(4)}s.`, tool: toolToWire(event.call, event.at) },
      ];
    case "tool-call.failed":
      return ["ToolCallError", { tool: toolToWire(event.call, event.at), error: event.error }];
    case "tool-call.progress":
      return ["CustomEvent", { tool_call_id: event.callId, name: "tool_progress", progress: event.data }];
    case "custom":
      return ["CustomEvent", { tool_call_id: event.callId, name: event.name, ...customFields(event.data) }];
    case "run.completed":
      return [
        "RunCompleted",
        {
          content: event.content,
          content_type: "str",
          reasoning_content: event.reasoning,
          metadata: event.metadata,
          metrics: metricsToWire(event.metrics),
          session_state: event.sessionState,
          finish_reason: event.finishReason,
        },
      ];
    case "run.failed":
      return ["RunError", { content: event.error.message, error_type: event.error.type, additional_data: { retryable: event.error.retryable } }];
    case "run.cancelled":
      return ["RunCancelled", { reason: event.reason, unfinished: event.unfinished }];
  }
}

/** Names that say what a frame is. `data` is among them because agent-ui does not take a frame that has it. */
const TAKEN = new Set([
  "created_at",
  "event",
  "event_index",
  "agent_id",
  "agent_name",
  "run_id",
  "parent_run_id",
  "session_id",
  "nested_depth",
  "tool_call_id",
  "name",
  "data",
  "payload",
]);

/** An author's own fields stand in the frame as AgentOS's do; those whose names are taken stand under `payload`. */
function customFields(data: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(data);
  const taken = entries.filter(([name]) => TAKEN.has(name));
  const free = Object.fromEntries(entries.filter(([name]) => !TAKEN.has(name)));
  return taken.length === 0 ? free : { ...free, payload: Object.fromEntries(taken) };
}

function noticeFields(runId: string, notice: ReplayNotice): Record<string, unknown> {
  switch (notice.type) {
    case "catch_up":
      return {
        run_id: runId,
        status: "running",
        missed_events: notice.missedEvents,
        current_event_count: notice.eventCount,
        message: `Catching up on ${notice.missedEvents} missed events.`,
      };
    case "subscribed":
      return { run_id: runId, status: "running", current_event_count: notice.eventCount, message: "Subscribed to the run; new events follow." };
    case "replay":
      return {
        run_id: runId,
        status: statusToWire(notice.status),
        total_events: notice.totalEvents,
        total_buffered: notice.totalBuffered,
        last_event_index_requested: notice.lastEventIndexRequested,
        message: `The run has ended; replaying ${notice.totalEvents} events.`,
      };
    case "error":
      return { error: notice.error };
  }
}
