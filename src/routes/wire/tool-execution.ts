import type { Requirement, Resolution } from "../../domain/requirement.ts";
import type { ToolCallView } from "../../domain/run-event.ts";
import { isSettled } from "../../domain/tool-call.ts";
import type { RunRequirement, ToolExecution } from "../schemas/run.ts";
import { toIso, toSeconds } from "./words.ts";

/** A tool call with every key that clients know, whether it has a value or not. `at` stands in for a time nobody kept. */
export function toolToWire(call: ToolCallView, at: number): ToolExecution {
  const started = call.startedAt;
  const ended = call.settledAt;
  const { requirement } = call;
  return {
    tool_call_id: call.callId,
    tool_name: call.toolName,
    tool_args: call.arguments,
    // Only a call that is done went well; what became of an unknown one nobody can say.
    tool_call_error: isSettled(call.status) ? call.status !== "done" : null,
    result: call.result ?? givenResult(requirement?.resolution),
    metrics: started === undefined || ended === undefined ? null : { start_time: started / 1000, end_time: ended / 1000, duration: (ended - started) / 1000 },
    child_run_id: null,
    stop_after_tool_call: call.stopAfter ?? false,
    created_at: toSeconds(call.plannedAt ?? started ?? at),
    ...pauseKeys(requirement),
    approval_type: requirement?.approvalType ?? null,
    approval_id: requirement?.approvalId ?? null,
    ...(requirement === undefined ? {} : ownKeys(requirement)),
  };
}

/** A paused call with what it waits for, or waited for. Absent keys have no value. */
export function requirementToWire(call: ToolCallView & { requirement: Requirement }): RunRequirement {
  const { id, kind, createdAt, resolution } = call.requirement;
  const tool = toolToWire(call, createdAt);
  return {
    id,
    created_at: toIso(createdAt),
    kind,
    tool_execution: tool,
    confirmation: tool.confirmed ?? undefined,
    confirmation_note: tool.confirmation_note ?? undefined,
    user_input_schema: tool.user_input_schema ?? undefined,
    user_feedback_schema: tool.user_feedback_schema ?? undefined,
    external_execution_result: resolution?.kind === "external_execution" ? resolution.result : undefined,
  };
}

/** Those of a run's calls that people had, or have, a say in. */
export const requirementsToWire = (calls: readonly ToolCallView[]): RunRequirement[] =>
  calls.flatMap((call) => (call.requirement === undefined ? [] : [requirementToWire({ ...call, requirement: call.requirement })]));

type PauseKey =
  | "requires_confirmation"
  | "confirmed"
  | "confirmation_note"
  | "requires_user_input"
  | "user_input_schema"
  | "user_feedback_schema"
  | "answered"
  | "external_execution_required"
  | "external_execution_silent";

function pauseKeys(requirement: Requirement | undefined): Pick<ToolExecution, PauseKey> {
  const { kind, resolution } = requirement ?? {};
  const isAsked = kind === "user_input" || kind === "user_feedback";
  return {
    requires_confirmation: kind === "confirmation" || null,
    confirmed: confirmedBy(resolution),
    confirmation_note: (resolution?.kind === "confirmation" || resolution?.kind === "rejected" ? resolution.note : undefined) ?? null,
    requires_user_input: isAsked || null,
    user_input_schema: kind === "user_input" ? fieldsToWire(requirement?.fields ?? [], resolution) : null,
    user_feedback_schema: kind === "user_feedback" ? questionsToWire(requirement?.questions ?? [], resolution) : null,
    answered: (isAsked && resolution !== undefined) || null,
    external_execution_required: kind === "external_execution" || null,
    external_execution_silent: kind === "external_execution" ? (requirement?.silent ?? false) : null,
  };
}

/** What AgentOS has no keys for. Only calls that people had a say in carry them. */
function ownKeys({ kind, shownHash, resolution }: Requirement): Partial<ToolExecution> {
  return {
    ...(shownHash === undefined ? {} : { shown_hash: shownHash }),
    ...(resolution?.kind === "confirmation" && resolution.arguments !== undefined ? { edited_args: resolution.arguments } : {}),
    ...(kind === "unknown_outcome" ? { requirement_kind: kind, outcome: resolution?.kind === "unknown_outcome" ? resolution.decision : null } : {}),
  };
}

/** A rejection is told as an unconfirmed confirmation, whatever the call waited for: clients of AgentOS know no other. */
function confirmedBy(resolution: Resolution | undefined): boolean | null {
  if (resolution?.kind === "rejected") return false;
  return resolution?.kind === "confirmation" ? resolution.confirmed : null;
}

const givenResult = (resolution: Resolution | undefined): string | null => (resolution?.kind === "external_execution" ? resolution.result : null);

const fieldsToWire = (fields: NonNullable<Requirement["fields"]>, resolution: Resolution | undefined) =>
  fields.map((field) => ({
    name: field.name,
    field_type: field.type,
    description: field.description ?? null,
    value: (resolution?.kind === "user_input" ? resolution.values[field.name] : field.value) ?? null,
  }));

const questionsToWire = (questions: NonNullable<Requirement["questions"]>, resolution: Resolution | undefined) =>
  questions.map((question, index) => {
    const selected = resolution?.kind === "user_feedback" ? (resolution.selections[index] ?? []) : null;
    return {
      question: question.question,
      header: question.header ?? null,
      multi_select: question.multiSelect,
      selected_options: selected,
      options: question.options.map(({ label, description }) => ({ label, description: description ?? null, selected: selected?.includes(label) ?? false })),
    };
  });
