import type { Approval } from "../domain/approval.ts";
import type { ComponentRef } from "../domain/component.ts";
import type { Result } from "../domain/errors.ts";
import type { Access } from "../domain/principal.ts";
import type { RunEvent } from "../domain/run-event.ts";
import type { RunInput, RunRecord, RunStatus } from "../domain/run.ts";
import type { Session } from "../domain/session.ts";

/** What a start does when another turn holds the session. */
export type OnBusy = "reject" | "enqueue" | "interrupt";

/** Asks a session for a new run. Accepting it is one commit; nothing before that commit leaves a trace. */
export interface StartRun {
  /** Minted at the edge, so that the accept can be repeated with the same id; never a client's choice. */
  runId: string;
  sessionId: string;
  /** The session id was minted with this request: nobody can hold it, nobody needs to be asked. */
  sessionIsNew: boolean;
  access: Access;
  /** Whose run it is. */
  userId?: string;
  component: ComponentRef;
  /** The schedule that starts it, and which of its firings. */
  schedule?: { id: string; runId: string };
  input: RunInput;
  background: boolean;
  stream: boolean;
  onBusy: OnBusy;
  /** Milliseconds a run without any follower goes on before it is cancelled; `"keep"` lets it finish. Background runs are kept. */
  onDisconnect: number | "keep";
}

export interface StartedRun {
  runId: string;
  sessionId: string;
  status: RunStatus;
}

/** What someone says about one paused call. Which fields count follows from what the call waits for. */
export interface Answer {
  /** One of the two names the call. */
  requirementId?: string;
  callId?: string;
  confirmed?: boolean;
  note?: string;
  /** Arguments to run with instead of the model's. */
  arguments?: Record<string, unknown>;
  /** Values by field name. */
  values?: Record<string, unknown>;
  /** Someone has answered, even if the values are none but those that the model wrote. */
  answered?: boolean;
  /** Selected labels, a list a question. */
  selections?: string[][];
  result?: string;
  outcome?: "happened" | "run" | "skip";
}

/** Asks that a run goes on: a paused one in place, an ended one as a sibling. */
export interface ContinueRun extends RunQuery {
  /** Minted at the edge, for the case that a sibling comes of it. Asking again with the same one is the same ask. */
  newRunId: string;
  /** Who asks, for the record of what was decided. */
  by?: string;
  answers?: Answer[];
  /** A user message to go on with. */
  input?: string;
  /** How much of the source's messages to keep: all, through the last user message, or the first so many. */
  continueFrom: "end" | "last_user" | number;
  fork: boolean;
  regenerate: boolean;
  /** With `regenerate`: whether the source is marked as replaced. */
  replaceOriginal: boolean;
  background: boolean;
  stream: boolean;
  onBusy: OnBusy;
  onDisconnect: number | "keep";
}

export interface ContinuedRun extends StartedRun {
  /** Its last event before it went on: what comes after is new. */
  after: number;
}

/** A decision on an approval. */
export interface ResolveApproval {
  approvalId: string;
  access: Access;
  /** The subject that decides; absent for a key without one. */
  by?: string;
  decision: "approved" | "rejected";
  data?: Record<string, unknown>;
  /** Hash of what was shown: another one is a decision on something else. */
  shownHash?: string;
  /** Goes on at once, waiting for the line if it must. */
  thenContinue: boolean;
}

/** Everything of a session that a copy of it begins with. */
export interface ImportSession {
  sessionId: string;
  access: Access;
  userId?: string;
  source: Session;
  runs: RunReading[];
  /** A new id for each of them, in their order. */
  runIds: string[];
}

/** How a follower wants to see a run's log. */
export interface FollowView {
  /** Where it stands: events after this index. -1 is before the first. */
  after: number;
  /** `agentos` frames the replay with `catch_up`, `subscribed` and `replay`, as AgentOS's resume does. */
  framing: "plain" | "agentos";
  /** `content` is AgentOS's `stream_events=false`: content and the run's end. `end` waits for the terminal event alone. */
  only?: "content" | "end";
}

/** Names a run, and who asks for it. */
export interface RunQuery {
  runId: string;
  access: Access;
  /** The component that the asker named: another one's run does not exist for it. */
  component?: Pick<ComponentRef, "kind" | "id">;
}

export interface FollowRun extends FollowView, RunQuery {}

/** A run read as a whole: a copy, as it was told. */
export interface RunReading {
  record: RunRecord;
  events: RunEvent[];
}

/** Events after a cursor, for clients that poll. */
export interface PolledEvents {
  runId: string;
  component: ComponentRef;
  status: RunStatus;
  events: RunEvent[];
  /** Nothing will come after these. */
  ended: boolean;
}

export interface CreateSession {
  sessionId: string;
  sessionIsNew: boolean;
  access: Access;
  userId?: string;
  component?: { kind: ComponentRef["kind"]; id: string };
  name?: string;
  state?: Record<string, unknown>;
  metadata?: Record<string, unknown>;
}

/** Replaces what is given and leaves the rest. */
export interface PatchSession {
  access: Access;
  name?: string;
  state?: Record<string, unknown>;
  metadata?: Record<string, unknown>;
  summary?: Record<string, unknown>;
}

/**
 * What a session's object answers over RPC. Expected refusals are values; what is thrown there is a fault of the
 * platform or of ours, and `session/client.ts` retries what the platform marks retryable.
 */
export interface SessionCommands {
  startRun(command: StartRun): Promise<Result<StartedRun>>;
  cancelRun(command: RunQuery & { reason?: string }): Promise<Result<{ status: RunStatus }>>;
  /** A paused run in place, an ended one as a sibling; a run that runs already is attached to. */
  continueRun(command: ContinueRun): Promise<Result<ContinuedRun>>;
  /** Decides on an approval. Nothing runs by it, unless `thenContinue` says so. */
  resolveApproval(command: ResolveApproval): Promise<Result<Approval>>;
  readApproval(query: { approvalId: string; access: Access }): Promise<Result<Approval>>;
  /** The record goes, and what waited for it stays blocked. */
  deleteApproval(command: { approvalId: string; access: Access }): Promise<Result<null>>;
  /** Makes a new session of another one's ended runs. */
  importSession(command: ImportSession): Promise<Result<Session>>;
  /** `not_found` where the object holds no such run for the asker. `details.empty` says that it holds nothing at all. */
  readRun(query: RunQuery): Promise<Result<RunReading>>;
  /** Top-level runs in the order they were accepted. */
  readRuns(query: { access: Access }): Promise<Result<RunReading[]>>;
  /** Waits up to `waitMs` for events after `after`; answers at once when there are any or the run has ended. */
  pollEvents(query: RunQuery & { after: number; waitMs: number }): Promise<Result<PolledEvents>>;
  createSession(command: CreateSession): Promise<Result<Session>>;
  readSession(query: { access: Access }): Promise<Result<Session>>;
  patchSession(command: PatchSession): Promise<Result<Session>>;
  /**
   * The minute's sweep asks after runs that D1 has not heard of for long: whatever stopped the object's alarm, this starts it
   * again, and D1 hears of the runs anew. Runs that the object never had are none of its business.
   *
   * `parked` names what D1 lists as parked by another release: it is tried again, and what has arrived leaves the list.
   */
  poke(command: { runIds: string[]; parked?: string[] }): Promise<Result<null>>;
  /** Idempotent: deleting what is not there, or not the asker's, changes nothing. */
  deleteSession(command: { access: Access }): Promise<Result<null>>;
}

/** Streams and sockets go through `fetch`, under these paths. The query travels as JSON in the header below. */
export const SESSION_PATHS = { start: "/start", continue: "/continue", follow: "/follow", socket: "/socket" } as const;
export const SESSION_QUERY_HEADER = "x-signalbox-query";
/** Set on an answer of the object that is a refusal: its body is an `ErrorInfo`. */
export const SESSION_REFUSAL_HEADER = "x-signalbox-refused";
