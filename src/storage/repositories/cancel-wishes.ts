import { lt } from "drizzle-orm";
import type { Access } from "../../domain/principal.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { answered } from "../answered.ts";
import { wisherOf } from "../cancel-wish.ts";
import type { Database } from "../database.ts";
import { cancelWishes } from "../schema/cancel-wishes.ts";

export interface CancelWishRepository {
  /**
   * Keeps the wish to cancel a run that is not known here yet. The run's first projection finds it
   * (`apply-projection.ts`). Ask once more for the run afterwards: it may have come between the look and the wish.
   */
  keep(runId: string): Promise<void>;
}

const KEPT_MS = 24 * 60 * 60 * 1000;

export function makeCancelWishRepository({ d1 }: Database, access: Access, clock: Clock = systemClock): CancelWishRepository {
  return {
    async keep(runId) {
      const now = clock.now();
      const expiresAt = now + KEPT_MS;
      const keeping = d1
        .insert(cancelWishes)
        .values({ runId, wisher: wisherOf(access), expiresAt })
        .onConflictDoUpdate({ target: [cancelWishes.runId, cancelWishes.wisher], set: { expiresAt } });
      await answered(d1.batch([forgetting(d1, now), keeping]));
    },
  };
}

const forgetting = (d1: Database["d1"], now: number) => d1.delete(cancelWishes).where(lt(cancelWishes.expiresAt, now));

/** Drops the wishes whose day is over. */
export async function forgetExpiredWishes({ d1 }: Database, now: number): Promise<void> {
  await answered(forgetting(d1, now));
}
