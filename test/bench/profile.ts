import { readFile, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import type { Bench } from "./bench-context.ts";
import { atOnce, INSTANT, warmSession } from "./bench-context.ts";
import { bare, product, run, type Target } from "./client.ts";
import { serve } from "./server.ts";

const SAMPLE_MS = 0.1;

const LOADS: Record<string, (target: Target) => Promise<unknown>> = {
  "instant-runs": async (target) => {
    const sessions = await Promise.all(Array.from({ length: 8 }, () => warmSession(target)));
    await atOnce(sessions, 8, async (sessionId) => {
      for (let turn = 0; turn < 25; turn += 1) await run(target, { message: INSTANT, sessionId });
    });
  },
  "new-sessions": (target) => atOnce(Array.from({ length: 150 }, (_, index) => index), 8, () => warmSession(target)),
  streams: (target) => Promise.all(Array.from({ length: 50 }, () => run(target, { message: "Hello #n=100,ms=20#" }))),
  "long-session": async (target) => {
    const sessionId = await warmSession(target);
    for (let turn = 0; turn < 150; turn += 1) await run(target, { message: INSTANT, sessionId });
  },
};

/** What V8 writes of a profile, as far as it is read here. */
interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; lineNumber: number; url: string }; children?: number[] }[];
  samples: number[];
}

/**
 * Writes a CPU profile of each load and each side into a folder, for a browser's developer tools, and says where the time
 * went. The servers are others than those that are measured: an open inspector slows them.
 */
export async function profile(bench: Bench, folder: string): Promise<void> {
  for (const side of [bench.bare, bench.product]) {
    const inspectorPort = await freePort();
    const text = await readFile(side.bundle.path, "utf8");
    const server = await serve(side.name === "product" ? "worker" : "bare", side.bundle, { modelUrl: bench.model.url, inspectorPort });
    try {
      const target = side.name === "product" ? product(server.url) : bare(server.url);
      for (let count = 0; count < 30; count += 1) await warmSession(target);
      for (const [name, load] of Object.entries(LOADS)) {
        const recorded = await record(inspectorPort, () => load(target));
        await writeFile(join(folder, `${side.name}-${name}.cpuprofile`), JSON.stringify(recorded));
        console.log(`\n### Profile of the ${side.name}: ${name}\n\n${topOf(recorded, text)}`);
      }
    } finally {
      await server.stop();
    }
  }
}

async function record(port: number, work: () => Promise<unknown>): Promise<CpuProfile> {
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as { webSocketDebuggerUrl: string }[];
  const socket = new WebSocket(String(targets[0]?.webSocketDebuggerUrl));
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", reject);
  });
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener("message", (message) => {
    const { id, result } = JSON.parse(String(message.data)) as { id: number; result: unknown };
    waiting.get(id)?.(result);
  });
  const command = (method: string, params = {}) =>
    new Promise<unknown>((resolve) => {
      const id = waiting.size + 1;
      waiting.set(id, resolve);
      socket.send(JSON.stringify({ id, method, params }));
    });
  await command("Profiler.enable");
  await command("Profiler.setSamplingInterval", { interval: SAMPLE_MS * 1000 });
  await command("Profiler.start");
  await work();
  const { profile } = (await command("Profiler.stop")) as { profile: CpuProfile };
  socket.close();
  return profile;
}

const TOP = 25;

type Node = CpuProfile["nodes"][number];

/** Whether a function is in the bundle; the others are the runtime's own. */
const isOurs = ({ callFrame: { url } }: Node): boolean => url !== "" && !url.includes("internal");

/** Where the time went: by file of the source, and by function. A function of the runtime counts for who called it. */
function topOf({ nodes, samples }: CpuProfile, bundle: string): string {
  const files = sourceLines(bundle);
  const parents = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node] as const)));
  const placed = new Map(
    nodes.map((node) => {
      let owner: Node | undefined = node;
      while (owner !== undefined && !isOurs(owner)) owner = parents.get(owner.id);
      const name = node.callFrame.functionName || "(anonymous)";
      if (owner === undefined) return [node.id, { file: "(runtime)", name }];
      const file = files[owner.callFrame.lineNumber] ?? "";
      return [node.id, { file, name: `${owner === node ? name : `${name} ← ${owner.callFrame.functionName || "(anonymous)"}`} · ${file}` }];
    }),
  );
  const byFile = new Map<string, number>();
  const byFunction = new Map<string, number>();
  let busy = 0;
  for (const sample of samples) {
    const place = placed.get(sample);
    if (place === undefined || place.name === "(idle)" || place.name === "(program)") continue;
    // Samples are counted, not the time between them: on a busy machine that is time in which something else ran.
    busy += SAMPLE_MS;
    byFile.set(place.file, (byFile.get(place.file) ?? 0) + SAMPLE_MS);
    byFunction.set(place.name, (byFunction.get(place.name) ?? 0) + SAMPLE_MS);
  }
  const table = (title: string, times: Map<string, number>) => [
    `| ms | share | ${title} |`,
    "|---|---|---|",
    ...[...times]
      .sort(([, a], [, b]) => b - a)
      .slice(0, TOP)
      .map(([name, ms]) => `| ${ms.toFixed(1)} | ${((ms / busy) * 100).toFixed(1)} % | ${name} |`),
    "",
  ];
  return [`${busy.toFixed(0)} ms of JavaScript`, "", ...table("file", byFile), ...table("function", byFunction)].join("\n");
}

/** For each line of a bundle the file that it came from: the bundler names it in a comment. */
function sourceLines(bundle: string): string[] {
  let file = "";
  return bundle.split("\n").map((line) => {
    const named = /^\/\/ (?:\.\.\/)*([\w@.\-/]+\.(?:m?js|ts))$/.exec(line);
    if (named !== null) file = (named[1] as string).replace(/^.*node_modules\//, "");
    return file;
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
