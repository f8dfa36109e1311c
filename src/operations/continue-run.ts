import { matches } from "../auth/scopes.ts";
import { AppError } from "../domain/errors.ts";
import { isRunId, isSessionId, newId } from "../domain/ids.ts";
import type { ContinueRun } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";
import { type Idempotency, underKey } from "./idempotency.ts";
import { asClientsRead, type NamedRun, runNotFound } from "./read-run.ts";
import { MAX_INPUT_BYTES, type RunAnswer, userOf } from "./start-run.ts";

/** How someone asks that a run goes on, whichever edge they came in by. */
export interface ContinueRequest extends Omit<ContinueRun, "runId" | "access" | "component" | "newRunId" | "by"> {
  /** A client's key: asking again under it is asking for the same. */
  idempotency?: Idempotency;
  run: NamedRun & { sessionId: string };
  /** Who they say they are. Who is known to be asking counts for more. */
  userId?: string;
  /** A stream of the text and the end alone. */
  contentOnly: boolean;
}

/**
 * Lets a paused run go on in place, or an ended one as a sibling, and answers in the shape that was asked for. A stream
 * begins behind what was told before.
 * @throws AppError before anything is streamed or changed: `not_found`, `requirements_open`, `approval_pending`,
 * `run_not_continuable`, `session_busy`, …
 */
export async function continueRun(context: OperationContext, request: ContinueRequest, signal?: AbortSignal): Promise<RunAnswer> {
  try {
    const command = commandOf(context, request);
    if (request.idempotency === undefined) return { ...(await continued(context, request, command, signal)), isReplay: false };
    const { sessionId, runId } = request.run;
    const ask = { ...request.idempotency, userId: command.by, target: `run:${runId}`, ids: { runId: command.newRunId, sessionId } };
    const { answer, isReplay } = await underKey(context, ask, (ids) => continued(context, request, { ...command, newRunId: ids.runId }, signal));
    return { ...answer, isReplay };
  } catch (error) {
    throw error instanceof AppError ? asRefused(context, error) : error;
  }
}

async function continued(context: OperationContext, request: ContinueRequest, command: ContinueRun, signal: AbortSignal | undefined) {
  const session = context.sessions(request.run.sessionId);
  if (command.stream) {
    const view = { after: -1, framing: "plain", ...(request.contentOnly ? { only: "content" as const } : {}) } as const;
    return { kind: "stream" as const, stream: await session.continueAndFollow(command, view, signal) };
  }
  if (command.background) return { kind: "accepted" as const, run: await session.continueRun(command) };
  return { kind: "finished" as const, reading: asClientsRead(context, await session.continueAndWait(command, signal)) };
}

function commandOf(context: OperationContext, { run, userId, contentOnly: _contentOnly, idempotency: _idempotency, ...rest }: ContinueRequest): ContinueRun {
  if (!isRunId(run.runId) || !isSessionId(run.sessionId)) throw runNotFound();
  const bytes = new TextEncoder().encode(JSON.stringify([rest.input, rest.answers])).length;
  if (bytes > MAX_INPUT_BYTES) throw new AppError("payload_too_large", `The input and the answers have ${bytes} bytes; together they may have ${MAX_INPUT_BYTES}.`);
  const by = userOf(context, userId);
  return {
    ...rest,
    runId: run.runId,
    component: run.component,
    access: context.access,
    // Minted here, so that a branch can be asked for again when the answer is lost.
    newRunId: newId(),
    ...(by === undefined ? {} : { by }),
  };
}

/** Who has no say in approvals is told that it is not theirs to go past one; everyone else, that it is open. */
function asRefused({ principal }: OperationContext, error: AppError): AppError {
  if (error.code === "not_found") return runNotFound();
  if (error.code !== "approval_pending" || matches(principal.scopes, "approvals:write")) return error;
  return new AppError("forbidden", `${error.message} Someone with approvals:write decides on it.`, error.details);
}
