import type { FinishReason } from "./message.ts";
import type { Effect } from "./tool-call.ts";
import type { Usage } from "./usage.ts";
import type { RunError, RunMetrics } from "./run.ts";

/** Indices `from` to `to`, both included. */
export interface IndexRange {
  from: number;
  to: number;
}

/**
 * What can happen in a run. Names are noun, dot, what happened; the words clients are promised are made of them in
 * `routes/wire.ts` and nowhere else.
 */
export type RunEventBody =
  | { type: "run.started"; model?: string; provider?: string }
  /** Another attempt or another model request begins. What `discarded` names was told but does not count: drop it. */
  | {
      type: "run.retried";
      attempt: number;
      maxAttempts: number;
      delayMs: number;
      reason: "crash" | "model_error";
      error?: string;
      discarded?: IndexRange;
    }
  /** The run waits for people. Indices go on when it is continued. */
  | { type: "run.paused"; content: string; calls: ToolCallView[] }
  /** A paused run goes on; `note` says what has changed since, when the code has. */
  | { type: "run.continued"; note?: string }
  | { type: "model.started"; model: string; provider: string }
  | { type: "text.delta"; text: string; /** A compacted range of deltas: this event stands for all of them. */ compacted?: IndexRange }
  | { type: "reasoning.started" }
  | { type: "reasoning.delta"; text: string; compacted?: IndexRange }
  | { type: "reasoning.completed"; text: string }
  | {
      type: "model.completed";
      model: string;
      provider: string;
      usage?: Usage;
      timeToFirstTokenMs?: number;
      finishReason: FinishReason;
    }
  | { type: "text.completed" }
  | { type: "tool-call.started"; call: ToolCallView }
  | { type: "tool-call.completed"; call: ToolCallView; durationMs: number }
  | { type: "tool-call.failed"; call: ToolCallView; error: string }
  | { type: "tool-call.progress"; callId: string; data: unknown }
  | { type: "custom"; callId?: string; name: string; data: Record<string, unknown> }
  | {
      type: "run.completed";
      content: string;
      reasoning?: string;
      finishReason?: FinishReason;
      metrics: RunMetrics;
      sessionState?: Record<string, unknown>;
      metadata?: Record<string, unknown>;
    }
  | { type: "run.failed"; error: RunError }
  | { type: "run.cancelled"; reason: string; /** Calls that were under way and may have happened. */ unfinished?: string[] };

/** A tool call as clients see it at one moment. */
export type ToolCallView = Pick<Effect, "callId" | "toolName" | "arguments" | "status"> &
  Partial<Pick<Effect, "result" | "startedAt" | "settledAt" | "stopAfter" | "plannedAt" | "requirement">>;

export type RunEventType = RunEventBody["type"];

/** A fact in a run's log. `index` counts from 0 and never names two things; `at` is milliseconds. */
export type RunEvent = { index: number; at: number } & RunEventBody;

const TERMINAL: ReadonlySet<RunEventType> = new Set<RunEventType>(["run.completed", "run.failed", "run.cancelled"]);

/** Nothing comes after it in the run's log. */
export const isTerminalEvent = (event: Pick<RunEventBody, "type">): boolean => TERMINAL.has(event.type);

/** After it nothing comes before someone does something: a terminal event, or a pause. */
export const endsSegment = (event: Pick<RunEventBody, "type">): boolean => event.type === "run.paused" || TERMINAL.has(event.type);

type Delta = Extract<RunEventBody, { type: "text.delta" | "reasoning.delta" }>;

/** Told at once and stored a moment later; everything else is stored first. */
export const isDelta = <Event extends Pick<RunEventBody, "type">>(event: Event): event is Event & Delta =>
  event.type === "text.delta" || event.type === "reasoning.delta";
