import { z } from "zod";
import { ComponentRef } from "./component.ts";
import { type FinishReason, Message } from "./message.ts";
import { Effect } from "./tool-call.ts";
import { Usage } from "./usage.ts";

export const RUN_STATUSES = ["pending", "running", "paused", "completed", "failed", "cancelled", "regenerated"] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

/** The run is over and is never rewritten; going on from it makes a sibling. */
export const isTerminal = (status: RunStatus): boolean =>
  status === "completed" || status === "failed" || status === "cancelled" || status === "regenerated";

/** It holds the session's line, or waits for it. */
export const isUnfinished = (status: RunStatus): boolean => status === "pending" || status === "running";

/** Why a run failed, in a word that programs read and a sentence that people do. */
export const RunError = z.object({
  /** For example `model_overloaded`, `tool_outcome_unknown`, `attempts_exhausted`, `step_limit`. */
  type: z.string(),
  message: z.string(),
  /** Trying again as it is could help. */
  retryable: z.boolean(),
});
export type RunError = z.infer<typeof RunError>;

export const RunMetrics = z.object({
  usage: Usage,
  /** Milliseconds from start to end. */
  durationMs: z.number().optional(),
  /** Milliseconds to the first part of the first reply. */
  timeToFirstTokenMs: z.number().optional(),
  modelCalls: z.number().int(),
});
export type RunMetrics = z.infer<typeof RunMetrics>;

/** What a client asked for. */
export const RunInput = z.object({
  message: z.string(),
  sessionState: z.record(z.string(), z.unknown()).optional(),
  dependencies: z.record(z.string(), z.unknown()).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  /** Overrides the agent's own option for this run. */
  addHistoryToContext: z.boolean().optional(),
  numHistoryRuns: z.number().int().optional(),
  numHistoryMessages: z.number().int().optional(),
  toolCallLimit: z.number().int().optional(),
});
export type RunInput = z.infer<typeof RunInput>;

/** A run as it is stored and read: without its messages and events, which are rows of their own. */
export const Run = z.object({
  runId: z.string(),
  sessionId: z.string(),
  userId: z.string().optional(),
  component: ComponentRef,
  parentRunId: z.string().optional(),
  /** The schedule that started it, and which of its firings. */
  schedule: z.object({ id: z.string(), runId: z.string() }).optional(),
  status: z.enum(RUN_STATUSES),
  input: RunInput,
  background: z.boolean(),
  stream: z.boolean(),
  /** Milliseconds it goes on without anyone to see it, or `keep`. */
  onDisconnect: z.union([z.number(), z.literal("keep")]),
  /** How many attempts have begun since the last new checkpoint, and how many in all. */
  attempt: z.number().int(),
  attemptsSinceCheckpoint: z.number().int(),
  /** How far the run had come when the newest attempt began: stored messages and settled calls. */
  checkpoint: z.number().int().optional(),
  model: z.string().optional(),
  provider: z.string().optional(),
  content: z.string(),
  reasoning: z.string().optional(),
  finishReason: (z.string() as unknown as z.ZodType<FinishReason>).optional(),
  error: RunError.optional(),
  cancelReason: z.string().optional(),
  sessionState: z.record(z.string(), z.unknown()).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
  metrics: RunMetrics,
  /** What it was shown of earlier runs, where the agent keeps that. Its own messages are rows of their own. */
  history: z.array(Message).optional(),
  /** History holds what stood before this place in the session; absent: before the run's own. */
  historyBefore: z.number().int().optional(),
  /** Each time that it went on in place: the id that was minted for a sibling, which names the ask, and its last event before. */
  continuations: z.array(z.object({ id: z.string(), after: z.number().int() })).optional(),
  forkedFromRunId: z.string().optional(),
  /** The session that it was copied from with all the others. */
  forkedFromSessionId: z.string().optional(),
  forkedFromMessageIndex: z.number().int().optional(),
  regeneratedFrom: z.string().optional(),
  /** Its first own step: the model's replies before it were given in the run that it goes on from. Absent: 0. */
  firstStep: z.number().int().optional(),
  createdAt: z.number(),
  /** When it came to wait for the line: its place there. */
  queuedAt: z.number().optional(),
  startedAt: z.number().optional(),
  endedAt: z.number().optional(),
  updatedAt: z.number(),
  /** Counts every change of the row, for the projection's guard. */
  version: z.number().int(),
});
export type Run = z.infer<typeof Run>;

/** A run with what it did: what `GET …/runs/{run_id}` shows. */
export const RunRecord = Run.extend({
  messages: z.array(Message),
  effects: z.array(Effect),
});
export type RunRecord = z.infer<typeof RunRecord>;
