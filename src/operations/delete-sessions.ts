import { isSessionId } from "../domain/ids.ts";
import type { Access } from "../domain/principal.ts";
import type { OperationContext } from "./context.ts";

/** How many objects are asked at once. */
const SIDE_BY_SIDE = 8;

/**
 * Deletes sessions with their runs. Those that are not there, or not the asker's, are left as they are: deleting again
 * is harmless. Where one fails the others are still deleted, and the error says to ask again.
 */
export async function deleteSessions(context: OperationContext, sessionIds: readonly string[], access: Access): Promise<void> {
  const waiting = [...new Set(sessionIds)].values();
  let failure: { error: unknown } | undefined;
  const worker = async () => {
    // All workers take from one iterator, so each id is taken once.
    for (const sessionId of waiting) {
      if (!isSessionId(sessionId)) continue;
      try {
        await context.sessions(sessionId).deleteSession({ access });
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
  if (failure !== undefined) throw failure.error;
}
