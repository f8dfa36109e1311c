import { setTimeout as sleep } from "node:timers/promises";
import { cpuOf, interleaved, type Section } from "../bench-context.ts";
import { follow, type Reading, run, runWatched } from "../client.ts";
import { median } from "../statistics.ts";

/** How far behind the followers are that catch up. */
const BEHIND = 1_000;
const FOLLOWERS = 5;

/** What one run can take: as many events as its model sends, and followers that come late. */
export const oneLongRun: Section = async (bench) => {
  const tokens = bench.quick ? 2_500 : 5_000;
  const section = "One long run";
  const rounds = await interleaved(bench, async (side) => {
    const { value, cpuMs } = await cpuOf(side, () => run(side.target, { message: `Hello #n=${tokens},ms=0#` }));
    const seconds = (value.endedAt - value.firstEventAt) / 1000;
    return { rate: value.events / seconds, cpu: (cpuMs * 1000) / value.events, behind: median(await catchUps(side.target)) };
  });
  return [
    { section, name: `events stored and told, ${tokens} tokens as fast as the model can`, unit: "1/s", ...rounds.rate, goal: { atLeast: 2_000, of: "product" } },
    { section, name: "CPU an event", unit: "µs", ...rounds.cpu },
    { section, name: `a follower ${BEHIND} events behind is up to date`, unit: "ms", ...rounds.behind },
  ];
};

/** Milliseconds that each of some followers takes to have everything that was told when it came. */
async function catchUps(target: Parameters<typeof run>[0]): Promise<number[]> {
  let leader: Reading | undefined;
  const finished = runWatched(target, { message: `Hello #n=${BEHIND + 150},burst=${BEHIND},ms=20#` }, (reading) => {
    leader = reading;
  });
  while ((leader?.tokens ?? 0) < BEHIND) await Promise.race([sleep(5), finished]);
  const times: number[] = [];
  for (let count = 0; count < FOLLOWERS; count += 1) {
    const { sessionId, runId, events } = leader as Reading;
    const reading = await follow(target, { sessionId, runId }, (mine) => mine.events >= events);
    times.push(reading.endedAt - reading.startedAt);
  }
  await finished;
  return times;
}
