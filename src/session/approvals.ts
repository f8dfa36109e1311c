import type { ApprovalPolicy } from "../define/approval-policy.ts";
import type { AgentDefinition } from "../define/agent.ts";
import type { Approval } from "../domain/approval.ts";
import { newId } from "../domain/ids.ts";
import { problemsOf, type Requirement, type Resolution } from "../domain/requirement.ts";
import type { Run } from "../domain/run.ts";
import type { Effect } from "../domain/tool-call.ts";

const PAUSE_TYPES = { confirmation: "confirmation", user_input: "user_input", user_feedback: "user_input", external_execution: "external_execution", unknown_outcome: "confirmation" } as const;

/** User input beats external execution beats confirmation, where one pause holds several. */
const PAUSE_ORDER = ["user_input", "external_execution", "confirmation"] as const;

/** The calls of a pause that someone with authority decides on. */
export const needApproval = (effects: readonly Effect[]): Effect[] => effects.filter((effect) => effect.requirement?.approvalType === "required");

/** The record of a pause, over all its calls that want approval. Where tools ask for different rules, the strictest holds. */
export function openApproval(run: Run, covered: readonly Effect[], agent: AgentDefinition, now: number): Approval {
  const policies = covered.flatMap((effect) => agent.tools.find((tool) => tool.name === effect.toolName)?.approval ?? []);
  const [soonest] = policies.filter((policy) => policy.expiresInMs !== undefined).sort((a, b) => (a.expiresInMs as number) - (b.expiresInMs as number));
  return {
    ...describe(run, covered, "required", now),
    status: "pending",
    ...(soonest === undefined ? {} : { expiresAt: now + (soonest.expiresInMs as number), onExpiry: soonest.onExpiry }),
    approvers: Math.max(1, ...policies.map((policy) => policy.approvers)),
    requesterMayApprove: policies.every((policy: ApprovalPolicy) => policy.requesterMayApprove),
    runStatus: "paused",
  };
}

/** The record of what was decided about calls that only want it written down. */
export function auditApproval(run: Run, effect: Effect, by: string | undefined, now: number): Approval {
  const approved = isApproval(effect.requirement?.resolution);
  return {
    ...describe(run, [effect], "audit", now),
    status: approved ? "approved" : "rejected",
    ...(by === undefined ? {} : { resolvedBy: by }),
    resolvedAt: now,
    approvers: 1,
    requesterMayApprove: true,
  };
}

const isApproval = (resolution: Resolution | undefined): boolean =>
  resolution !== undefined && resolution.kind !== "rejected" && !(resolution.kind === "confirmation" && !resolution.confirmed);

function describe(run: Run, covered: readonly Effect[], type: Approval["type"], now: number): Omit<Approval, "status" | "approvers" | "requesterMayApprove"> {
  const first = covered[0] as Effect;
  const kinds = covered.map((effect) => PAUSE_TYPES[(effect.requirement as Requirement).kind]);
  const id = newId();
  return {
    id,
    runId: run.runId,
    sessionId: run.sessionId,
    ...(run.userId === undefined ? {} : { userId: run.userId }),
    component: run.component,
    ...(run.schedule === undefined ? {} : { scheduleId: run.schedule.id, scheduleRunId: run.schedule.runId }),
    type,
    pauseType: PAUSE_ORDER.find((kind) => kinds.includes(kind)) ?? "confirmation",
    toolName: first.toolName,
    toolArguments: first.arguments,
    toolNames: covered.map((effect) => effect.toolName),
    requirements: covered.map((effect) => ({
      ...(effect.requirement as Requirement),
      approvalId: id,
      callId: effect.callId,
      toolName: effect.toolName,
      arguments: effect.arguments,
    })),
    votes: [],
    createdAt: now,
    updatedAt: now,
    version: 1,
  };
}

/** What an approval's outcome means for one call; `undefined` where the client still has to say something. */
export function resolutionOf(requirement: Requirement, approval: { status: Approval["status"]; resolutionData?: Record<string, unknown> | undefined }, edited: Record<string, unknown> | undefined): Resolution | undefined {
  const data = approval.resolutionData ?? {};
  const note = typeof data.note === "string" ? { note: data.note } : {};
  if (approval.status !== "approved") return { kind: "rejected", ...(approval.status === "expired" ? { note: "The approval expired before anyone decided." } : note) };
  const wanted = offered(requirement, data, note, edited);
  return wanted !== undefined && problemsOf(requirement, wanted).length === 0 ? wanted : undefined;
}

function offered(requirement: Requirement, data: Record<string, unknown>, note: { note?: string }, edited: Record<string, unknown> | undefined): Resolution | undefined {
  switch (requirement.kind) {
    case "confirmation":
      return { kind: "confirmation", confirmed: true, ...note, ...(edited === undefined ? {} : { arguments: edited }) };
    case "user_input": {
      const values = typeof data.values === "object" && data.values !== null ? (data.values as Record<string, unknown>) : data;
      return { kind: "user_input", values: filledIn(requirement, values) };
    }
    case "external_execution":
      return typeof data.result === "string" ? { kind: "external_execution", result: data.result } : undefined;
    default:
      return undefined;
  }
}

/** The fields' values, with what the model wrote where a person left it. Anything that is no field is left out. */
export function filledIn(requirement: Requirement, values: Record<string, unknown>): Record<string, unknown> {
  const fields = requirement.fields ?? [];
  return Object.fromEntries(fields.flatMap(({ name, value }) => (Object.hasOwn(values, name) ? [[name, values[name]]] : value === undefined ? [] : [[name, value]])));
}

/** What is kept with the run of a decision that was applied. */
export const decisionNote = (approval: Approval): Record<string, unknown> => ({
  id: approval.id,
  status: approval.status,
  approval_type: approval.type,
  resolved_by: approval.resolvedBy ?? null,
  resolved_at: approval.resolvedAt === undefined ? null : Math.floor(approval.resolvedAt / 1_000),
  resolution_data: approval.resolutionData ?? null,
});
