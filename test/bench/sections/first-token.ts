import { interleaved, type Section, warmSession } from "../bench-context.ts";
import { type Reading, run, type Target } from "../client.ts";
import type { Figure } from "../figure.ts";
import { percentile } from "../statistics.ts";

const PACED = "Hello #n=20,ms=5#";

/** What a run adds to calling the model directly: one run at a time, 20 tokens, one each 5 ms. */
export const firstToken: Section = async (bench) => {
  const runs = bench.quick ? 8 : 20;
  const readings = async (target: Target, sessionId: () => Promise<string | undefined>): Promise<Reading[]> => {
    const found: Reading[] = [];
    for (let count = 0; count < runs; count += 1) {
      const session = await sessionId();
      found.push(await run(target, { message: PACED, sessionId: session }));
    }
    return found;
  };

  const direct: Reading[][] = [];
  for (let round = 0; round < bench.rounds; round += 1) direct.push(await readings(bench.model, async () => undefined));
  const rounds = await interleaved(bench, async ({ target }, round) => {
    const fresh = await readings(target, async () => undefined);
    const warm = await readings(target, () => warmSession(target));
    const base = direct[round] as Reading[];
    return { ...added(fresh, base, "new session"), ...added(warm, base, "warm session") };
  });
  const goal = { atMost: 1.2, of: "ratio" } as const;
  return Object.entries(rounds).map(([name, sides]): Figure => {
    const figure = { section: "Latency over calling the model directly (one at a time, 20 tokens × 5 ms)", name, unit: "ms", ...sides };
    if (name === "first token, warm session, p50") return { ...figure, goal, guidance: "8 ms" };
    if (name === "first token, new session, p50") return { ...figure, goal, guidance: "18 ms" };
    return figure;
  });
};

const MOMENTS = { "first event": "firstEventAt", "first token": "firstTokenAt", end: "endedAt" } as const;

function added(readings: readonly Reading[], direct: readonly Reading[], session: string): Record<string, number> {
  const found: Record<string, number> = {};
  for (const [moment, field] of Object.entries(MOMENTS)) {
    for (const [label, share] of [["p50", 0.5], ["p95", 0.95]] as const) {
      const of = (some: readonly Reading[]) => percentile(some.map((reading) => reading[field] - reading.startedAt), share);
      found[`${moment}, ${session}, ${label}`] = of(readings) - of(direct);
    }
  }
  return found;
}
