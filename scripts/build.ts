/** `npm run build`: bundles the app as a deployment would, into `out/`, and says how large it is. Deploys nothing. */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { quietEnvironment } from "./quiet-environment.ts";

const OUT = "out";
const KIB = 1024;
const wrangler = join(dirname(fileURLToPath(import.meta.resolve("wrangler"))), "../bin/wrangler.js");

rmSync(OUT, { recursive: true, force: true });
const { status } = spawnSync(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", OUT, ...process.argv.slice(2)], {
  stdio: "inherit",
  env: quietEnvironment(),
});
if (status !== 0) process.exit(status ?? 1);

const bundle = readFileSync(join(OUT, "worker.js"));
const kib = (bytes: number) => `${(bytes / KIB).toFixed(0)} KiB`;
console.log(`\n${join(OUT, "worker.js")}: ${kib(bundle.length)}, ${kib(gzipSync(bundle).length)} gzipped`);
