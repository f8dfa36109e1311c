import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseEnv } from "node:util";
import { freePort } from "./port.ts";
import { type LocalSettings, prepareLocal } from "./prepare-local.ts";
import { startGroup } from "./process-group.ts";
import { quietEnvironment } from "./quiet-environment.ts";
import { readWranglerFlags, type WranglerFlags } from "./wrangler-flags.ts";

const WRANGLER = join(dirname(fileURLToPath(import.meta.resolve("wrangler"))), "../bin/wrangler.js");

/** How often a server that is starting is asked whether it answers. */
const ASK_MS = 50;
const ASK_TIMEOUT_MS = 2000;

/** Variables that say who may come in. Where one of them is set, the server is not opened to anyone. */
const AUTH_VARIABLE = /^(SIGNALBOX_AUTH|OS_SECURITY_KEY|JWT_.+)$/;

export interface DevServer {
  url: string;
  /** Whether it lets anyone in, and so whether a request needs a key. */
  isOpen: boolean;
  /** Its Cron Triggers. */
  crons: readonly string[];
  /** Wrangler's exit code, once it has ended by itself or was stopped. */
  exited: Promise<number>;
  stop(): Promise<void>;
}

/** Why a server did not start: words for the person who started it, and the code to exit with. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
  readonly exitCode: number;

  constructor(message: string, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Starts `wrangler dev` with the given flags on a migrated database and resolves when it answers. What it prints while
 * it starts is only shown when it fails; what it prints afterwards goes to `output`.
 */
export async function startDevServer({
  flags: given = [],
  cwd = process.cwd(),
  output,
}: {
  flags?: readonly string[];
  cwd?: string;
  output: { stdout: NodeJS.WritableStream; stderr: NodeJS.WritableStream };
}): Promise<DevServer> {
  const flags = readWranglerFlags(given);
  const settings = await prepareLocal({
    config: flags.config === undefined ? findConfig(cwd) : resolve(cwd, flags.config),
    ...(flags.env === undefined ? {} : { env: flags.env }),
    persistTo: resolve(cwd, flags.persistTo ?? ".wrangler/state"),
  }).catch((error: Error) => Promise.reject(new StartFailure(error.message)));
  const ip = flags.ip ?? settings.ip ?? "127.0.0.1";
  const port = await claimPort(ip, flags.port ?? settings.port ?? 8787);
  const isOpen = !(await configuresAuth(flags, settings, cwd));

  const wrangler = startGroup(process.execPath, [WRANGLER, "dev", ...flags.without("port"), ...ownFlags(flags, { port, isOpen })], { cwd, env: quietEnvironment() });
  const printed: Buffer[] = [];
  const keep = (chunk: Buffer) => printed.push(chunk);
  wrangler.stdout.on("data", keep);
  wrangler.stderr.on("data", keep);

  const host = ip === "0.0.0.0" || ip === "*" ? "127.0.0.1" : ip.includes(":") ? `[${ip}]` : ip;
  const url = `${flags.protocol ?? settings.protocol ?? "http"}://${host}:${port}`;
  const asking = new AbortController();
  const ended = await Promise.race([answers(url, asking.signal), wrangler.exited]);
  asking.abort();
  if (typeof ended === "number") {
    await wrangler.stop();
    throw new StartFailure(`${Buffer.concat(printed).toString()}\nwrangler dev ended with code ${ended}.`, ended);
  }
  wrangler.stdout.off("data", keep).pipe(output.stdout, { end: false });
  wrangler.stderr.off("data", keep).pipe(output.stderr, { end: false });
  return { url, isOpen, crons: settings.crons, exited: wrangler.exited, stop: wrangler.stop };
}

/** What we add to the caller's flags. It stands last, because wrangler's list flags take whatever follows them. */
function ownFlags(flags: WranglerFlags, { port, isOpen }: { port: number; isOpen: boolean }): string[] {
  return [
    "--port",
    String(port),
    // Two servers on one machine must not meet at the debugger's default port.
    ...(flags.has("inspector-port") ? [] : ["--inspector-port", "0"]),
    // A line for each request is noise, and costs a good part of the throughput.
    ...(flags.has("log-level") ? [] : ["--log-level", "warn"]),
    ...(flags.has("show-interactive-dev-session") ? [] : ["--show-interactive-dev-session", "false"]),
    ...(isOpen ? ["--var", "SIGNALBOX_AUTH:none"] : []),
  ];
}

/** Whether the caller said who may come in: with `--var`, in the configuration, or in the files wrangler reads variables from. */
async function configuresAuth(flags: WranglerFlags, settings: LocalSettings, cwd: string): Promise<boolean> {
  const files = await Promise.all(
    [".dev.vars", ".env", ".env.local"].map(async (name) => {
      const path = join(cwd, name);
      return existsSync(path) ? Object.keys(parseEnv(await readFile(path, "utf8"))) : [];
    }),
  );
  return [...flags.vars.keys(), ...settings.vars, ...files.flat()].some((name) => AUTH_VARIABLE.test(name));
}

function findConfig(cwd: string): string {
  const path = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"].map((name) => join(cwd, name)).find(existsSync);
  if (path === undefined) throw new StartFailure(`There is no wrangler.toml in ${cwd}.`);
  return path;
}

/** The port, when it is free; some free port for 0. Wrangler itself would move to another one without a word. */
async function claimPort(ip: string, port: number): Promise<number> {
  try {
    return await freePort(ip === "*" ? "0.0.0.0" : ip, port);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "EADDRINUSE") throw new StartFailure(`Port ${port} on ${ip} is in use. Stop what runs there, or choose another: npm run dev -- --port ${port + 1}`);
    throw new StartFailure(`Can not listen on ${ip}:${port}: ${message}`);
  }
}

/** Resolves when the Worker answers anything: wrangler holds requests back until it runs. */
async function answers(url: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const response = await fetch(`${url}/health`, { signal: AbortSignal.any([signal, AbortSignal.timeout(ASK_TIMEOUT_MS)]) });
      await response.body?.cancel();
      return;
    } catch {
      // Not listening yet, or still building.
      await new Promise((resolve) => setTimeout(resolve, ASK_MS));
    }
  }
}
