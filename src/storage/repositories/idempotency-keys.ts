import { and, eq, lt, lte, sql } from "drizzle-orm";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { answered } from "../answered.ts";
import type { Database } from "../database.ts";
import { idempotencyKeys } from "../schema/idempotency-keys.ts";

/** What a key names: it is the same key only where all three are. */
export interface KeyName {
  /** Whose run it is to be; absent where nobody is known. */
  userId?: string;
  /** What is asked, for example an agent. */
  target: string;
  key: string;
}

/** The ids that a run under a key has, or will have. */
export interface KeyedIds {
  runId: string;
  sessionId: string;
}

export interface IdempotencyKeyRepository {
  /**
   * Takes the key for a request, or finds who has it, in one step: two requests never both find it free.
   * @returns the ids that stand under the key: those that were given, if it was free. `mismatch`: it stands for another
   * request. `gone`: for a run that was deleted with its session.
   */
  take(name: KeyName, fingerprint: string, ids: KeyedIds): Promise<KeyedIds | "mismatch" | "gone">;
  /** What was asked under the key was refused. The key is free again once everyone who came with it was refused. */
  giveBack(name: KeyName): Promise<void>;
}

/** How long a key stands for its run. */
const KEPT_MS = 24 * 60 * 60 * 1000;

export function makeIdempotencyKeyRepository({ d1 }: Database, clock: Clock = systemClock): IdempotencyKeyRepository {
  return {
    async take(name, fingerprint, ids) {
      const now = clock.now();
      const forgetting = d1.delete(idempotencyKeys).where(and(named(name), lte(idempotencyKeys.createdAt, now - KEPT_MS)));
      const taking = d1
        .insert(idempotencyKeys)
        .values({ ...ids, owner: ownerOf(name), target: name.target, key: name.key, fingerprint, askers: 1, createdAt: now })
        .onConflictDoUpdate({
          target: [idempotencyKeys.owner, idempotencyKeys.target, idempotencyKeys.key],
          set: { askers: sql`${idempotencyKeys.askers} + 1` },
          setWhere: eq(idempotencyKeys.fingerprint, sql`excluded.fingerprint`),
        })
        .returning({ runId: idempotencyKeys.runId, sessionId: idempotencyKeys.sessionId });
      const [, [row]] = await answered(d1.batch([forgetting, taking]));
      if (row === undefined) return "mismatch";
      return row.runId === null ? "gone" : { runId: row.runId, sessionId: row.sessionId };
    },

    async giveBack(name) {
      const leaving = d1.update(idempotencyKeys).set({ askers: sql`${idempotencyKeys.askers} - 1` }).where(named(name));
      const forgetting = d1.delete(idempotencyKeys).where(and(named(name), eq(idempotencyKeys.askers, 0)));
      await answered(d1.batch([leaving, forgetting]));
    },
  };
}

/** No user id can pass for nobody. */
const ownerOf = ({ userId }: KeyName): string => (userId === undefined ? "all" : `user:${userId}`);

const named = (name: KeyName) => and(eq(idempotencyKeys.owner, ownerOf(name)), eq(idempotencyKeys.target, name.target), eq(idempotencyKeys.key, name.key));

/** Drops the keys whose day is over. */
export async function forgetExpiredKeys({ d1 }: Database, now: number): Promise<void> {
  await answered(d1.delete(idempotencyKeys).where(lt(idempotencyKeys.createdAt, now - KEPT_MS)));
}
