import { setTimeout as sleep } from "node:timers/promises";
import { cpuOf, interleaved, type Section } from "../bench-context.ts";
import { run } from "../client.ts";
import type { Figure } from "../figure.ts";
import { percentile } from "../statistics.ts";

const TOKENS = 100;
const FEW_TOKENS = 20;
const message = (tokens: number): string => `Hello #n=${tokens},ms=20#`;
/** The streams begin spread over this time. */
const RAMP_MS = 1_000;

/** Many streams at once, each in a new session of its own, at the pace of a model. */
export const streams: Section = async (bench) => {
  const figures: Figure[] = [];
  for (const count of [50, 200]) {
    const rounds = await interleaved(bench, async (side) => {
      side.server.workerd.resetPeak();
      const streamAll = (each: number) =>
        cpuOf(side, () =>
          Promise.all(
            Array.from({ length: count }, async (_, index) => {
              await sleep((index / count) * RAMP_MS);
              return run(side.target, { message: message(each) });
            }),
          ),
        );
      const { value: readings, cpuMs } = await streamAll(TOKENS);
      const fewCpuMs = count === 50 && !bench.quick ? (await streamAll(FEW_TOKENS)).cpuMs : undefined;
      const delays = readings.flatMap((reading) => reading.delays);
      const gaps = readings.flatMap((reading) => reading.gaps);
      const tokens = readings.reduce((sum, reading) => sum + reading.tokens, 0);
      if (tokens !== count * TOKENS) throw new Error(`${side.name}: ${tokens} tokens came of ${count * TOKENS}.`);
      return {
        "between tokens, p50 (ms)": percentile(gaps, 0.5),
        "between tokens, p99 (ms)": percentile(gaps, 0.99),
        "token under way, p50 (ms)": percentile(delays, 0.5),
        "token under way, p99 (ms)": percentile(delays, 0.99),
        "first token, p50 (ms)": percentile(readings.map((reading) => reading.firstTokenAt - reading.startedAt), 0.5),
        "all done (s)": (Math.max(...readings.map((reading) => reading.endedAt)) - Math.min(...readings.map((reading) => reading.startedAt))) / 1000,
        "CPU a token (µs)": (cpuMs * 1000) / tokens,
        ...(fewCpuMs === undefined ? {} : { "CPU a token, without the run's own (µs)": ((cpuMs - fewCpuMs) * 1000) / (count * (TOKENS - FEW_TOKENS)) }),
        "peak memory (MiB)": side.server.workerd.peakMib(),
      };
    });
    for (const [label, sides] of Object.entries(rounds)) {
      const [, name = "", unit = ""] = /^(.+) \((.+)\)$/.exec(label) ?? [];
      const figure: Figure = { section: `${count} streams of ${TOKENS} tokens × 20 ms`, name, unit, ...sides };
      if (count === 200 && name === "CPU a token") figures.push({ ...figure, goal: { atMost: 1.1, of: "ratio" }, guidance: "430 µs" });
      else if (count === 50 && name === "between tokens, p99") figures.push({ ...figure, guidance: "70 ms" });
      else if (count === 50 && name === "token under way, p50") figures.push({ ...figure, guidance: "40 ms" });
      else figures.push(figure);
    }
  }
  return figures;
};
