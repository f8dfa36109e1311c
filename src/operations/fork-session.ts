import { invalid } from "../domain/errors.ts";
import { isSessionId, newId } from "../domain/ids.ts";
import { isTerminal } from "../domain/run.ts";
import type { Session } from "../domain/session.ts";
import type { OperationContext } from "./context.ts";
import { isOf, type NamedRun, orIfEmpty } from "./read-run.ts";
import { userOf } from "./start-run.ts";

export interface ForkSession {
  sessionId: string;
  /** The component whose session it is. */
  component: NamedRun["component"];
  /** Whose the copy is said to be. Who is known to be asking counts for more. */
  userId?: string;
}

/**
 * Copies a session with all its runs that have ended, under new ids. The source stays as it is.
 * @throws AppError `invalid_request` when there is no such session, or nothing to copy in it: one is told like the other.
 */
export async function forkSession(context: OperationContext, { sessionId, component, userId: asked }: ForkSession): Promise<Session> {
  const nothing = invalid(`There is no session '${sessionId}' with runs that could be copied.`);
  if (!isSessionId(sessionId)) throw nothing;
  const { access, repositories } = context;
  const object = context.sessions(sessionId);
  const stored = async () => {
    const session = await repositories.sessions.find(sessionId);
    if (session === undefined) throw nothing;
    return session;
  };
  const [source, runs] = await Promise.all([
    orIfEmpty(object.readSession({ access }), stored, nothing),
    orIfEmpty(object.readRuns({ access }), () => repositories.runs.ofSession(sessionId), nothing),
  ]);
  const ended = runs.filter(({ record }) => isTerminal(record.status));
  if (!ended.some(({ record }) => isOf(record, component))) throw nothing;
  const copyId = newId();
  const userId = userOf(context, asked) ?? source.userId;
  return context.sessions(copyId).importSession({
    sessionId: copyId,
    access,
    ...(userId === undefined ? {} : { userId }),
    source,
    runs: ended,
    runIds: ended.map(newId),
  });
}
