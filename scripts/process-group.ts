import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";

/** How long a group may take to end when it is asked to, before it is killed. */
const GRACE_MS = 3000;
/** How often it is looked whether a group has ended. */
const LOOK_MS = 25;

export type Environment = Readonly<Record<string, string | undefined>>;

/** A program with everything it starts: wrangler runs several workerd and esbuild, which outlive it when it is killed alone. */
export interface ProcessGroup {
  readonly pid: number;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** The program's own exit code; 1 where a signal ended it. */
  readonly exited: Promise<number>;
  /** Ends the whole group: asks first, kills after a grace. Resolves when nothing of it is left. */
  stop(): Promise<void>;
}

export function startGroup(program: string, args: readonly string[], options: { cwd: string; env: Environment }): ProcessGroup {
  const child = spawn(program, args, { cwd: options.cwd, env: options.env as NodeJS.ProcessEnv, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const pid = child.pid;
  if (pid === undefined) throw new Error(`${program} could not be started.`);
  const guardian = guard(pid);

  const onExit = () => signalGroup(pid, "SIGKILL");
  process.once("exit", onExit);

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    signalGroup(pid, "SIGTERM");
    const killAt = Date.now() + GRACE_MS;
    while (isAlive(pid)) {
      if (Date.now() > killAt) signalGroup(pid, "SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    process.off("exit", onExit);
    guardian?.kill("SIGKILL");
  };

  return {
    pid,
    stdout: child.stdout,
    stderr: child.stderr,
    exited: once(child, "exit").then(([code]: (number | null)[]) => code ?? 1),
    stop: () => (stopping ??= stop()),
  };
}

/**
 * Ends the group when this process is gone, however it went: `SIGKILL` runs no handler, but it closes the pipe that the
 * guardian reads. Windows has no groups to kill.
 */
function guard(pid: number): ChildProcess | undefined {
  if (process.platform === "win32") return undefined;
  const guardian = spawn("sh", ["-c", 'read -r _; kill -s KILL -- "-$1" 2>/dev/null', "sh", String(pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  guardian.unref();
  return guardian;
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, signal);
  } catch {
    // Nothing of the group is left.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(process.platform === "win32" ? pid : -pid, 0);
    return true;
  } catch {
    return false;
  }
}
