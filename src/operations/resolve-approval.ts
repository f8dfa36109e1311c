import type { Approval } from "../domain/approval.ts";
import type { ResolveApproval } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";
import { findDecidable } from "./read-approval.ts";

/** A decision as someone gives it. */
export interface Decision extends Pick<ResolveApproval, "approvalId" | "decision" | "data" | "shownHash" | "thenContinue"> {
  /** Who they say they are. Who is known to be asking counts for more. */
  resolvedBy?: string;
}

/**
 * Decides on an approval. Its session judges; the answer comes when D1 has it, or a second later. Nothing runs by it
 * unless that is asked for.
 * @throws AppError `not_found`, `approval_resolved` when someone was first, `conflict` when something else was shown, `forbidden`.
 */
export async function resolveApproval(context: OperationContext, { resolvedBy, ...decision }: Decision): Promise<Approval> {
  const { approval, session } = await findDecidable(context, decision.approvalId);
  const by = context.principal.subject ?? (countsPeople(approval) ? undefined : resolvedBy);
  return session.resolveApproval({ ...decision, access: context.access, ...(by === undefined ? {} : { by }) });
}

/** It matters who decides, so a name that anyone could have written does not do. */
const countsPeople = (approval: Approval): boolean => approval.approvers > 1 || !approval.requesterMayApprove;
