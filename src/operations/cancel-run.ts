import { AppError } from "../domain/errors.ts";
import { isRunId, isSessionId } from "../domain/ids.ts";
import type { OperationContext } from "./context.ts";
import { type NamedRun, runNotFound } from "./read-run.ts";

/**
 * Cancels a run. One that is not known yet is cancelled when it becomes known: the wish is kept for a day. A run that is
 * over stays as it is.
 * @throws AppError `not_found` when the run is another component's.
 */
export async function cancelRun(context: OperationContext, run: NamedRun & { sessionId?: string }): Promise<void> {
  // No run can ever have such an id, so there is nothing to wish for.
  if (!isRunId(run.runId)) return;
  if (run.sessionId !== undefined) {
    if (isSessionId(run.sessionId) && (await cancelIn(context, run.sessionId, run))) return;
    return context.repositories.cancelWishes.keep(run.runId);
  }
  if (await cancelFound(context, run)) return;
  await context.repositories.cancelWishes.keep(run.runId);
  // It may have become known between the look and the wish, too early for the one and too late for the other.
  await cancelFound(context, run);
}

async function cancelFound(context: OperationContext, run: NamedRun): Promise<boolean> {
  const found = await context.repositories.runs.sessionOf(run.runId);
  return found !== undefined && cancelIn(context, found.sessionId, run);
}

/** Whether the session knows the run. */
async function cancelIn(context: OperationContext, sessionId: string, { runId, component }: NamedRun): Promise<boolean> {
  const { access } = context;
  const session = context.sessions(sessionId);
  if (await exists(session.cancelRun({ runId, component, access }))) return true;
  // Under another component it is there all the same; a wish would never find it.
  if (await exists(session.pollEvents({ runId, access, after: Number.MAX_SAFE_INTEGER, waitMs: 0 }))) throw runNotFound();
  return false;
}

async function exists(asked: Promise<unknown>): Promise<boolean> {
  try {
    await asked;
    return true;
  } catch (error) {
    if (error instanceof AppError && error.code === "not_found") return false;
    throw error;
  }
}
