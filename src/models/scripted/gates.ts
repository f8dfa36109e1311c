import { systemClock } from "../../lib/clock.ts";

/** How often a held model looks at its gate, in milliseconds. */
const GATE_LOOK_MS = 5;

interface Gate {
  released: boolean;
  /** Models that have come to the gate so far. */
  arrivals: number;
}

/**
 * Gates of this isolate, by name. Looked at, not awaited: in Workers one request must not wait for a promise that another
 * one resolves, and a plain value may be shared.
 */
const gates = new Map<string, Gate>();

function gateNamed(name: string): Gate {
  let gate = gates.get(name);
  if (gate === undefined) gates.set(name, (gate = { released: false, arrivals: 0 }));
  return gate;
}

/** Lets every model go on that is held at this gate, or will come to it. */
export function releaseGate(name: string): void {
  gateNamed(name).released = true;
}

/** Resolves once so many models have come to the gate: the moment a test can act on a turn that is under way. */
export async function gateReached(name: string, arrivals = 1): Promise<void> {
  while (gateNamed(name).arrivals < arrivals) await systemClock.sleep(GATE_LOOK_MS);
}

/** Closes and forgets all gates of this isolate. */
export function resetGates(): void {
  gates.clear();
}

/** Comes to a gate and waits there. Says whether the model may go on; `false` only for an address that did not let it. */
export async function passGate(name: string, signal: AbortSignal): Promise<boolean> {
  if (/^https?:/.test(name)) return passRemoteGate(name, signal);
  gateNamed(name).arrivals += 1;
  while (!gateNamed(name).released && !signal.aborted) await systemClock.sleep(GATE_LOOK_MS, signal);
  return true;
}

async function passRemoteGate(address: string, signal: AbortSignal): Promise<boolean> {
  try {
    const response = await fetch(address, { signal });
    await response.body?.cancel();
    return response.ok;
  } catch {
    // Refused, reset or aborted: the caller looks at the signal and says which.
    return false;
  }
}
