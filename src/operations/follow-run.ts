import { isRunId, isSessionId } from "../domain/ids.ts";
import { isTerminal } from "../domain/run.ts";
import type { FollowView, PolledEvents, RunReading } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";
import { type NamedRun, orIfEmpty, runNotFound, sessionOfRun, storedRun } from "./read-run.ts";

/** A run to follow. Without a session id it is looked for. */
export interface FollowedRun extends NamedRun {
  sessionId?: string;
}

/** Where a run's events come from: its session's object, which writes the stream itself, or what D1 kept of it. */
export type Followed = { kind: "live"; stream: Response } | { kind: "stored"; reading: RunReading };

/**
 * Opens a run's events after a cursor.
 * @throws AppError `not_found`
 */
export async function followRun(context: OperationContext, run: FollowedRun, view: FollowView, signal?: AbortSignal): Promise<Followed> {
  const found = await located(context, run);
  const query = { ...view, runId: run.runId, component: run.component, access: context.access };
  const live = async (): Promise<Followed> => ({ kind: "live", stream: await context.sessions(found.sessionId).follow(query, signal) });
  return orIfEmpty(live(), async () => ({ kind: "stored", reading: await storedRun(context, found) }));
}

/**
 * A run's events after a cursor; waits for some, up to `waitMs`, when there are none yet.
 * @throws AppError `not_found`
 */
export async function pollRun(
  context: OperationContext,
  run: FollowedRun,
  { after, waitMs }: { after: number; waitMs: number },
): Promise<PolledEvents & { sessionId: string }> {
  const found = await located(context, run);
  const query = { runId: run.runId, component: run.component, access: context.access, after, waitMs };
  const polled = await orIfEmpty(context.sessions(found.sessionId).pollEvents(query), async () => polledFrom(await storedRun(context, found), after));
  return { ...polled, sessionId: found.sessionId };
}

async function located(context: OperationContext, run: FollowedRun): Promise<NamedRun & { sessionId: string }> {
  if (!isRunId(run.runId)) throw runNotFound();
  const sessionId = run.sessionId ?? (await sessionOfRun(context, run.runId));
  if (sessionId === undefined || !isSessionId(sessionId)) throw runNotFound();
  return { ...run, sessionId };
}

function polledFrom({ record, events }: RunReading, after: number): PolledEvents {
  return {
    runId: record.runId,
    component: record.component,
    status: record.status,
    events: events.filter((event) => event.index > after),
    ended: isTerminal(record.status),
  };
}
