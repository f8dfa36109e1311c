import { readFileSync, readdirSync, writeFileSync } from "node:fs";

/** The kernel counts CPU time for `/proc` in hundredths of a second, whatever its own tick is. */
const MS_A_TICK = 10;

/** What the kernel knows about one process. Linux alone has it. */
export interface ProcessFigures {
  cpuMs(): number;
  /** The largest resident size since the last `resetPeak`, in MiB. */
  peakMib(): number;
  residentMib(): number;
  resetPeak(): void;
}

export function figuresOf(pid: number): ProcessFigures {
  const status = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  return {
    cpuMs() {
      // The name may hold spaces and brackets; what follows it does not.
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return (Number(fields[11]) + Number(fields[12])) * MS_A_TICK;
    },
    peakMib: () => status("VmHWM"),
    residentMib: () => status("VmRSS"),
    resetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, "5"),
  };
}

/** The child of a process that runs a program of this name. */
export function childNamed(parent: number, name: string): number {
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    let stat: string;
    try {
      stat = readFileSync(`/proc/${entry}/stat`, "utf8");
    } catch {
      // Ended between the listing and the look.
      continue;
    }
    const open = stat.indexOf("(");
    const close = stat.lastIndexOf(")");
    const parentOf = Number(stat.slice(close + 2).split(" ")[1]);
    if (parentOf === parent && stat.slice(open + 1, close) === name) return Number(entry);
  }
  throw new Error(`The process ${parent} has no child named "${name}".`);
}
