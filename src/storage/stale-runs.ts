import { and, asc, eq, lt, notExists, sql } from "drizzle-orm";
import { answered } from "./answered.ts";
import { openDatabase, type StorageBindings } from "./database.ts";
import { parkedProjections } from "./schema/parked-projections.ts";
import { runs, UNFINISHED } from "./schema/runs.ts";

/** A session with the runs of it that D1 has not heard of for long. */
export interface StaleSession {
  sessionId: string;
  runIds: string[];
}

/**
 * Unfinished runs that were last heard of before an instant, by their sessions, the ones unheard of for longest first.
 * A run whose end was refused here is none of them: its object has said all that it can, and asking would not help.
 * @throws AppError `unavailable`
 */
export async function findStaleRuns(bindings: StorageBindings, { heardBefore, limit }: { heardBefore: number; limit: number }): Promise<StaleSession[]> {
  const { d1 } = openDatabase(bindings);
  const parked = d1
    .select({ entity: parkedProjections.entity })
    .from(parkedProjections)
    .where(and(eq(parkedProjections.sessionId, runs.sessionId), eq(parkedProjections.entity, sql`'run:' || ${runs.runId}`)));
  const reading = d1
    .select({ sessionId: runs.sessionId, runId: runs.runId })
    .from(runs)
    .where(and(UNFINISHED, lt(runs.updatedAt, heardBefore), notExists(parked)))
    .orderBy(asc(runs.updatedAt))
    .limit(limit);
  const bySession = Map.groupBy(await answered(reading), (row) => row.sessionId);
  return [...bySession].map(([sessionId, rows]) => ({ sessionId, runIds: rows.map((row) => row.runId) }));
}
