import type { OperationContext } from "./context.ts";
import { findDecidable } from "./read-approval.ts";

/**
 * Deletes an approval. A call that waits for it stays blocked: its run can only be cancelled.
 * @throws AppError `not_found`
 */
export async function deleteApproval(context: OperationContext, approvalId: string): Promise<void> {
  const { session } = await findDecidable(context, approvalId);
  await session.deleteApproval({ approvalId, access: context.access });
}
