import { isDelta, type RunEvent } from "../../domain/run-event.ts";
import type { RunRecord } from "../../domain/run.ts";
import type { RunReading } from "../../session/commands.ts";
import type { RunOutput, RunSchema } from "../schemas/run.ts";
import { wireEncoder } from "./events.ts";
import { runMessagesToWire } from "./messages.ts";
import { requirementsToWire, toolToWire } from "./tool-execution.ts";
import { metricsToWire, statusToWire, toIso, toSeconds } from "./words.ts";

/** A run as `POST …/runs` and `GET …/runs/{run_id}` answer it: epoch seconds, no null keys. */
export function runToWire({ record, events }: RunReading): RunOutput {
  return {
    run_id: record.runId,
    agent_id: record.component.id,
    agent_name: record.component.name,
    session_id: record.sessionId,
    parent_run_id: record.parentRunId,
    user_id: record.userId,
    input: { input_content: record.input.message },
    content: contentOf(record),
    content_type: "str",
    reasoning_content: record.reasoning,
    model: record.model,
    model_provider: record.provider,
    messages: runMessagesToWire(record),
    metrics: metricsOf(record),
    tools: toolsOf(record),
    requirements: requirementsOf(record),
    session_state: record.sessionState,
    metadata: record.metadata,
    events: eventsOf(record, events),
    status: statusToWire(record.status),
    error_type: record.error?.type,
    created_at: toSeconds(record.createdAt),
    forked_from_run_id: record.forkedFromRunId,
    forked_from_message_index: record.forkedFromMessageIndex,
    forked_from_session_id: record.forkedFromSessionId,
    regenerated_from: record.regeneratedFrom,
  };
}

/** A run as lists under `/agents/{id}/runs` and `/sessions/{id}/runs` show it: ISO times, absent text empty, nulls there. */
export function runSchemaToWire({ record, events }: RunReading): RunSchema {
  return {
    run_id: record.runId,
    parent_run_id: record.parentRunId ?? "",
    agent_id: record.component.id,
    user_id: record.userId ?? "",
    status: statusToWire(record.status),
    run_input: record.input.message,
    content: contentOf(record) ?? "",
    run_response_format: "text",
    reasoning_content: record.reasoning ?? "",
    reasoning_steps: [],
    metrics: metricsOf(record),
    messages: nullIfEmpty(runMessagesToWire(record)),
    tools: toolsOf(record) ?? null,
    events: eventsOf(record, events) ?? null,
    created_at: toIso(record.createdAt),
    references: [],
    citations: null,
    reasoning_messages: [],
    session_state: record.sessionState ?? null,
    images: [],
    videos: [],
    audio: [],
    files: [],
    response_audio: null,
    input_media: { images: [], videos: [], audios: [], files: [] },
    followups: null,
    forked_from_run_id: record.forkedFromRunId ?? null,
    forked_from_message_index: record.forkedFromMessageIndex ?? null,
    forked_from_session_id: record.forkedFromSessionId ?? null,
    regenerated_from: record.regeneratedFrom ?? null,
    last_checkpoint_at_message_index: null,
  };
}

/** What a run has to say: its answer, or why there is none. A run that is still going has nothing to say yet. */
function contentOf(record: RunRecord): string | undefined {
  if (record.content !== "") return record.content;
  if (record.status === "failed") return record.error?.message;
  if (record.status === "cancelled") return `Run ${record.runId} was cancelled`;
  return record.status === "completed" ? "" : undefined;
}

const metricsOf = (record: RunRecord) =>
  metricsToWire(
    record.metrics,
    record.model === undefined || record.provider === undefined ? undefined : { id: record.model, provider: record.provider },
  );

const toolsOf = (record: RunRecord) =>
  record.effects.length === 0 ? undefined : record.effects.map((effect) => toolToWire(effect, record.createdAt));

function requirementsOf(record: RunRecord): RunOutput["requirements"] {
  const requirements = requirementsToWire(record.effects);
  return requirements.length === 0 ? undefined : requirements;
}

/** The run's events without the pieces of its text, which its content is: as AgentOS stores them. */
function eventsOf(record: RunRecord, events: readonly RunEvent[]): Record<string, unknown>[] | undefined {
  const told = events.filter((event) => !isDelta(event));
  if (told.length === 0) return undefined;
  return told.map((event) => JSON.parse(wireEncoder.event(record, event).json) as Record<string, unknown>);
}

const nullIfEmpty = <T>(list: T[]): T[] | null => (list.length === 0 ? null : list);
