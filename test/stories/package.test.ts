import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { freePort } from "../../scripts/port.ts";
import { type ProcessGroup, startGroup } from "../../scripts/process-group.ts";
import { quietEnvironment } from "../../scripts/quiet-environment.ts";
import { AUTHOR_PROJECT } from "./author-project.ts";
import { EventStream } from "./harness/event-stream.ts";
import { until } from "./harness/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url).href);
const INSTALL_TIMEOUT_MS = 300_000;

// Programs of this repository, as npm scripts find them; everything else comes from the author's own folder.
const env = { ...quietEnvironment(), PATH: `${join(ROOT, "node_modules/.bin")}:${process.env.PATH}` };
const run = promisify(execFile);

/** An author's project: files of their own and the package, installed from its tarball. */
let project: string;
let tarball: string;
let server: ProcessGroup | undefined;

const inProject = (program: string, ...args: string[]) =>
  run(program, args, { cwd: project, env }).catch((error: { stdout: string; stderr: string }) => {
    throw new Error(`${program} ${args.join(" ")} failed:\n${error.stdout}${error.stderr}`);
  });

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "signalbox-author-"));
  for (const [file, text] of Object.entries(AUTHOR_PROJECT)) {
    await mkdir(dirname(join(project, file)), { recursive: true });
    await writeFile(join(project, file), text);
  }
  const packed = await run(process.execPath, [join(ROOT, "scripts/pack.ts"), project], { cwd: ROOT, env });
  tarball = packed.stdout.trim();
  await inProject("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", tarball);
}, INSTALL_TIMEOUT_MS);

afterAll(async () => {
  await server?.stop();
  await rm(project, { recursive: true, force: true, maxRetries: 5 });
});

it("S139 the package holds what is published and nothing else", async () => {
  expect(basename(tarball)).toMatch(/^signalbox-\d+\.\d+\.\d+\.tgz$/);
  const { stdout } = await run("tar", ["tzf", tarball]);
  const files = stdout.trim().split("\n").map((file) => file.replace(/^package\//, ""));
  expect(files).toEqual(expect.arrayContaining(["package.json", "README.md", "LICENSE", "index.js", "index.d.ts", "testing.js", "models/anthropic/index.js"]));
  expect(files.some((file) => /^migrations\/\d{4}_.*\.sql$/.test(file))).toBe(true);
  expect(files.filter((file) => file.startsWith("app/") || file.startsWith("src/") || (file.endsWith(".ts") && !file.endsWith(".d.ts")))).toEqual([]);

  const manifest = JSON.parse(await readFile(join(project, "node_modules/signalbox/package.json"), "utf8")) as Record<string, unknown>;
  expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(["devDependencies"]));
  expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(["scripts"]));
});

it("S139 an author's project type-checks against it, and a mistake in it does not", async () => {
  await inProject("wrangler", "types", "--strict-vars=false");
  await inProject("tsc", "-p", ".");
  await expect(inProject("tsc", "-p", "tsconfig.mistakes.json")).rejects.toThrow(/mistakes\.ts\(\d+,\d+\): error TS2820.*'"none"'[^]*error TS2551.*'GREETING'/);
});

it("S139 an author's Worker runs a turn on it over HTTP", async () => {
  await inProject("wrangler", "d1", "migrations", "apply", "DB", "--local");
  const port = await freePort("127.0.0.1", 0);
  const running = startGroup("wrangler", ["dev", "--port", String(port), "--inspector-port", "0", "--show-interactive-dev-session", "false"], { cwd: project, env });
  server = running;
  let printed = "";
  for (const stream of [running.stdout, running.stderr]) stream.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  const url = `http://127.0.0.1:${port}`;
  await until("the author's server", () => fetch(`${url}/health`).then((response) => response.ok, () => false), { withinMs: 60_000, instead: () => printed });

  const form = new FormData();
  form.set("message", "Ada");
  const response = await fetch(`${url}/agents/greeter/runs`, { method: "POST", body: form });
  const events = await new EventStream(response, new AbortController()).ended();
  expect(events.at(-1)).toMatchObject({ event: "RunCompleted", content: "Good day, Ada!" });
  expect(events.map((event) => event.event_index)).toEqual(events.map((_event, place) => place));

  const { session_id, run_id } = events[0]!;
  const stored = await fetch(`${url}/agents/greeter/runs/${run_id}?session_id=${session_id}`);
  expect(await stored.json()).toMatchObject({ status: "COMPLETED", content: "Good day, Ada!" });
});
