import { type Approval, shownHashOf } from "../../domain/approval.ts";
import type { ApprovalSchema } from "../schemas/approval.ts";
import { requirementToWire } from "./tool-execution.ts";
import { statusToWire, toSeconds } from "./words.ts";

/** An approval as every route shows it: epoch seconds, nulls there. */
export async function approvalToWire(approval: Approval): Promise<ApprovalSchema> {
  const { component, toolNames } = approval;
  const idOf = (kind: typeof component.kind) => (component.kind === kind ? component.id : null);
  return {
    id: approval.id,
    run_id: approval.runId,
    session_id: approval.sessionId,
    status: approval.status,
    source_type: component.kind,
    approval_type: approval.type,
    pause_type: approval.pauseType,
    tool_name: approval.toolName,
    tool_args: approval.toolArguments,
    expires_at: secondsOrNull(approval.expiresAt),
    agent_id: idOf("agent"),
    team_id: idOf("team"),
    workflow_id: idOf("workflow"),
    user_id: approval.userId ?? null,
    schedule_id: approval.scheduleId ?? null,
    schedule_run_id: approval.scheduleRunId ?? null,
    source_name: component.name,
    requirements: approval.requirements.map(({ callId, toolName, arguments: args, ...requirement }) =>
      requirementToWire({ callId, toolName, arguments: args, status: "planned", plannedAt: requirement.createdAt, requirement }),
    ),
    context: { tool_names: toolNames, source_name: component.name },
    resolution_data: approval.resolutionData ?? null,
    resolved_by: approval.resolvedBy ?? null,
    resolved_at: secondsOrNull(approval.resolvedAt),
    created_at: toSeconds(approval.createdAt),
    updated_at: toSeconds(approval.updatedAt),
    run_status: approval.runStatus === undefined ? null : statusToWire(approval.runStatus),
    shown_hash: (await shownHashOf(approval.requirements)) ?? null,
    on_expiry: approval.onExpiry ?? null,
    approvers: approval.approvers,
    votes: approval.votes.map((vote) => ({ ...vote, at: toSeconds(vote.at) })),
    requester_may_approve: approval.requesterMayApprove,
  };
}

const secondsOrNull = (ms: number | undefined): number | null => (ms === undefined ? null : toSeconds(ms));
