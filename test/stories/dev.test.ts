import { execFile, execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ProcessGroup, startGroup } from "../../scripts/process-group.ts";
import { startFakeProvider } from "../fakes/provider.ts";
import { end, gate, say, script } from "../fakes/script.ts";
import { until } from "./harness/until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url).href);
const run = promisify(execFile);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "signalbox-dev-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const started: ProcessGroup[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((group) => group.stop()));
});

/** Starts `npm run <script>` as someone on a bare machine does: no terminal, an empty home, nothing of ours in the environment. */
function npmRun(script: string, ...flags: string[]) {
  const group = startGroup("npm", ["run", script, "--", ...flags], { cwd: ROOT, env: { PATH: process.env.PATH, HOME: folder } });
  started.push(group);
  let printed = "";
  for (const stream of [group.stdout, group.stderr]) stream.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  let code: number | undefined;
  void group.exited.then((exited) => (code = exited));
  return {
    ...group,
    printed: () => printed,
    /** The address in the banner. */
    ready: () =>
      until(
        "the banner",
        () => {
          if (code !== undefined) throw new Error(`npm run ${script} ended with ${code}:\n${printed}`);
          return /is ready on (\S+)/.exec(printed)?.[1];
        },
        { withinMs: 60_000, instead: () => printed },
      ),
  };
}

const devServer = (...flags: string[]) => npmRun("dev", "--port", "0", "--persist-to", join(folder, "state"), ...flags);

interface Process {
  pid: number;
  parent: number;
  command: string;
}

/** Everything that descends from a process, whatever group it is in. */
function family(root: number): Process[] {
  const all = execFileSync("ps", ["-eo", "pid=,ppid=,args="])
    .toString()
    .trim()
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line))
    .flatMap((row): Process[] => (row === null ? [] : [{ pid: Number(row[1]), parent: Number(row[2]), command: row[3]! }]));
  const found = all.filter((process) => process.pid === root);
  for (const { pid } of found) found.push(...all.filter((process) => process.parent === pid));
  return found;
}

function isAlive({ pid }: Process): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const allGone = (processes: readonly Process[]) =>
  until("every process of the server to be gone", () => !processes.some(isAlive), { withinMs: 15_000, instead: () => processes.filter(isAlive) });

describe("npm run dev", () => {
  it("S193 stopped in mid-run ends with code 0, and no request to a provider stays open", async () => {
    const provider = await startFakeProvider();
    try {
      provider.next(script(say("One moment."), gate("never"), end()), "stop");
      const dev = devServer("--var", "SIGNALBOX_MODEL:openai-chat:fake", "--var", `OPENAI_BASE_URL:${provider.url}/v1`);
      const url = await dev.ready();
      const stream = await fetch(`${url}/agents/researcher/runs`, { method: "POST", body: new URLSearchParams({ message: "wait #stop" }) });
      await until("the model to be asked", () => provider.requests("stop")[0]?.state === "open");
      // The script alone: npm, which a terminal would tell as well, has no exit code of its own then.
      process.kill(family(dev.pid).find(({ command }) => command.startsWith("node scripts/dev.ts"))!.pid, "SIGINT");
      expect(await dev.exited).toBe(0);
      await until("the request to the provider to be closed", () => provider.requests("stop")[0]?.state === "closed-by-client");
      await stream.body?.cancel().catch(() => {});
    } finally {
      await provider.close();
    }
  });

  it("serves with nothing: one banner, a docs page, a command that streams a run as printed, and nothing left after Ctrl-C", async () => {
    const dev = devServer();
    const url = await dev.ready();
    expect(dev.printed().match(/is ready on/g)).toHaveLength(1);
    expect((await fetch(/docs\s+(\S+)/.exec(dev.printed())![1]!)).status).toBe(200);

    const command = /try\s+(curl .*)/.exec(dev.printed())![1]!;
    const { stdout } = await run("sh", ["-c", command]);
    expect(stdout).toMatch(/^id: 0\nevent: RunStarted\n/);
    expect(stdout).toMatch(/event: RunCompleted\ndata: .*went from free to pro/);

    // Another one on the same port does not move elsewhere without a word.
    const second = npmRun("dev", "--port", new URL(url).port, "--persist-to", join(folder, "second"));
    expect(await second.exited).toBe(1);
    expect(second.printed()).toContain(`Port ${new URL(url).port} on 127.0.0.1 is in use.`);

    const members = family(dev.pid);
    expect(members.map((member) => member.command).join("\n")).toContain("workerd");
    process.kill(-dev.pid, "SIGINT");
    await allGone(members);

    const listing = ["exec", "--", "wrangler", "d1", "migrations", "list", "DB", "--local", "--persist-to", join(folder, "state")];
    const { stdout: list } = await run("npm", listing, { cwd: ROOT, env: { ...process.env, CI: "1" } });
    expect(list).toContain("No migrations to apply");
  });

  it("with a key given, asks for it; killed outright, leaves nothing behind", async () => {
    const dev = devServer("--var", "OS_SECURITY_KEY:s3cret");
    const url = await dev.ready();
    expect((await fetch(`${url}/agents`)).status).toBe(401);
    expect((await fetch(`${url}/agents`, { headers: { authorization: "Bearer s3cret" } })).status).toBe(200);

    const members = family(dev.pid);
    const script = members.find((member) => /node\S* scripts\/dev\.ts/.test(member.command) && !member.command.startsWith("sh"))!;
    process.kill(script.pid, "SIGKILL");
    await allGone(members);
  });

  it("ends with npm when npm is killed outright, and with wrangler when that dies, with its code", async () => {
    const dev = devServer("--var=SIGNALBOX_AUTH:none");
    await dev.ready();
    const members = family(dev.pid);
    process.kill(dev.pid, "SIGKILL");
    await allGone(members);

    const again = devServer();
    await again.ready();
    const rest = family(again.pid);
    const wrangler = rest.find((member) => member.command.includes("bin/wrangler.js dev"))!;
    process.kill(wrangler.pid, "SIGKILL");
    expect(await again.exited).not.toBe(0);
    await allGone(rest);
  });

  it("says why when the Worker does not build", async () => {
    const app = join(folder, "broken");
    await mkdir(app);
    await writeFile(join(app, "wrangler.toml"), 'name = "broken"\nmain = "worker.js"\ncompatibility_date = "2026-11-01"\n');
    await writeFile(join(app, "worker.js"), "export default { fetch( {");
    const dev = devServer("--config", join(app, "wrangler.toml"));
    expect(await dev.exited).toBe(1);
    expect(dev.printed()).toContain("Build failed");
  });
});

describe("npm run demo", () => {
  it("tells one sales request from its own server in words, and cleans up", async () => {
    const before = readdirSync(tmpdir());
    const demo = npmRun("demo");
    expect(await demo.exited).toBe(0);
    const told = demo.printed();
    expect(told).toMatch(/calls {4}lookup_customer\(\{"customer_id":"c-1001"\}\)\n {2}gets {5}\{.*Ada Okafor/);
    expect(told).toMatch(/calls {4}update_crm\(.*\)\n {2}gets {5}\{"receipt":"crm-[0-9a-f]{10}"/);
    expect(told).toMatch(/Done: Ada Okafor \(c-1001\) went from free to pro\. The receipt is crm-[0-9a-f]{10}\.\n {2}· completed: \d+ events, none missing\n$/);
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith("signalbox-demo-") && !before.includes(name))).toEqual([]);
  });
});
