import { notFound } from "../domain/errors.ts";
import { isRunId, isSessionId } from "../domain/ids.ts";
import { type Access, canSee } from "../domain/principal.ts";
import type { Session } from "../domain/session.ts";
import type { RunReading } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";
import { asClientsRead, orIfEmpty } from "./read-run.ts";

export interface SessionQuery {
  sessionId: string;
  /** The asker's, or narrower. */
  access: Access;
}

/** Every way in which a session is not there, or not the asker's, is told alike. */
export const sessionNotFound = (sessionId: string) => notFound(`Session with id '${sessionId}' not found`);

/**
 * A session with its runs: as its object holds them, or as D1 was told of them where the object holds nothing.
 * @throws AppError `not_found`
 */
export async function readSession(context: OperationContext, query: SessionQuery): Promise<{ session: Session; runs: RunReading[] }> {
  const { sessionId, access } = query;
  const missing = sessionNotFound(sessionId);
  if (!isSessionId(sessionId)) throw missing;
  const object = context.sessions(sessionId);
  const [session, runs] = await Promise.all([
    orIfEmpty(object.readSession({ access }), () => storedSession(context, query), missing),
    readSessionRuns(context, query),
  ]);
  return { session, runs };
}

/**
 * A session's runs in the order they were accepted.
 * @throws AppError `not_found` when there is no such session; none for one that has not run.
 */
export async function readSessionRuns(context: OperationContext, query: SessionQuery): Promise<RunReading[]> {
  const { sessionId, access } = query;
  const missing = sessionNotFound(sessionId);
  if (!isSessionId(sessionId)) throw missing;
  const stored = async () => {
    await storedSession(context, query);
    return context.repositories.runs.ofSession(sessionId);
  };
  const runs = await orIfEmpty(context.sessions(sessionId).readRuns({ access }), stored, missing);
  return runs.map((reading) => asClientsRead(context, reading));
}

/**
 * One run of a session.
 * @throws AppError `not_found`
 */
export async function readSessionRun(context: OperationContext, query: SessionQuery & { runId: string }): Promise<RunReading> {
  const { sessionId, access, runId } = query;
  const missing = notFound(`Run with ID ${runId} not found`);
  if (!isSessionId(sessionId) || !isRunId(runId)) throw missing;
  const stored = async () => {
    await storedSession(context, query);
    const run = await context.repositories.runs.find(runId);
    if (run?.sessionId !== sessionId) throw missing;
    return run;
  };
  return asClientsRead(context, await orIfEmpty(context.sessions(sessionId).readRun({ runId, access }), stored, missing));
}

async function storedSession(context: OperationContext, { sessionId, access }: SessionQuery): Promise<Session> {
  const session = await context.repositories.sessions.find(sessionId);
  if (session === undefined || !canSee(access, session.userId)) throw sessionNotFound(sessionId);
  return session;
}
