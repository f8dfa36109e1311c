import { gt, lt, or } from "drizzle-orm";
import { answered } from "./answered.ts";
import { openDatabase, type StorageBindings } from "./database.ts";
import { parkedProjections } from "./schema/parked-projections.ts";

/** A session with what it set aside under another release than the one that asks. */
export interface ParkedSession {
  sessionId: string;
  entities: string[];
}

/**
 * Parked projections that this release has not tried yet, by their sessions.
 * @throws AppError `unavailable`
 */
export async function findParkedElsewhere(bindings: StorageBindings, { release, limit }: { release: string; limit: number }): Promise<ParkedSession[]> {
  const reading = openDatabase(bindings)
    .d1.select({ sessionId: parkedProjections.sessionId, entity: parkedProjections.entity })
    .from(parkedProjections)
    // Two ranges of the index: "not equal" would read every row, each minute.
    .where(or(lt(parkedProjections.release, release), gt(parkedProjections.release, release)))
    .limit(limit);
  const bySession = Map.groupBy(await answered(reading), (row) => row.sessionId);
  return [...bySession].map(([sessionId, rows]) => ({ sessionId, entities: rows.map((row) => row.entity) }));
}
