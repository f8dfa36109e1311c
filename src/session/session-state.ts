import type { AgentDefinition } from "../define/agent.ts";
import type { RunInput } from "../domain/run.ts";
import { jsonCopy, jsonEntries } from "../lib/json.ts";

type State = Record<string, unknown>;

/** The state a run begins with: the session's own, over what the agent starts sessions with, under what the caller sent. */
export function stateAtStart(stored: State, agent: AgentDefinition, input: RunInput): State {
  const sent = input.sessionState ?? {};
  if (agent.overwriteSessionState === true && input.sessionState !== undefined) return snapshot(sent);
  return snapshot({ ...agent.sessionState, ...stored, ...sent });
}

/**
 * The state as it would be read back now. Tools write what they like into it, also what JSON has no word for; that must
 * neither stop the commit that stores it nor the end of a cancelled run.
 */
export const snapshot = (state: State): State => jsonEntries(state);

/**
 * What a run changed: only that is written back, so that what others changed meanwhile stays. A value that can not be
 * stored changes nothing.
 */
export function applyChanges(stored: State, before: State, after: State): State {
  const next = new Map(Object.entries(stored));
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    try {
      // Own entries only: the names of what every object inherits are names a state may use as well.
      const now = Object.hasOwn(after, key) ? jsonCopy(after[key]) : undefined;
      if (isSame(Object.hasOwn(before, key) ? before[key] : undefined, now)) continue;
      if (now === undefined) next.delete(key);
      else next.set(key, now);
    } catch {
      // A cycle or a BigInt: what is stored under this key stays.
    }
  }
  return Object.fromEntries(next);
}

export const isSame = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);
