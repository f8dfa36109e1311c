import { cpuOf, INSTANT, interleaved, type Rounds, type Section } from "../bench-context.ts";
import { run, type Target } from "../client.ts";
import type { Figure, Goal } from "../figure.ts";

const AT_ONCE = [1, 8, 32];
const QUICK_AT_ONCE = [1, 8];
const TURNS = { "10-turn sessions": 10, "new sessions": 1 } as const;
const SECTION = "Throughput (20 tokens at once)";

/** Runs a second and what each costs, for runs that never wait for their model. */
export const throughput: Section = async (bench) => {
  const windowMs = bench.quick ? 700 : 2_000;
  const rounds: Rounds = {};
  for (const [kind, turns] of Object.entries(TURNS)) {
    for (const atOnce of bench.quick ? QUICK_AT_ONCE : AT_ONCE) {
      // The sides take turns for each kind of load, so that what else the machine does falls on both.
      const found = await interleaved(bench, async (side) => {
        const { value, cpuMs } = await cpuOf(side, () => runFor(side.target, windowMs, atOnce, turns));
        return {
          [`runs/s, ${kind}, ${atOnce} at once`]: value.runs / value.seconds,
          [`CPU ms a run, ${kind}, ${atOnce} at once`]: cpuMs / value.runs,
        };
      });
      Object.assign(rounds, found);
    }
  }
  return Object.entries(rounds).map(([name, sides]): Figure => {
    const isRate = name.startsWith("runs/s");
    const goal: Goal = isRate ? { atLeast: 0.6, of: "ratio" } : { atMost: 2, of: "ratio" };
    const guidance = GUIDANCE[name];
    return { section: SECTION, name: name.replace(/^(runs\/s|CPU ms a run), /, isRate ? "runs, " : "CPU a run, "), unit: isRate ? "1/s" : "ms", ...sides, goal, ...(guidance && { guidance }) };
  });
};

const GUIDANCE: Record<string, string> = {
  "runs/s, new sessions, 8 at once": "≥ 46",
  "runs/s, 10-turn sessions, 8 at once": "≥ 60",
  "CPU ms a run, 10-turn sessions, 8 at once": "15 ms",
};

/** Keeps so many runs going until the time is up, and counts those that were begun in time. */
async function runFor(target: Target, windowMs: number, atOnce: number, turns: number): Promise<{ runs: number; seconds: number }> {
  const startedAt = performance.now();
  let runs = 0;
  const isOpen = () => performance.now() - startedAt < windowMs;
  const client = async () => {
    while (isOpen()) {
      let sessionId: string | undefined;
      for (let turn = 0; turn < turns && isOpen(); turn += 1) {
        sessionId = (await run(target, { message: INSTANT, sessionId })).sessionId;
        runs += 1;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  return { runs, seconds: (performance.now() - startedAt) / 1000 };
}
