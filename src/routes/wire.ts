/** The words clients are promised. Inside, a run has `failed` and tells `run.completed`; only here it says `ERROR` and `RunCompleted`. */
export { agentSummaryToWire, agentToWire, modelOf } from "./wire/agents.ts";
export { wireEncoder } from "./wire/events.ts";
export { messagesToWire } from "./wire/messages.ts";
export { runSchemaToWire, runToWire } from "./wire/runs.ts";
export { DB_ID, metricsToWire, statusToWire, toIso, toSeconds, withoutNulls } from "./wire/words.ts";
