import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ProcessGroup, startGroup } from "../../../scripts/process-group.ts";
import { until } from "./until.ts";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url).href);

/** The stories' own app; `undefined` is the repository's. */
export const STORY_APP = "test/stories/worker/wrangler.toml";

export interface ServerOptions {
  config?: string;
  vars?: Record<string, string>;
  /** As a person starts it: `npm run dev`. */
  throughNpm?: boolean;
}

/** A real dev server on a folder of its own, which it comes back to. */
export interface Server {
  url: string;
  /** Everything it printed, over all its lives. */
  log(): string;
  /** SIGKILL to everything that belongs to it, at once. Resolves when nothing of it is left. */
  kill(): Promise<void>;
  /** Begins to start again, on the same folder and port. Resolves when it answers. */
  start(): Promise<void>;
  /** Ends it for good and removes its folder. */
  stop(): Promise<void>;
}

/** Starts the dev server and waits until it answers. */
export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), "signalbox-story-"));
  const port = await freePort();
  let printed = "";
  let group: ProcessGroup | undefined;

  async function start(): Promise<void> {
    const flags = [
      ...(options.config === undefined ? [] : ["--config", options.config]),
      ...["--port", String(port), "--persist-to", folder],
      ...Object.entries(options.vars ?? {}).flatMap(([name, value]) => ["--var", `${name}:${value}`]),
    ];
    const [program, ...args] = options.throughNpm === true ? ["npm", "run", "dev", "--", ...flags] : [process.execPath, "scripts/dev.ts", ...flags];
    const before = printed.length;
    const started = startGroup(program!, args, { cwd: ROOT, env: process.env });
    group = started;
    let exited: number | undefined;
    void started.exited.then((code) => (exited = code));
    for (const stream of [started.stdout, started.stderr]) stream.on("data", (chunk: Buffer) => (printed += chunk.toString()));
    await until(
      "the dev server to be ready",
      () => {
        if (exited !== undefined && group === started) throw new Error(`The dev server ended with ${exited}:\n${printed.slice(before)}`);
        // Killed while it was starting: whoever did that does not wait for it any more.
        return group !== started || printed.slice(before).includes("is ready on");
      },
      { withinMs: 90_000, instead: () => printed.slice(before) },
    );
  }

  async function kill(): Promise<void> {
    const killed = group;
    if (killed === undefined) return;
    group = undefined;
    killTree(killed.pid);
    await until("the killed server's port to be free", () => isFree(port), { everyMs: 5 });
    await killed.stop();
  }

  async function stop(): Promise<void> {
    await group?.stop();
    group = undefined;
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  await start().catch(async (error: unknown) => {
    await stop();
    throw error;
  });
  return { url: `http://127.0.0.1:${port}`, log: () => printed, kill, start, stop };
}

/**
 * Kills a process and all it started. Wrangler and its workerds are a group of their own, which dies in one moment; the
 * guardians that would kill them after a clean exit go too.
 */
function killTree(root: number): void {
  const rows = execFileSync("ps", ["-eo", "pid=,ppid=,pgid="])
    .toString()
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number, number]);
  const family = new Set([root]);
  // A parent has a lower place in no particular order, so look until nobody is added.
  for (let size = 0; size !== family.size; ) {
    size = family.size;
    for (const [pid, parent] of rows) if (family.has(parent)) family.add(pid);
  }
  const groups = new Set(rows.filter(([pid]) => family.has(pid)).map(([, , group]) => group));
  // The server's group first: it must not go on a moment longer because the script above it is gone.
  for (const group of [...groups].filter((id) => id !== root).concat(root)) {
    try {
      process.kill(-group, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (typeof address !== "object" || address === null) throw new Error("The system gave no port.");
  return address.port;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
