import type { FinishReason, Message } from "../domain/message.ts";
import type { Usage } from "../domain/usage.ts";

/** A tool as the model is told of it. */
export interface ToolSpec {
  name: string;
  description: string;
  /** JSON Schema of the arguments; its root is an object. */
  parameters: Record<string, unknown>;
}

/** Whether and which tool the model must call. */
export type ToolChoice = "auto" | "none" | "required" | { name: string };

/** How the model should write; each provider passes on what it knows and leaves the rest out. */
export interface GenerationOptions {
  /** Upper bound of the reply, in tokens. */
  maxOutputTokens?: number;
  temperature?: number;
  topP?: number;
  stop?: string[];
  reasoningEffort?: "minimal" | "low" | "medium" | "high";
}

/** One request to a model. `messages` may come from any provider; an adapter passes them through `replayable` first. */
export interface ModelRequest {
  system?: string;
  messages: Message[];
  tools: ToolSpec[];
  toolChoice?: ToolChoice;
  options?: GenerationOptions;
  /**
   * The conversation this request belongs to. Providers that cache or route by a key are given it; it is never shown
   * to the model.
   */
  sessionId?: string;
}

export interface ModelContext {
  /** The Worker's bindings: base URLs and keys are read from here, at the moment of the call. */
  env: Record<string, unknown>;
  /** Aborting it closes the provider's request. */
  signal: AbortSignal;
  /** Milliseconds without any byte from the provider after which the request is given up as `stalled`. Default 120 000. */
  stallTimeoutMs?: number;
}

/**
 * What went wrong with a request, in kinds that decide what happens next. `engine/retry.ts` retries some of them; nobody
 * reads the message to find out.
 */
export type ModelErrorKind =
  | "aborted"
  | "overloaded"
  | "rate_limited"
  | "server_error"
  | "connection"
  /** The stream ended before its last frame. */
  | "interrupted"
  /** The provider fell silent. */
  | "stalled"
  | "authentication"
  | "billing"
  | "invalid_request"
  | "context_overflow"
  | "not_found"
  /** What arrived is not the provider's wire. */
  | "protocol"
  | "misconfigured";

export interface ModelFailure {
  kind: ModelErrorKind;
  /** A sentence for people: what happened, and what would help. Never a key or a header. */
  message: string;
  /** The provider's own word for it, when it has one. */
  providerCode?: string;
  /** HTTP status, when there was one. */
  status?: number;
  /** How long the provider asks to wait, in milliseconds. */
  retryAfterMs?: number;
}

/**
 * A piece of a reply. `tool-call` comes once the call is whole; its arguments are the text the model wrote, unparsed,
 * because what to do with broken text is the engine's decision.
 */
export type ModelPart =
  | { type: "text"; text: string }
  | { type: "reasoning"; text: string }
  /** Closes a block of reasoning; opaque proof that only the same provider understands. */
  | { type: "reasoning-end"; signature?: string; redacted?: string }
  | { type: "tool-call"; id: string; name: string; argumentsText: string }
  | { type: "finish"; reason: FinishReason; usage?: Usage; providerData?: Record<string, unknown> }
  /** `usage` is what the provider had reported by then: a reply that failed or was aborted was paid for as well. */
  | { type: "error"; error: ModelFailure; usage?: Usage };

export interface Model {
  /** Who serves it: `anthropic`, `openai`, `openai-chat`, `scripted`. */
  readonly provider: string;
  /** What is served. */
  readonly id: string;
  /**
   * Yields parts and ends with exactly one `finish` or `error`. Does not throw; an abort ends as `error` of kind `aborted`.
   * Text parts may be cut anywhere, also inside a surrogate pair: the engine joins them.
   */
  stream(request: ModelRequest, context: ModelContext): AsyncIterable<ModelPart>;
}

/** Milliseconds of silence after which a provider's stream counts as dead. */
export const DEFAULT_STALL_TIMEOUT_MS = 120_000;
