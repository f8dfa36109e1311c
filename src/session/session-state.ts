import type { AgentDefinition } from "../define/agent.ts";
import type { RunInput } from "../domain/run.ts";

type State = Record<string, unknown>;

/** The state a run begins with: the session's own, over what the agent starts sessions with, under what the caller sent. */
export function stateAtStart(stored: State, agent: AgentDefinition, input: RunInput): State {
  const sent = input.sessionState ?? {};
  if (agent.overwriteSessionState === true && input.sessionState !== undefined) return structuredClone(sent);
  return structuredClone({ ...agent.sessionState, ...stored, ...sent });
}

/** What a run changed: only that is written back, so that what others changed meanwhile stays. */
export function applyChanges(stored: State, before: State, after: State): State {
  const next = { ...stored };
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (isSame(before[key], after[key])) continue;
    if (key in after) next[key] = structuredClone(after[key]);
    else delete next[key];
  }
  return next;
}

export const isSame = (a: unknown, b: unknown): boolean => a === b || JSON.stringify(a) === JSON.stringify(b);
