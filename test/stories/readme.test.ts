import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { startServer } from "./harness/server.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url).href);
/** Folders whose files a page names without them. */
const FOLDERS = ["define", "models", "engine", "routes", "conformance"];
const README = await readFile(join(ROOT, "README.md"), "utf8");

it("the README's commands do what it says, as they are printed", async () => {
  const block = [...README.matchAll(/```sh\n([^]*?)```/g)].map((match) => match[1]!).find((text) => text.includes("curl"))!;
  const server = await startServer({ throughNpm: true });
  try {
    // A line for each command, so that each answer can be told from the next.
    const script = block.replaceAll("http://127.0.0.1:8787", server.url).replaceAll(/^curl (.*)$/gm, "curl -s $1; echo; echo '=== next'");
    const { stdout } = await promisify(execFile)("sh", ["-c", script], { maxBuffer: 10_000_000 });
    const [stream, remembered, refused, followed, polled, cancelled, run, session, sessions] = stdout.split("=== next\n").map((text) => text.trim());

    expect(stream).toMatch(/^id: 0\nevent: RunStarted\n[^]*event: RunCompleted\ndata: .*from free to pro/);
    expect(JSON.parse(remembered!)).toMatchObject({ status: "COMPLETED", session_id: "demo", content: expect.stringContaining("from pro to free") });
    const { run_id, error_type } = JSON.parse(refused!) as { run_id: string; error_type: string };
    expect(error_type).toBe("session_busy");
    expect(followed).toMatch(/^id: 4\n[^]*event: RunCompleted\n/);
    expect(JSON.parse(polled!)).toMatchObject({ run_id, status: "COMPLETED", ended: true });
    expect(cancelled).toBe("{}");
    expect(JSON.parse(run!)).toMatchObject({ run_id, status: "COMPLETED", content: expect.stringContaining("Emi Tanaka") });
    expect(JSON.parse(session!)).toMatchObject({ session_id: "demo" });
    expect(JSON.parse(sessions!)).toMatchObject({ data: [{ session_id: "demo" }], meta: { total_count: 1 } });
  } finally {
    await server.stop();
  }
});

it.each(["README.md", "src/README.md", "src/session/README.md", "test/README.md"])("%s points at files that are there", async (page) => {
  const text = await readFile(join(ROOT, page), "utf8");
  const targets = [...text.matchAll(/\]\(([^)#]+)\)/g)].map((match) => match[1]!).filter((target) => !target.startsWith("http"));
  expect(targets.filter((target) => !existsSync(join(ROOT, page, "..", target)))).toEqual([]);
});

it.each([
  ["src/README.md", "src"],
  ["src/session/README.md", "src/session"],
  ["test/README.md", "test"],
])("%s names files that are there", async (page, folder) => {
  const text = await readFile(join(ROOT, page), "utf8");
  const named = [...text.matchAll(/`([\w./-]+(?:\.(?:ts|md)|\/))`/g)].map((match) => match[1]!);
  // `model.ts` stands beside the folder it is in.
  const somewhere = (file: string) => [folder, ...FOLDERS.map((inner) => `${folder}/${inner}`)].some((place) => existsSync(join(ROOT, place, file)));
  expect(named.filter((file) => !somewhere(file))).toEqual([]);
});

it("README.md names scripts and exports that are there", async () => {
  const manifest = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { scripts: object; exports: object };
  const scripts = [...README.matchAll(/npm run ([a-z:]+)/g)].map((match) => match[1]!);
  expect(scripts.filter((script) => !(script in manifest.scripts))).toEqual([]);
  const imports = [...README.matchAll(/from "signalbox(\/[^"]*)?"/g)].map((match) => `.${match[1] ?? ""}`);
  expect(imports.filter((subpath) => !(subpath in manifest.exports))).toEqual([]);
});
