import { setTimeout as sleep } from "node:timers/promises";
import type { Bundle } from "./bundle.ts";
import { run, type Target } from "./client.ts";
import type { Figure } from "./figure.ts";
import type { Server } from "./server.ts";

/** One of the two that are compared. */
export interface Side {
  name: "product" | "bare";
  target: Target;
  server: Server;
  bundle: Bundle;
}

/** What a section is given: both sides and the model, all running. */
export interface Bench {
  product: Side;
  bare: Side;
  model: Target;
  rounds: number;
  /** Shorter windows and fewer runs, for a look while working. */
  quick: boolean;
}

/** A part of the bench: it measures one thing and says what should come out. */
export type Section = (bench: Bench) => Promise<Figure[]>;

/** What one side showed in one round, by name of the figure. */
type Measured = Record<string, number>;

/** Both sides' values of every figure, round by round. */
export type Rounds = Record<string, { product: number[]; bare: number[] }>;

/** Measures both sides in turn, the other one first each time: what else the machine does then falls on both. */
export async function interleaved(bench: Bench, measure: (side: Side, round: number) => Promise<Measured>): Promise<Rounds> {
  const found: Rounds = {};
  for (let round = 0; round < bench.rounds; round += 1) {
    const sides = round % 2 === 0 ? [bench.bare, bench.product] : [bench.product, bench.bare];
    for (const side of sides) {
      for (const [name, value] of Object.entries(await measure(side, round))) {
        found[name] ??= { product: [], bare: [] };
        found[name][side.name].push(value);
      }
    }
  }
  return found;
}

/** What a run leaves to do after its last frame, such as D1's share. */
const TAIL_MS = 300;

/** CPU milliseconds that a side used for some work, with what the work left to do. */
export async function cpuOf<T>(side: Side, work: () => Promise<T>): Promise<{ value: T; cpuMs: number }> {
  await sleep(TAIL_MS);
  const before = side.server.workerd.cpuMs();
  const value = await work();
  await sleep(TAIL_MS);
  return { value, cpuMs: side.server.workerd.cpuMs() - before };
}

/** How long the runtime keeps an object in memory that nobody asks. */
const AWAKE_MS = 10_000;
const REST_LOOK_MS = 500;
const REST_CPU_MS = 20;
const LONGEST_REST_MS = 20_000;

/**
 * Resolves when neither side does anything and has nothing left to do. Objects are put away ten seconds after their last
 * run, which costs as much as a run: it must not be counted for those that happen to run then.
 */
export async function rest({ product, bare, quick }: Bench): Promise<void> {
  if (quick) return;
  const cpuMs = () => product.server.workerd.cpuMs() + bare.server.workerd.cpuMs();
  const startedAt = performance.now();
  await sleep(AWAKE_MS);
  while (performance.now() - startedAt < LONGEST_REST_MS) {
    const before = cpuMs();
    await sleep(REST_LOOK_MS);
    if (cpuMs() - before < REST_CPU_MS) return;
  }
}

/** 20 tokens at once: what a run costs when it does not wait. */
export const INSTANT = "Hello #n=20,ms=0#";

/** A new session with one turn behind it. */
export async function warmSession(target: Target): Promise<string> {
  return (await run(target, { message: INSTANT })).sessionId;
}

/** Runs `work` for each item, so many at once. */
export async function atOnce<T>(items: readonly T[], limit: number, work: (item: T) => Promise<unknown>): Promise<void> {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}
