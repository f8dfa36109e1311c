import type { RunMetrics, RunStatus } from "../../domain/run.ts";
import type { Usage } from "../../domain/usage.ts";

const STATUS_WORDS = {
  pending: "PENDING",
  running: "RUNNING",
  paused: "PAUSED",
  completed: "COMPLETED",
  failed: "ERROR",
  cancelled: "CANCELLED",
  regenerated: "REGENERATED",
} as const satisfies Record<RunStatus, string>;

/** A run's status as every JSON surface says it. */
export const statusToWire = (status: RunStatus) => STATUS_WORDS[status];

/** Epoch seconds, as run dicts and events count time. */
export const toSeconds = (ms: number): number => Math.floor(ms / 1000);

/** ISO 8601 in UTC, as sessions and their runs tell time. */
export const toIso = (ms: number): string => new Date(ms).toISOString();

/** The one database there is, as clients name it: agent-ui lists no sessions for a component without one. */
export const DB_ID = "signalbox-db";

/** Drops null keys, at the top level only: what is inside a value is the value's own. */
export function withoutNulls<T extends Record<string, unknown>>(object: T): { [Key in keyof T]?: NonNullable<T[Key]> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== null && value !== undefined)) as { [Key in keyof T]?: NonNullable<T[Key]> };
}

/** Tokens, without the kinds that were not used or not told. */
export function usageToWire(usage: Usage) {
  return withoutZeros({
    input_tokens: usage.inputTokens,
    output_tokens: usage.outputTokens,
    total_tokens: usage.inputTokens + usage.outputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
  });
}

/** A run's figures. `model` adds the share of each model, of which there is one. */
export function metricsToWire(metrics: RunMetrics, model?: { id: string; provider: string }) {
  const tokens = usageToWire(metrics.usage);
  const used = Object.keys(tokens).length > 0;
  return {
    ...tokens,
    ...withoutZeros({ time_to_first_token: secondsOf(metrics.timeToFirstTokenMs), duration: secondsOf(metrics.durationMs) }),
    ...(model !== undefined && used ? { details: { model: [{ ...model, ...tokens }] } } : {}),
  };
}

/** Milliseconds as fractional seconds. */
export const secondsOf = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms / 1000);

function withoutZeros<T extends Record<string, number | undefined>>(figures: T): { [Key in keyof T]?: number } {
  return Object.fromEntries(Object.entries(figures).filter(([, value]) => value !== undefined && value !== 0)) as { [Key in keyof T]?: number };
}
