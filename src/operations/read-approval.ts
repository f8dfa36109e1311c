import type { Approval } from "../domain/approval.ts";
import { type AppError, notFound } from "../domain/errors.ts";
import type { SessionClient } from "../session/client.ts";
import type { OperationContext } from "./context.ts";
import { orIfEmpty } from "./read-run.ts";

/** Every way in which an approval is not there, or not the asker's, is told alike. */
export const approvalNotFound = (): AppError => notFound("Approval not found");

/** Whoever was shown an approval by D1 may see it in its session too: an approval is the requester's. */
const OF_ANYONE = { rows: "all" } as const;

/**
 * An approval as its session holds it, of which D1 may not have heard yet; as D1 was told where the session's object
 * holds nothing.
 * @throws AppError `not_found`
 */
export async function readApproval(context: OperationContext, approvalId: string): Promise<Approval> {
  const { approval, session } = await findApproval(context, approvalId);
  return orIfEmpty(session.readApproval({ approvalId, access: OF_ANYONE }), async () => approval, approvalNotFound());
}

/**
 * An approval as D1 knows it, with the session that it belongs to.
 * @throws AppError `not_found`
 */
export async function findApproval(context: OperationContext, approvalId: string): Promise<{ approval: Approval; session: SessionClient }> {
  const approval = await context.repositories.approvals.find(approvalId);
  if (approval === undefined) throw approvalNotFound();
  return { approval, session: context.sessions(approval.sessionId) };
}

/**
 * An approval that the asker may decide on. Users who see their own rows alone decide on none, their own least of all.
 * @throws AppError `not_found`
 */
export async function findDecidable(context: OperationContext, approvalId: string): Promise<{ approval: Approval; session: SessionClient }> {
  if (context.access.rows === "user") throw approvalNotFound();
  return findApproval(context, approvalId);
}
