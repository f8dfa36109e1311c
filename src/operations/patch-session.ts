import { isSessionId } from "../domain/ids.ts";
import type { RunReading, PatchSession } from "../session/commands.ts";
import type { Session } from "../domain/session.ts";
import type { OperationContext } from "./context.ts";
import { orIfEmpty } from "./read-run.ts";
import { readSession, readSessionRuns, sessionNotFound, type SessionQuery } from "./read-session.ts";

/**
 * Replaces what is given of a session and answers with all of it.
 * @throws AppError `not_found`
 */
export async function patchSession(
  context: OperationContext,
  query: SessionQuery,
  changes: Omit<PatchSession, "access">,
): Promise<{ session: Session; runs: RunReading[] }> {
  const { sessionId, access } = query;
  const missing = sessionNotFound(sessionId);
  if (!isSessionId(sessionId)) throw missing;
  if (Object.values(changes).every((value) => value === undefined)) return readSession(context, query);
  const refuse = () => Promise.reject(missing);
  const session = await orIfEmpty(context.sessions(sessionId).patchSession({ ...changes, access }), refuse, missing);
  return { session, runs: await readSessionRuns(context, query) };
}
