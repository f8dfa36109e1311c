import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { quietEnvironment } from "../../scripts/quiet-environment.ts";
import { startGroup } from "../../scripts/process-group.ts";
import type { Bundle } from "./bundle.ts";
import type { HostOptions, HostReady } from "./miniflare-host.ts";
import { childNamed, figuresOf, type ProcessFigures } from "./process-figures.ts";

export interface Child {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

/** Runs a program of this folder that prints `{"url": …}` once it listens. */
async function startProgram(file: string, args: readonly string[]): Promise<Child> {
  const group = startGroup(process.execPath, [join(import.meta.dirname, file), ...args], { cwd: process.cwd(), env: quietEnvironment() });
  group.stderr.pipe(process.stderr, { end: false });
  try {
    for await (const line of linesOf(group.stdout)) {
      if (!line.startsWith("{")) continue;
      // What it prints from now on nobody waits for, but a full pipe would stop it.
      group.stdout.resume();
      return { url: (JSON.parse(line) as HostReady).url, pid: group.pid, stop: group.stop };
    }
    throw new Error(`${file} ended with code ${await group.exited} before it listened.`);
  } catch (error) {
    await group.stop();
    throw error;
  }
}

/** Lines as they come; leaving the loop leaves the stream open. */
async function* linesOf(stream: NodeJS.ReadableStream): AsyncGenerator<string> {
  let buffered = "";
  for await (const data of (stream as import("node:stream").Readable).iterator({ destroyOnReturn: false })) {
    buffered += String(data);
    for (let end = buffered.indexOf("\n"); end !== -1; end = buffered.indexOf("\n")) {
      yield buffered.slice(0, end);
      buffered = buffered.slice(end + 1);
    }
  }
}

export const startFakeModel = (): Promise<Child> => startProgram("fake-model.ts", []);

/** A served bundle. */
export interface Server extends Child {
  workerd: ProcessFigures & { pid: number };
  /** From the start of the process until the first 200. */
  readyMs: number;
}

export interface ServeOptions {
  modelUrl: string;
  /** Counts what sessions write; it costs time, so figures of time come from a server without. */
  counting?: boolean;
  inspectorPort?: number;
}

export async function serve(kind: "worker" | "bare", bundle: Bundle, { modelUrl, counting = false, inspectorPort }: ServeOptions): Promise<Server> {
  const state = await mkdtemp(join(tmpdir(), `signalbox-bench-${kind}-state-`));
  const options: HostOptions = {
    bundle: bundle.path,
    state,
    statements: await statementsOf(kind),
    bindings: { SIGNALBOX_AUTH: "none", OPENAI_BASE_URL: `${modelUrl}/v1`, OPENAI_API_KEY: "none", ...(counting ? { COUNTING: "on" } : {}) },
    ...(inspectorPort === undefined ? {} : { inspectorPort }),
  };
  const startedAt = performance.now();
  const host = await startProgram("miniflare-host.ts", [JSON.stringify(options)]);
  const stop = async () => {
    await host.stop();
    await rm(state, { recursive: true, force: true });
  };
  try {
    const answer = await fetch(`${host.url}/health`);
    if (!answer.ok) throw new Error(`The ${kind} answers ${answer.status} to /health: ${await answer.text()}`);
    await answer.arrayBuffer();
    const readyMs = performance.now() - startedAt;
    const pid = childNamed(host.pid, "workerd");
    return { ...host, stop, readyMs, workerd: { pid, ...figuresOf(pid) } };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The statements that make the database: the product's migrations, or the bare Worker's two tables. */
async function statementsOf(kind: "worker" | "bare"): Promise<string[]> {
  const folder = join(import.meta.dirname, kind === "bare" ? "bare" : "../../migrations");
  const files = (await readdir(folder)).filter((name) => name.endsWith(".sql")).sort();
  const texts = await Promise.all(files.map((name) => readFile(join(folder, name), "utf8")));
  return [
    ...texts.flatMap((text) => text.split("--> statement-breakpoint")).map((sql) => sql.trim()),
    // As wrangler keeps it: /health looks here.
    "CREATE TABLE d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)",
    ...files.map((name) => `INSERT INTO d1_migrations (name) VALUES ('${name}')`),
  ];
}

