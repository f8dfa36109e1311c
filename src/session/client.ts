import { EventSourceParserStream } from "eventsource-parser/stream";
import type { Approval } from "../domain/approval.ts";
import { AppError, type ErrorInfo, type Result } from "../domain/errors.ts";
import type { Access } from "../domain/principal.ts";
import type { RunStatus } from "../domain/run.ts";
import type { Session } from "../domain/session.ts";
import { systemClock } from "../lib/clock.ts";
import {
  type ContinuedRun,
  type ContinueRun,
  type CreateSession,
  type FollowRun,
  type FollowView,
  type ImportSession,
  type PatchSession,
  type PolledEvents,
  type ResolveApproval,
  type RunQuery,
  type RunReading,
  SESSION_PATHS,
  SESSION_QUERY_HEADER,
  SESSION_REFUSAL_HEADER,
  type SessionCommands,
  type StartedRun,
  type StartRun,
} from "./commands.ts";

type SessionNamespace = DurableObjectNamespace<SessionCommands & Rpc.DurableObjectBranded>;

/** Who opens a socket. What it follows is said by the messages on it. */
export interface SocketQuery {
  access: Access;
  userId?: string;
}

/** A session as the rest of the Worker sees it. Refusals are thrown as `AppError`. */
export interface SessionClient {
  startRun(command: StartRun): Promise<StartedRun>;
  /** Starts and answers with the run's stream. */
  startAndFollow(command: StartRun, view: FollowView, signal?: AbortSignal): Promise<Response>;
  /** Starts, waits until the run ends or pauses, and reads it. */
  startAndWait(command: StartRun, signal?: AbortSignal): Promise<RunReading>;
  continueRun(command: ContinueRun): Promise<ContinuedRun>;
  /** Continues and answers with the stream of what is new. */
  continueAndFollow(command: ContinueRun, view: FollowView, signal?: AbortSignal): Promise<Response>;
  /** Continues, waits until the run, or the sibling that comes of it, ends or pauses, and reads it. */
  continueAndWait(command: ContinueRun, signal?: AbortSignal): Promise<RunReading>;
  follow(query: FollowRun, signal?: AbortSignal): Promise<Response>;
  /** Opens a WebSocket. Nothing of the client's request goes along: who is asking has been found out before. */
  socket(query: SocketQuery): Promise<Response>;
  cancelRun(command: RunQuery & { reason?: string }): Promise<{ status: RunStatus }>;
  readRun(query: RunQuery): Promise<RunReading>;
  readRuns(query: { access: Access }): Promise<RunReading[]>;
  pollEvents(query: RunQuery & { after: number; waitMs: number }): Promise<PolledEvents>;
  resolveApproval(command: ResolveApproval): Promise<Approval>;
  readApproval(query: { approvalId: string; access: Access }): Promise<Approval>;
  deleteApproval(command: { approvalId: string; access: Access }): Promise<void>;
  createSession(command: CreateSession): Promise<Session>;
  importSession(command: ImportSession): Promise<Session>;
  readSession(query: { access: Access }): Promise<Session>;
  patchSession(command: PatchSession): Promise<Session>;
  deleteSession(command: { access: Access }): Promise<void>;
  /** Looks after what D1 has not heard of for long; see `SessionCommands`. */
  poke(command: { runIds: string[]; parked?: string[] }): Promise<void>;
}

const ATTEMPTS = 4;
const FIRST_DELAY_MS = 50;
const LAST_DELAY_MS = 2_000;
/** How often in a row a wait may lose its stream before the client is told to come back. */
const LOST_STREAMS = 8;
/** A stream that held for so long was not lost in a row with the one before. */
const STEADY_MS = 30_000;

/** How the Worker reaches a session's object. The object is named by the session's id, so every request finds the same one. */
export function sessionClient(namespace: SessionNamespace, sessionId: string): SessionClient {
  // A stub that has thrown may stay broken, so each attempt makes its own.
  const stub = () => namespace.get(namespace.idFromName(sessionId));

  async function command<T>(call: (commands: SessionCommands) => Promise<Result<T>>, repeatable = true): Promise<T> {
    // RPC's own types turn every `unknown` inside a result into `never`; what crosses is plain data, as commands.ts says.
    const answer = await attempt(() => call(stub() as unknown as SessionCommands), repeatable);
    if (!answer.ok) throw AppError.from(answer.error);
    return answer.value;
  }

  async function open(path: string, request: { query?: object; headers?: Record<string, string>; body?: object; signal?: AbortSignal }): Promise<Response> {
    const { query, headers, body, signal } = request;
    const init: RequestInit = {
      headers: { ...headers, ...(query === undefined ? {} : { [SESSION_QUERY_HEADER]: asHeader(query) }) },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    };
    return refuseOr(await attempt(() => stub().fetch(`http://session${path}`, init), true));
  }

  const follow = (query: FollowRun, signal?: AbortSignal) => open(SESSION_PATHS.follow, { query, signal });
  const startAndFollow = (start: StartRun, view: FollowView, signal?: AbortSignal) =>
    open(SESSION_PATHS.start, { body: { command: start, view }, signal });
  const continueRun = (proceed: ContinueRun) => command((session) => session.continueRun(proceed));

  /** Waits on a stream that tells of a run's next end or pause alone, and reads the run. The query is what the stream began with. */
  async function readAtEnd(stream: Response, { after, ...run }: RunQuery & { after: number }, signal?: AbortSignal): Promise<RunReading> {
    for (let lost = 0, openedAt = systemClock.now(); !(await hasEnded(stream, signal)); lost++) {
      // The stream broke before the end: the object was reset in mid-turn. Following again is what wakes it.
      if (systemClock.now() - openedAt > STEADY_MS) lost = 0;
      if (lost === LOST_STREAMS) throw unreachable(run.runId, sessionId);
      await systemClock.sleep(delayOf(lost), signal);
      signal?.throwIfAborted();
      openedAt = systemClock.now();
      stream = await follow({ ...END_ALONE, ...run, after }, signal);
    }
    return command((session) => session.readRun(run));
  }

  return {
    startRun: (start) => command((session) => session.startRun(start)),
    startAndFollow,
    follow,

    async startAndWait(start, signal) {
      const query = { runId: start.runId, access: start.access, after: -1 };
      return readAtEnd(await startAndFollow(start, { ...END_ALONE, after: -1 }, signal), query, signal);
    },

    continueRun,
    continueAndFollow: (proceed, view, signal) => open(SESSION_PATHS.continue, { body: { command: proceed, view }, signal }),

    async continueAndWait(proceed, signal) {
      // Which run goes on is the object's answer, so it is asked first and then followed.
      const { runId, after } = await continueRun(proceed);
      const query = { runId, access: proceed.access, after };
      return readAtEnd(await follow({ ...END_ALONE, ...query }, signal), query, signal);
    },

    socket: (query) => open(SESSION_PATHS.socket, { query, headers: { upgrade: "websocket" } }),

    cancelRun: (cancel) => command((session) => session.cancelRun(cancel)),
    readRun: (query) => command((session) => session.readRun(query)),
    readRuns: (query) => command((session) => session.readRuns(query)),
    pollEvents: (query) => command((session) => session.pollEvents(query)),
    resolveApproval: (resolve) => command((session) => session.resolveApproval(resolve)),
    readApproval: (query) => command((session) => session.readApproval(query)),
    deleteApproval: async (remove) => {
      await command((session) => session.deleteApproval(remove));
    },
    // These two are not repeated: the second one would be told that the first one's session exists.
    createSession: (create) => command((session) => session.createSession(create), false),
    importSession: (copy) => command((session) => session.importSession(copy), false),
    readSession: (query) => command((session) => session.readSession(query)),
    patchSession: (patch) => command((session) => session.patchSession(patch)),
    deleteSession: async (remove) => {
      await command((session) => session.deleteSession(remove));
    },
    poke: async (asked) => {
      await command((session) => session.poke(asked));
    },
  };
}

/** What the platform writes on an error that a call to an object throws. */
interface PlatformError {
  retryable?: boolean;
  overloaded?: boolean;
  /** The object was taken out of memory in the middle of the call: a deploy, a fault, its own abort. It comes back when it is called. */
  durableObjectReset?: boolean;
}

/**
 * Calls an object and calls it again when the platform says that this can help, as after a deploy has reset it. Every
 * repeatable command is idempotent, because the first call may have been heard.
 */
async function attempt<T>(call: () => Promise<T>, repeatable: boolean): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await call();
    } catch (error) {
      const { retryable, overloaded, durableObjectReset } = error as PlatformError;
      if (overloaded === true) throw new AppError("unavailable", "The session is overloaded. Try again in a moment.", { retry_after: 1 });
      if (retryable !== true && durableObjectReset !== true) throw error;
      if (!repeatable || tried === ATTEMPTS) throw new AppError("unavailable", "The session could not be reached. Try again in a moment.", { retry_after: 1 });
      await systemClock.sleep(delayOf(tried - 1));
    }
  }
}

const delayOf = (tried: number): number => Math.min(FIRST_DELAY_MS * 2 ** tried, LAST_DELAY_MS);

/** A view of a run's next end or pause, and of nothing else. */
const END_ALONE = { framing: "plain", only: "end" } as const;

const unreachable = (runId: string, sessionId: string) =>
  new AppError("unavailable", "The run goes on, but its session could not be reached for long enough to see its end.", {
    run_id: runId,
    session_id: sessionId,
    retry_after: 1,
  });

/** An answer that is a refusal becomes the error it stands for; any other is handed on untouched. */
async function refuseOr(answer: Response): Promise<Response> {
  if (!answer.headers.has(SESSION_REFUSAL_HEADER)) return answer;
  throw AppError.from(await answer.json<ErrorInfo>());
}

/** Reads a stream that tells of a run's end or pause alone. `false`: it broke before that. */
async function hasEnded(stream: Response, signal: AbortSignal | undefined): Promise<boolean> {
  if (stream.body === null) return false;
  const events = stream.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
  try {
    // Comments that keep the connection alive are no events: the first event is the end.
    for await (const _end of events) return true;
  } catch {
    // A reset object breaks the stream; only the client's own abort ends the wait.
    signal?.throwIfAborted();
  }
  return false;
}

/** Headers are bytes: anything beyond ASCII is percent-encoded, lone surrogates replaced. */
const asHeader = (query: object): string => encodeURIComponent(JSON.stringify(query).toWellFormed());
