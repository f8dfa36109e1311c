import { refOf } from "../components/registry.ts";
import type { AgentDefinition } from "../define/agent.ts";
import { AppError } from "../domain/errors.ts";
import { newId } from "../domain/ids.ts";
import type { RunInput } from "../domain/run.ts";
import type { OnBusy, RunReading, StartedRun, StartRun } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";
import { type Idempotency, underKey } from "./idempotency.ts";
import { asClientsRead } from "./read-run.ts";

/** A new run as someone asks for it, whichever edge they came in by. */
export interface StartRequest {
  component: AgentDefinition;
  /** Where; a new session if absent. */
  sessionId?: string;
  /** Whose run it is said to be. Who is known to be asking counts for more. */
  userId?: string;
  input: RunInput;
  stream: boolean;
  background: boolean;
  /** A stream of the text and the end alone. */
  contentOnly: boolean;
  onBusy: OnBusy;
  /** Milliseconds, or `"keep"`. */
  onDisconnect: number | "keep";
  /** Ids that were settled before, so that asking again is asking for the same run. Absent: minted. */
  ids?: { runId: string; sessionId: string };
  /** A client's key: asking again under it is asking for the same run. */
  idempotency?: Idempotency;
  /** The schedule that starts it, and which of its firings. */
  schedule?: StartRun["schedule"];
}

/** What became of the request. All three are the same run: a stream follows it, waiting follows it to its end or pause. */
export type RunAnswer = (
  | { kind: "stream"; stream: Response }
  | { kind: "finished"; reading: RunReading }
  | { kind: "accepted"; run: StartedRun }
) & {
  /** The client's key stands for a run that was asked for before: this is what has become of it since. */
  isReplay: boolean;
};

/** A row of the session's storage takes two million bytes, and the input is in it beside other things. */
export const MAX_INPUT_BYTES = 1_000_000;

/**
 * Starts a run and answers in the shape that was asked for.
 * @throws AppError `session_busy`, `queue_full`, `not_found`, `idempotency_mismatch`, … before anything is streamed or stored.
 */
export async function startRun(context: OperationContext, request: StartRequest, signal?: AbortSignal): Promise<RunAnswer> {
  const command = commandOf(context, request);
  if (request.idempotency === undefined) return { ...(await started(context, request, command, signal)), isReplay: false };
  const { kind, id } = command.component;
  const ask = { ...request.idempotency, userId: command.userId, target: `${kind}:${id}`, ids: { runId: command.runId, sessionId: command.sessionId } };
  // The session may have been made by the request that the key came with before.
  const { answer, isReplay } = await underKey(context, ask, (ids) => started(context, request, { ...command, ...ids, sessionIsNew: command.sessionIsNew && ids.runId === command.runId }, signal));
  return { ...answer, isReplay };
}

async function started(context: OperationContext, request: StartRequest, command: StartRun, signal: AbortSignal | undefined) {
  const session = context.sessions(command.sessionId);
  if (request.stream) {
    const view = { after: -1, framing: "plain", ...(request.contentOnly ? { only: "content" as const } : {}) } as const;
    return { kind: "stream" as const, stream: await session.startAndFollow(command, view, signal) };
  }
  if (request.background) return { kind: "accepted" as const, run: await session.startRun(command) };
  return { kind: "finished" as const, reading: asClientsRead(context, await session.startAndWait(command, signal)) };
}

function commandOf(context: OperationContext, request: StartRequest): StartRun {
  const bytes = new TextEncoder().encode(JSON.stringify(request.input)).length;
  if (bytes > MAX_INPUT_BYTES) {
    throw new AppError("payload_too_large", `The run's input has ${bytes} bytes; message, session_state, dependencies and metadata together may have ${MAX_INPUT_BYTES}.`);
  }
  const userId = userOf(context, request.userId);
  return {
    // Minted here, so that the accept can be repeated when its answer is lost.
    runId: request.ids?.runId ?? newId(),
    sessionId: request.sessionId ?? request.ids?.sessionId ?? newId(),
    sessionIsNew: request.sessionId === undefined && request.ids === undefined,
    access: context.access,
    ...(userId === undefined ? {} : { userId }),
    component: refOf(request.component),
    ...(request.schedule === undefined ? {} : { schedule: request.schedule }),
    input: request.input,
    background: request.background,
    stream: request.stream,
    onBusy: request.onBusy,
    onDisconnect: request.onDisconnect,
  };
}

/** Whose a run or a session is: who is asking, and only where nobody is known, who they say they are. */
export function userOf(context: Pick<OperationContext, "access" | "principal">, asked: string | undefined): string | undefined {
  return context.access.rows === "user" ? context.access.userId : (context.principal.subject ?? asked);
}
