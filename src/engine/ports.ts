import type { AgentDefinition } from "../define/agent.ts";
import type { AssistantMessage, FinishReason, Message, UserMessage } from "../domain/message.ts";
import type { RunEventBody } from "../domain/run-event.ts";
import type { RunError, RunInput, RunStatus } from "../domain/run.ts";
import type { Effect } from "../domain/tool-call.ts";
import type { Clock } from "../lib/clock.ts";
import type { Model } from "../models/model.ts";

/** An earlier run of the session, as history sees it. */
export interface PastRun {
  runId: string;
  status: RunStatus;
  componentId: string;
  parentRunId?: string;
  /** Read only for the runs that history takes: a long session costs a turn no more than a short one. */
  messages(): Message[];
}

/** What one attempt at a turn starts from. A new run, a recovered one and a continued one differ only in what is in here. */
export interface Turn {
  runId: string;
  sessionId: string;
  userId?: string;
  agent: AgentDefinition;
  model: Model;
  input: RunInput;
  /** The run's own messages so far; what tools answered stands in `effects`. */
  messages: (UserMessage | AssistantMessage)[];
  effects: Effect[];
  /** The first step that is the run's own; those before it were made in the run that it goes on from. Absent: 0. */
  firstStep?: number;
  /** The session's state. Tools change it in place; the ports store what changed. */
  sessionState: Record<string, unknown>;
}

/**
 * Everything a turn may do to the world outside it. The engine knows no platform: the session makes these from its log,
 * its ledger and its clock, and refuses them all to an attempt that is no longer the living one.
 */
export interface TurnPorts {
  readonly env: Cloudflare.Env;
  readonly clock: Clock;
  /** Aborts when the run is cancelled. The end of a cancelled run is written by whoever cancelled it, not by the engine. */
  readonly signal: AbortSignal;

  /** Runs of the session that were accepted before this one, newest first. */
  pastRuns(): Iterable<PastRun>;

  /**
   * Puts events into the log. Deltas are told at once and stored a moment later; anything else is stored first. Resolves
   * when the last of them was told.
   */
  emit(...events: RunEventBody[]): Promise<void>;
  /** The index the next event will get. */
  nextIndex(): number;

  /** One commit: the model's reply, the calls it asked for as `planned`, and the events that report it. */
  saveReply(message: AssistantMessage, calls: Effect[], events: RunEventBody[]): Promise<void>;
  /** One commit before a tool is called: from here on the call may have happened. */
  startCall(effect: Effect, event: RunEventBody): Promise<void>;
  /** One commit: what became of a call, and the session state it changed. */
  settleCall(effect: Effect, event: RunEventBody | undefined): Promise<void>;
  /** What became of a call that nobody waits for any more, after a cancel or a timeout: its ledger row may take that once, and nothing else changes. */
  reportLateOutcome(effect: Effect, outcome: { status: "done" | "failed"; result: string }): void;
}

/** How a turn ended. What it holds is not stored yet: the session writes it in the same commit as the end itself. */
export type TurnOutcome =
  | { kind: "completed"; reply?: AssistantMessage; events: RunEventBody[]; finishReason: FinishReason }
  /** Calls wait for people; what they wait for stands on their rows. */
  | { kind: "paused"; waiting: Effect[]; events: RunEventBody[] }
  | { kind: "failed"; error: RunError; partial?: AssistantMessage; events: RunEventBody[] }
  | { kind: "cancelled" };
