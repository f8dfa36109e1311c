/**
 * What must be done before a local server starts, in a process of its own: it loads wrangler and runs a workerd, and both
 * are to be gone, or to be killed with their group, when the server runs.
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { unstable_readConfig as readConfig } from "wrangler";
import { migrateLocal } from "./migrate-local.ts";
import { startGroup } from "./process-group.ts";
import { quietEnvironment } from "./quiet-environment.ts";

export interface Preparation {
  /** Path of `wrangler.toml`. */
  config: string;
  /** Its environment, where there are several. */
  env?: string;
  /** Folder of the local state. */
  persistTo: string;
}

/** What the configuration says that a server's start depends on. */
export interface LocalSettings {
  ip?: string;
  port?: number;
  protocol?: string;
  crons: string[];
  /** Names of its variables. */
  vars: string[];
}

/** Reads the configuration and migrates the local database. */
export async function prepareLocal(preparation: Preparation): Promise<LocalSettings> {
  const group = startGroup(process.execPath, [fileURLToPath(import.meta.url), JSON.stringify(preparation)], { cwd: process.cwd(), env: quietEnvironment() });
  const [stdout, stderr, code] = await Promise.all([textOf(group.stdout), textOf(group.stderr), group.exited]);
  await group.stop();
  if (code !== 0) throw new Error(`${stdout}${stderr}`);
  // Wrangler may have printed warnings before.
  return JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "") as LocalSettings;
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

if (import.meta.main) {
  const { config: path, env, persistTo } = JSON.parse(process.argv[2] ?? "") as Preparation;
  const config = readConfig({ config: path, env }, { hideWarnings: true });
  await migrateLocal(config, resolve(persistTo));
  const settings: LocalSettings = {
    ip: config.dev.ip,
    port: config.dev.port,
    protocol: config.dev.local_protocol,
    crons: config.triggers.crons ?? [],
    vars: Object.keys(config.vars),
  };
  console.log(JSON.stringify(settings));
}
