import type { Clock } from "../../../src/lib/clock.ts";

/** A clock that goes on when the test says so. */
export interface HeldClock extends Clock {
  /** Lets so much time pass; who sleeps until then wakes, in order. */
  pass(ms: number): Promise<void>;
}

export function heldClock(start = 1_000_000): HeldClock {
  let now = start;
  const sleepers = new Set<{ at: number; wake: () => void }>();
  return {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const sleeper = { at: now + ms, wake: resolve };
        sleepers.add(sleeper);
        signal?.addEventListener("abort", () => {
          sleepers.delete(sleeper);
          resolve();
        });
      }),
    async pass(ms) {
      const until = now + ms;
      for (;;) {
        const next = [...sleepers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        sleepers.delete(next);
        now = next.at;
        next.wake();
        await settled();
      }
      now = until;
      await settled();
    },
  };
}

/** Everything that could go on without time has gone on. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
