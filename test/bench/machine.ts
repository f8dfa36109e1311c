import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { percentile } from "./statistics.ts";

const MS_A_TICK = 10;
const FSYNCS = 200;

/** What a reader must know of the machine to make something of absolute figures. */
export interface Machine {
  cpus: number;
  cpu: string;
  node: string;
  /** Milliseconds that the disk takes to confirm 4 KiB. */
  fsyncP50: number;
  fsyncP95: number;
  /** Cores that were busy in the mean while the bench ran, its own processes included. */
  busyCores: number;
}

/** Begins to watch the machine. */
export function watchMachine(): () => Machine {
  const startedAt = performance.now();
  const before = busyMs();
  const fsyncs = fsyncTimes();
  return () => ({
    cpus: cpus().length,
    cpu: cpus()[0]?.model ?? "",
    node: process.version,
    fsyncP50: percentile(fsyncs, 0.5),
    fsyncP95: percentile(fsyncs, 0.95),
    busyCores: (busyMs() - before) / (performance.now() - startedAt),
  });
}

/** Time that all cores together did not idle since the machine started. */
function busyMs(): number {
  const [, user, nice, system, , , irq, softirq, steal] = (readFileSync("/proc/stat", "utf8").split("\n")[0] ?? "").split(/\s+/).map(Number);
  return [user, nice, system, irq, softirq, steal].reduce<number>((sum, ticks) => sum + (ticks ?? 0), 0) * MS_A_TICK;
}

function fsyncTimes(): number[] {
  const folder = mkdtempSync(join(tmpdir(), "signalbox-bench-fsync-"));
  const file = openSync(join(folder, "probe"), "w");
  try {
    return Array.from({ length: FSYNCS }, () => {
      writeSync(file, Buffer.alloc(4096));
      const startedAt = performance.now();
      fdatasyncSync(file);
      return performance.now() - startedAt;
    });
  } finally {
    closeSync(file);
    rmSync(folder, { recursive: true });
  }
}
