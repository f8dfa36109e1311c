import type { PlatformEnv } from "../env.ts";
import type { Clock } from "../lib/clock.ts";
import { sessionClient } from "../session/client.ts";
import { openDatabase } from "../storage/database.ts";
import { findParkedElsewhere } from "../storage/parked-elsewhere.ts";
import { forgetExpiredWishes } from "../storage/repositories/cancel-wishes.ts";
import { forgetExpiredKeys } from "../storage/repositories/idempotency-keys.ts";
import { findStaleRuns } from "../storage/stale-runs.ts";

/** A run that goes on tells D1 of itself seldom, but its object looks after itself in less than a minute. */
const STALE_AFTER_MS = 10 * 60_000;
/** How many rows one sweep takes up. The next one is a minute away. */
const ROWS = 200;
/** How many objects are asked at once. */
const SIDE_BY_SIDE = 8;

/**
 * The minute's sweep. A session's own alarm looks after it, but the platform gives an alarm up after six failures, and a
 * deploy wakes no object. So the sessions are poked whose runs D1 has not heard of for long, and those that set something
 * aside under another release. What has expired in D1 is dropped on the way.
 * @throws AppError `unavailable` when D1 could not be asked: the platform then shows the tick as failed.
 */
export async function sweep(env: PlatformEnv, clock: Clock, release: string): Promise<void> {
  const database = openDatabase(env);
  const [stale, parked, ...forgotten] = await Promise.allSettled([
    findStaleRuns(env, { heardBefore: clock.now() - STALE_AFTER_MS, limit: ROWS }),
    findParkedElsewhere(env, { release, limit: ROWS }),
    forgetExpiredWishes(database, clock.now()),
    forgetExpiredKeys(database, clock.now()),
  ]);
  const pokes = new Map<string, { runIds: string[]; parked: string[] }>();
  if (stale.status === "fulfilled") for (const { sessionId, runIds } of stale.value) pokes.set(sessionId, { runIds, parked: [] });
  if (parked.status === "fulfilled") {
    for (const { sessionId, entities } of parked.value) pokes.set(sessionId, { runIds: pokes.get(sessionId)?.runIds ?? [], parked: entities });
  }
  await pokeAll(env, pokes);
  for (const part of [stale, parked, ...forgotten]) if (part.status === "rejected") throw part.reason;
}

async function pokeAll(env: PlatformEnv, pokes: ReadonlyMap<string, { runIds: string[]; parked: string[] }>): Promise<void> {
  const waiting = pokes.entries();
  const worker = async () => {
    // All workers take from one iterator, so each session is taken once.
    for (const [sessionId, poke] of waiting) {
      try {
        await sessionClient(env.SESSIONS, sessionId).poke(poke);
      } catch (error) {
        // The others must not wait for it, and the next sweep asks again.
        console.error(JSON.stringify({ level: "error", error: "poke_failed", session_id: sessionId, message: error instanceof Error ? error.message : String(error) }));
      }
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
}
