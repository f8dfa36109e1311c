import type { ComponentRef } from "../domain/component.ts";
import type { RunEvent } from "../domain/run-event.ts";
import type { RunStatus } from "../domain/run.ts";

/** What an event's frame says about the run it belongs to. */
export interface RunIdentity {
  runId: string;
  sessionId: string;
  component: ComponentRef;
  parentRunId?: string;
}

/** Frames that belong to a reader's replay and not to the log: they carry no index. */
export type ReplayNotice =
  | { type: "catch_up"; missedEvents: number; eventCount: number }
  | { type: "subscribed"; eventCount: number }
  | { type: "replay"; status: RunStatus; totalEvents: number; totalBuffered: number; lastEventIndexRequested: number }
  | { type: "error"; error: string };

/** One frame's name and its JSON, on one line. */
export interface WireFrame {
  name: string;
  json: string;
}

/**
 * The words clients are promised, handed to the session from above: the object writes frames itself, so that the Worker
 * passes a stream's bytes through untouched. Called once an event, however many follow.
 */
export interface WireEncoder {
  event(run: RunIdentity, event: RunEvent): WireFrame;
  /** Stands for an event too large for a socket's frame, and says where the event is to be had. */
  oversized(run: RunIdentity, event: RunEvent, bytes: number): WireFrame;
  notice(run: Pick<RunIdentity, "runId">, notice: ReplayNotice): WireFrame;
}
