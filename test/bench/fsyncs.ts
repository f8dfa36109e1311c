import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How often a process had the disk confirm what it wrote: for sessions' objects, and for D1. */
export interface Fsyncs {
  object: number;
  d1: number;
}

/** Counts a process's fsyncs during some work. `undefined` where strace is not installed or may not attach. */
export async function fsyncsOf(pid: number, work: () => Promise<void>): Promise<Fsyncs | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "signalbox-bench-strace-"));
  const file = join(folder, "calls");
  try {
    const strace = spawn("strace", ["-f", "-y", "-e", "trace=fdatasync,fsync", "-o", file, "-p", String(pid)], { stdio: ["ignore", "ignore", "pipe"] });
    const closed = once(strace, "close").catch(() => {});
    if (!(await attached(strace))) return undefined;
    await work();
    strace.kill("SIGINT");
    await closed;
    const calls = (await readFile(file, "utf8")).split("\n").filter((line) => /f(data)?sync\(/.test(line));
    const d1 = calls.filter((line) => line.includes("/d1/")).length;
    return { d1, object: calls.length - d1 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Resolves once strace says that it watches the process; `false` when it ends without. */
function attached(strace: ChildProcess): Promise<boolean> {
  return new Promise((resolve) => {
    strace.once("error", () => resolve(false));
    strace.once("exit", () => resolve(false));
    strace.stderr?.on("data", (data: Buffer) => {
      if (String(data).includes("attached")) resolve(true);
    });
  });
}
