import { and, asc, eq, exists, gt, inArray, type SQL } from "drizzle-orm";
import type { Access } from "../../domain/principal.ts";
import { isTerminal, RUN_STATUSES } from "../../domain/run.ts";
import { visibleTo } from "../access.ts";
import { answered } from "../answered.ts";
import type { Database } from "../database.ts";
import { readRunDocument, type StoredRun } from "../run-document.ts";
import { runs } from "../schema/runs.ts";
import { sessions } from "../schema/sessions.ts";

export interface RunRepository {
  /**
   * A run as D1 knows it: with messages and events once it is terminal, without them before.
   * @throws AppError `record_unreadable`
   */
  find(runId: string): Promise<(StoredRun & { sessionId: string }) | undefined>;
  /** Which session a run belongs to, and whose that is. */
  sessionOf(runId: string): Promise<{ sessionId: string; userId: string | undefined } | undefined>;
  /**
   * The terminal runs of a session with their messages and events, in the order they were accepted.
   * @throws AppError `record_unreadable`
   */
  ofSession(sessionId: string): Promise<StoredRun[]>;
}

const TERMINAL = RUN_STATUSES.filter(isTerminal);

export function makeRunRepository(database: Database, access: Access): RunRepository {
  const { d1, archives } = database;

  /** A run is its session's: whoever may see the one may see the other. */
  const visible: SQL | undefined =
    access.rows === "all"
      ? undefined
      : exists(
          d1
            .select({ sessionId: sessions.sessionId })
            .from(sessions)
            .where(and(eq(sessions.sessionId, runs.sessionId), visibleTo(access, sessions.userId))),
        );

  return {
    async find(runId) {
      const reading = d1
        .select({ ...DOCUMENT_COLUMNS, sessionId: runs.sessionId })
        .from(runs)
        .where(and(eq(runs.runId, runId), visible));
      const row = await answered(reading.get());
      return row === undefined ? undefined : { sessionId: row.sessionId, ...(await readRunDocument(row, archives)) };
    },

    async sessionOf(runId) {
      const reading = d1
        .select({ sessionId: runs.sessionId, userId: sessions.userId })
        .from(runs)
        .leftJoin(sessions, eq(sessions.sessionId, runs.sessionId))
        .where(and(eq(runs.runId, runId), visibleTo(access, sessions.userId)));
      const row = await answered(reading.get());
      return row === undefined ? undefined : { sessionId: row.sessionId, userId: row.userId ?? undefined };
    },

    async ofSession(sessionId) {
      const found: StoredRun[] = [];
      for await (const run of readRuns(database, and(eq(runs.sessionId, sessionId), inArray(runs.status, TERMINAL), visible))) found.push(run);
      return found;
    },
  };
}

const DOCUMENT_COLUMNS = { runId: runs.runId, ordinal: runs.ordinal, document: runs.document, archiveKey: runs.archiveKey };

/** Documents come in groups, so that one answer of D1 never holds a long session as a whole. */
const GROUP = 20;

/** The runs of one session that a condition picks, in the order they were accepted. */
export async function* readRuns({ d1, archives }: Database, condition: SQL | undefined): AsyncGenerator<StoredRun> {
  for (let after = 0; ; ) {
    const reading = d1
      .select(DOCUMENT_COLUMNS)
      .from(runs)
      .where(and(condition, gt(runs.ordinal, after)))
      .orderBy(asc(runs.ordinal))
      .limit(GROUP);
    const rows = await answered(reading);
    const group = await Promise.all(rows.map((row) => readRunDocument(row, archives)));
    yield* group;
    const last = group.at(-1);
    if (last === undefined || group.length < GROUP) return;
    after = last.ordinal;
  }
}
