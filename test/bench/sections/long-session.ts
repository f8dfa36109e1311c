import { atOnce, cpuOf, INSTANT, interleaved, type Section, warmSession } from "../bench-context.ts";
import { run } from "../client.ts";

const OLD_AT = 98;

/** Whether a session gets slower as it grows: a hundred turns, all of them shown to the model again each time. */
export const longSession: Section = async (bench) => {
  const sessions = bench.quick ? 2 : 4;
  const turns = bench.quick ? 10 : 12;
  const section = "Turn 100 against turn 2 of a session (20 tokens at once, whole history)";

  const grown: Record<string, string[]> = {};
  for (const { name, target } of [bench.bare, bench.product]) {
    grown[name] = await Promise.all(Array.from({ length: sessions }, () => warmSession(target)));
    await atOnce(grown[name], sessions, async (sessionId) => {
      for (let turn = 2; turn <= OLD_AT; turn += 1) await run(target, { message: INSTANT, sessionId });
    });
  }
  const rounds = await interleaved(bench, async (side) => {
    const { target } = side;
    // Turns 2 to 5 of new sessions, as many in all as the old ones get.
    const young = await Promise.all(Array.from({ length: (sessions * turns) / 4 }, () => warmSession(target)));
    const measure = async (ids: readonly string[], each: number) => {
      const { value, cpuMs } = await cpuOf(side, async () => {
        const startedAt = performance.now();
        for (const sessionId of ids) for (let turn = 0; turn < each; turn += 1) await run(target, { message: INSTANT, sessionId });
        return performance.now() - startedAt;
      });
      return { cpu: cpuMs / (ids.length * each), ms: value / (ids.length * each) };
    };
    const early = await measure(young, 4);
    const late = await measure(grown[side.name] as string[], turns);
    return { cpuEarly: early.cpu, cpuLate: late.cpu, msEarly: early.ms, msLate: late.ms, growth: late.cpu / early.cpu };
  });
  return [
    { section, name: "CPU, turn 2", unit: "ms", ...rounds.cpuEarly },
    { section, name: "CPU, turn 100", unit: "ms", ...rounds.cpuLate },
    { section, name: "CPU, turn 100 to turn 2", unit: "×", ...rounds.growth, goal: { atMost: 1.15, of: "product" } },
    { section, name: "time, turn 2", unit: "ms", ...rounds.msEarly },
    { section, name: "time, turn 100", unit: "ms", ...rounds.msLate },
  ];
};
