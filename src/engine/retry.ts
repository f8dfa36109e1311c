import { AGENT_DEFAULTS } from "../define/agent-defaults.ts";
import type { AgentDefinition } from "../define/agent.ts";
import type { RunError } from "../domain/run.ts";
import { backoffDelay } from "../lib/backoff.ts";
import type { ModelErrorKind, ModelFailure } from "../models/model.ts";

/** Failures that asking again can cure. Everything else would fail the same way, or cost money to fail. */
const RETRYABLE: ReadonlySet<ModelErrorKind> = new Set<ModelErrorKind>([
  "overloaded",
  "rate_limited",
  "server_error",
  "connection",
  "interrupted",
  "stalled",
]);

const LONGEST_DELAY_MS = 60_000;

export const isRetryable = (failure: ModelFailure): boolean => RETRYABLE.has(failure.kind);

/** How long to wait before retry number `retry`; the provider's own wish beats the agent's. */
export function retryDelay(agent: AgentDefinition, failure: ModelFailure, retry: number): number {
  if (failure.retryAfterMs !== undefined) return Math.min(failure.retryAfterMs, LONGEST_DELAY_MS);
  return backoffDelay(retry, {
    baseMs: agent.delayBetweenRetries ?? AGENT_DEFAULTS.delayBetweenRetries,
    exponential: agent.exponentialBackoff ?? false,
    maxMs: LONGEST_DELAY_MS,
  });
}

/** A model's failure as the run's error. */
export const toRunError = (failure: ModelFailure): RunError => ({
  type: `model_${failure.kind}`,
  message: failure.message,
  retryable: isRetryable(failure),
});
