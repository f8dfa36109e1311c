/**
 * `npm run bench`: the product beside the least that a Worker with a Durable Object can be, both as built bundles on
 * Miniflare, in front of the same fake model. README.md says how to read what it prints.
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import type { Bench, Section } from "./bench-context.ts";
import { atOnce, rest, warmSession } from "./bench-context.ts";
import { buildBundle } from "./bundle.ts";
import { bare, model, product } from "./client.ts";
import { type Figure, judge, tableOf } from "./figure.ts";
import { watchMachine } from "./machine.ts";
import { profile } from "./profile.ts";
import { firstToken } from "./sections/first-token.ts";
import { longSession } from "./sections/long-session.ts";
import { oneLongRun } from "./sections/one-long-run.ts";
import { rows } from "./sections/rows.ts";
import { start } from "./sections/start.ts";
import { streams } from "./sections/streams.ts";
import { throughput } from "./sections/throughput.ts";
import { serve, startFakeModel } from "./server.ts";

const SECTIONS: Record<string, Section> = { start, rows, "first-token": firstToken, throughput, streams, "one-long-run": oneLongRun, "long-session": longSession };

/** Runs that neither side is measured by: code is compiled the first times it runs. */
const WARM_UP_RUNS = 200;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string", multiple: true },
      json: { type: "string" },
      profile: { type: "string" },
    },
  });
  if (process.platform !== "linux") throw new Error("The bench reads CPU time and memory from /proc: it runs on Linux alone.");
  const wanted = values.only ?? (values.profile === undefined ? Object.keys(SECTIONS) : []);
  const unknown = wanted.find((name) => !Object.hasOwn(SECTIONS, name));
  if (unknown !== undefined) throw new Error(`There is no section "${unknown}". There are: ${Object.keys(SECTIONS).join(", ")}.`);

  const startedAt = performance.now();
  const machineSoFar = watchMachine();
  const stops: (() => Promise<unknown>)[] = [];
  const keep = <T extends { stop(): Promise<unknown> }>(started: T): T => {
    stops.push(() => started.stop());
    return started;
  };
  const stopAll = async () => {
    while (stops.length > 0) await stops.pop()?.();
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void stopAll().then(() => process.exit(1)));

  try {
    const bundles = { worker: await buildBundle("worker"), bare: await buildBundle("bare") };
    stops.push(bundles.worker.remove, bundles.bare.remove);
    const fake = keep(await startFakeModel());
    const servers = {
      bare: keep(await serve("bare", bundles.bare, { modelUrl: fake.url })),
      worker: keep(await serve("worker", bundles.worker, { modelUrl: fake.url })),
    };
    const bench: Bench = {
      product: { name: "product", target: product(servers.worker.url), server: servers.worker, bundle: bundles.worker },
      bare: { name: "bare", target: bare(servers.bare.url), server: servers.bare, bundle: bundles.bare },
      model: model(fake.url),
      rounds: values.quick ? 1 : 3,
      quick: values.quick,
    };
    const figures: Figure[] = [];
    let isWarm = false;
    for (const name of wanted) {
      // The start is looked at before anything else ran.
      if (name !== "start" && !isWarm) {
        await warmUp(bench);
        isWarm = true;
      }
      if (name !== "start") await rest(bench);
      const before = performance.now();
      figures.push(...(await (SECTIONS[name] as Section)(bench)));
      console.error(`${name}: ${((performance.now() - before) / 1000).toFixed(1)} s`);
    }
    if (values.profile !== undefined) await profile(bench, values.profile);
    if (figures.length === 0) return;
    const judged = figures.map(judge);
    const machine = machineSoFar();
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    const misses = judged.filter((figure) => figure.verdict === "miss");
    console.log(tableOf(judged));
    console.log(`\n${machine.cpus} × ${machine.cpu}, ${machine.busyCores.toFixed(1)} of them busy; fsync ${machine.fsyncP50.toFixed(2)} ms (p95 ${machine.fsyncP95.toFixed(2)}); Node ${machine.node}; ${bench.rounds} round${bench.rounds === 1 ? "" : "s"}, ${seconds} s.`);
    console.log(misses.length === 0 ? "All budgets are met." : `${misses.length} budgets are missed: ${misses.map((figure) => figure.name).join("; ")}.`);
    if (values.json !== undefined) await writeFile(values.json, `${JSON.stringify({ machine, seconds, rounds: bench.rounds, figures: judged }, null, 2)}\n`);
  } finally {
    await stopAll();
  }
}

async function warmUp(bench: Bench): Promise<void> {
  for (const { target } of [bench.bare, bench.product]) {
    await atOnce(Array.from({ length: bench.quick ? WARM_UP_RUNS / 2 : WARM_UP_RUNS }, (_, index) => index), 8, () => warmSession(target));
  }
}

await main();
