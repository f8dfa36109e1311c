import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { quietEnvironment } from "../../scripts/quiet-environment.ts";

const WRANGLER = join(dirname(fileURLToPath(import.meta.resolve("wrangler"))), "../bin/wrangler.js");

/** A Worker as it would be uploaded. */
export interface Bundle {
  /** The module's file. It stands in a folder of its own, which `remove` takes away. */
  path: string;
  bytes: number;
  gzipBytes: number;
  remove(): Promise<void>;
}

/** Bundles a Worker as a deploy does, without deploying it. */
export async function buildBundle(name: "worker" | "bare"): Promise<Bundle> {
  const folder = await mkdtemp(join(tmpdir(), `signalbox-bench-${name}-`));
  const config = join(import.meta.dirname, name, "wrangler.toml");
  const wrangler = spawn(process.execPath, [WRANGLER, "deploy", "--dry-run", "--outdir", folder, "--config", config], {
    env: quietEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const printed: Buffer[] = [];
  wrangler.stdout.on("data", (data: Buffer) => printed.push(data));
  wrangler.stderr.on("data", (data: Buffer) => printed.push(data));
  const [code] = (await once(wrangler, "close")) as [number | null];
  if (code !== 0) throw new Error(`The bench's ${name} could not be bundled.\n${Buffer.concat(printed).toString()}`);
  const path = join(folder, "worker.js");
  const text = await readFile(path);
  return { path, bytes: text.byteLength, gzipBytes: gzipSync(text).byteLength, remove: () => rm(folder, { recursive: true, force: true }) };
}
