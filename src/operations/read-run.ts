import type { ComponentRef } from "../domain/component.ts";
import { AppError, notFound } from "../domain/errors.ts";
import { isRunId, isSessionId } from "../domain/ids.ts";
import type { RunRecord } from "../domain/run.ts";
import type { RunReading } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";

/** A run as a client names it: by its id, under the component that its path names. */
export interface NamedRun {
  runId: string;
  component: Pick<ComponentRef, "kind" | "id">;
}

/** Every way in which a run is not there, or not the asker's, is told alike. */
export const runNotFound = (): AppError => notFound("Run not found");

/** How long a run that was just started may take to be known outside its session. */
const PROJECTION_MS = 2_000;
const POLL_MS = 100;

/**
 * A run as it was told so far.
 * @throws AppError `not_found`
 */
export async function readRun(context: OperationContext, run: NamedRun & { sessionId: string }): Promise<RunReading> {
  if (!isRunId(run.runId) || !isSessionId(run.sessionId)) throw runNotFound();
  const { sessionId, ...query } = run;
  const reading = await orIfEmpty(context.sessions(sessionId).readRun({ ...query, access: context.access }), () => storedRun(context, run));
  return asClientsRead(context, reading);
}

/**
 * A session's runs of one component, in the order they were accepted.
 * @throws AppError `not_found` when there is no such session, or it is another component's.
 */
export async function listRuns(context: OperationContext, sessionId: string, component: NamedRun["component"]): Promise<RunReading[]> {
  const missing = notFound("Session not found");
  if (!isSessionId(sessionId)) throw missing;
  const { access } = context;
  const session = context.sessions(sessionId);
  const readings = await orIfEmpty(session.readRuns({ access }), () => context.repositories.runs.ofSession(sessionId), missing);
  const own = readings.filter(({ record }) => record.component.kind === component.kind && record.component.id === component.id);
  if (own.length > 0) return own.map((reading) => asClientsRead(context, reading));
  const { component: first } = await orIfEmpty(session.readSession({ access }), async () => (await context.repositories.sessions.find(sessionId)) ?? refuse(missing), missing);
  if (first?.kind !== component.kind || first.id !== component.id) throw missing;
  return [];
}

/** Which session a run belongs to. A run that was just started is asked for again, until D1 must have heard of it. */
export async function sessionOfRun(context: OperationContext, runId: string): Promise<string | undefined> {
  if (!isRunId(runId)) return undefined;
  for (const until = context.clock.now() + PROJECTION_MS; ; await context.clock.sleep(POLL_MS)) {
    const found = await context.repositories.runs.sessionOf(runId);
    if (found !== undefined || context.clock.now() >= until) return found?.sessionId;
  }
}

/**
 * A run as D1 holds it: what there is of a session whose object is empty.
 * @throws AppError `not_found`
 */
export async function storedRun(context: OperationContext, run: NamedRun & { sessionId: string }): Promise<RunReading> {
  const stored = await context.repositories.runs.find(run.runId);
  if (stored === undefined || stored.sessionId !== run.sessionId || !isOf(stored.record, run.component)) throw runNotFound();
  return stored;
}

/** Asks the session's object, and D1 when the object holds nothing at all. */
export async function orIfEmpty<T>(asked: Promise<T>, fallback: () => Promise<T>, missing: AppError = runNotFound()): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "not_found") throw error;
    if (error.details.empty === true) return fallback();
    throw missing;
  }
}

/** Without its events where its component says that they are not kept on the run. */
export function asClientsRead(context: Pick<OperationContext, "registry">, reading: RunReading): RunReading {
  return context.registry.find(reading.record.component)?.storeEvents === false ? { ...reading, events: [] } : reading;
}

/** Whether a run is of this component. */
export const isOf = (record: RunRecord, component: NamedRun["component"]): boolean => record.component.kind === component.kind && record.component.id === component.id;

const refuse = (error: AppError): never => {
  throw error;
};
