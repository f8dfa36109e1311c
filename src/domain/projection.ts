import type { Approval } from "./approval.ts";
import type { RunEvent } from "./run-event.ts";
import type { RunRecord } from "./run.ts";
import type { Session } from "./session.ts";

/**
 * What a session's object tells D1: whole rows with their version. Delivered at least once; a row is written only where
 * D1 holds an older version, so delivering twice, or late, changes nothing.
 */
export type Projection =
  | { kind: "session"; session: Session }
  | { kind: "approval"; approval: Approval; sessionVersion: number }
  /** The record is gone; what waits for it stays blocked. */
  | { kind: "approval-deleted"; sessionId: string; approvalId: string }
  | {
      kind: "run";
      /** Messages and effects are given once the run is terminal, and empty before: D1 does not follow a run's steps. */
      run: RunRecord;
      /** Its place among the session's runs, from 1, in the order they were accepted. */
      ordinal: number;
      /** The session's version in the commit that this comes from: it tells a run of before a delete from one after it. */
      sessionVersion: number;
      /** Compacted events of a terminal run; never a delta. */
      events?: RunEvent[];
    }
  | {
      /** The session is gone: its rows go, its runs' rows go, and no row of a version up to this one may come back. */
      kind: "session-deleted";
      sessionId: string;
      version: number;
      /** When it was deleted. */
      at: number;
    }
  | {
      /** Another projection of this session was refused so often that it was set aside, or has arrived after all. */
      kind: "parked";
      sessionId: string;
      /** The session's version, as a run's. */
      sessionVersion: number;
      /** Names the other projection, in the words of the session's outbox. */
      entity: string;
      /** Why it was refused. Absent: it is not parked any more. */
      reason?: string;
      /** The release whose tries were refused. */
      release: string;
      /** When it was set aside, or that it arrived. The newest word counts. */
      at: number;
    };
