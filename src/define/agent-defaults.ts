import type { AgentOptions } from "./agent.ts";

/** What an agent does where its author said nothing. Shown beside the agent, so that nobody has to guess. */
export const AGENT_DEFAULTS = {
  markdown: false,
  addDatetimeToContext: false,
  timezone: "UTC",
  resolveInContext: true,
  maxSteps: 50,
  addHistoryToContext: false,
  /** Unless `numHistoryMessages` is set. */
  numHistoryRuns: 3,
  addSessionStateToContext: false,
  overwriteSessionState: false,
  addDependenciesToContext: false,
  retries: 0,
  delayBetweenRetries: 1_000,
  exponentialBackoff: false,
  stallTimeoutMs: 120_000,
  storeEvents: true,
} as const satisfies Partial<AgentOptions>;
