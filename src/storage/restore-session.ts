import { asc, eq, max } from "drizzle-orm";
import type { Approval } from "../domain/approval.ts";
import type { Session } from "../domain/session.ts";
import { answered } from "./answered.ts";
import { openDatabase, type StorageBindings } from "./database.ts";
import { readApproval } from "./repositories/approvals.ts";
import { readRuns } from "./repositories/runs.ts";
import { readSession } from "./repositories/sessions.ts";
import type { StoredRun } from "./run-document.ts";
import { approvals } from "./schema/approvals.ts";
import { runs } from "./schema/runs.ts";
import { deletedSessions, sessions } from "./schema/sessions.ts";

/** What D1 knows of a session whose object is empty. */
export interface StoredSession {
  /** Absent where it was deleted, or where only runs have arrived so far. */
  session: Session | undefined;
  /** The highest version of the session that its row, or any of its runs and approvals, was told with. */
  highestVersion: number;
  /** Up to which version it was deleted. What is made under this id next begins above. */
  deletedVersion: number | undefined;
  /** All its approvals, oldest first, as D1 last heard of them. */
  approvals: Approval[];
  /** All its runs, also those that D1 shows as unfinished, in the order they were accepted. Read once. */
  runs: AsyncIterable<StoredRun>;
}

/**
 * Reads what an empty session's object fills itself with. There is no access here: the object compares owners itself,
 * as it does with what it holds. `undefined`: D1 has never heard of the session.
 * @throws AppError `unavailable`, or `record_unreadable`, also while the runs are read: a session must not go on with a hole in its history.
 */
export async function restoreSession(bindings: StorageBindings, sessionId: string): Promise<StoredSession | undefined> {
  const database = openDatabase(bindings);
  const { d1 } = database;
  const [[row], [tombstone], [told], opened] = await answered(
    d1.batch([
      d1.select({ sessionId: sessions.sessionId, document: sessions.document }).from(sessions).where(eq(sessions.sessionId, sessionId)),
      d1.select({ version: deletedSessions.version }).from(deletedSessions).where(eq(deletedSessions.sessionId, sessionId)),
      d1.select({ highest: max(runs.sessionVersion) }).from(runs).where(eq(runs.sessionId, sessionId)),
      d1
        .select({ approvalId: approvals.approvalId, document: approvals.document, sessionVersion: approvals.sessionVersion })
        .from(approvals)
        .where(eq(approvals.sessionId, sessionId))
        .orderBy(asc(approvals.approvalId)),
    ]),
  );
  const ofRuns = told?.highest ?? undefined;
  if (row === undefined && tombstone === undefined && ofRuns === undefined && opened.length === 0) return undefined;
  const session = row === undefined ? undefined : readSession(row);
  return {
    session,
    highestVersion: Math.max(session?.version ?? 0, ofRuns ?? 0, ...opened.map((approval) => approval.sessionVersion)),
    deletedVersion: tombstone?.version,
    approvals: opened.map(readApproval),
    runs: readRuns(database, eq(runs.sessionId, sessionId)),
  };
}
