import { z } from "zod";
import { ToolCall } from "./tool-call.ts";
import { Usage } from "./usage.ts";

/** Why the model stopped. A reason nobody knows is passed through as `other:<word>`. */
export type FinishReason = "stop" | "tool_calls" | "length" | "refusal" | "content_filter" | `other:${string}`;

const base = z.object({ id: z.string(), createdAt: z.number() });

export const SystemMessage = base.extend({ role: z.literal("system"), content: z.string() });
export const UserMessage = base.extend({ role: z.literal("user"), content: z.string() });

export const AssistantMessage = base.extend({
  role: z.literal("assistant"),
  content: z.string(),
  /** What the model thought aloud. `signature` and `redacted` are opaque and only go back to the provider that wrote them. */
  reasoning: z.array(z.object({ text: z.string(), signature: z.string().optional(), redacted: z.string().optional() })).optional(),
  toolCalls: z.array(ToolCall),
  /** Who wrote it: replaying to another model drops what only this one understands. */
  provider: z.string(),
  model: z.string(),
  finishReason: z.string() as unknown as z.ZodType<FinishReason>,
  usage: Usage.optional(),
  /** Milliseconds from the request to its first part. */
  timeToFirstTokenMs: z.number().optional(),
  /** Items only the provider that wrote the message understands (OpenAI's reasoning items, response id). */
  providerData: z.record(z.string(), z.unknown()).optional(),
  /** The reply was cut off by a cancel or a failure; it is kept because someone saw it. */
  partial: z.literal(true).optional(),
});

export const ToolMessage = base.extend({
  role: z.literal("tool"),
  toolCallId: z.string(),
  toolName: z.string(),
  content: z.string(),
  isError: z.boolean(),
});

/** One message of a transcript, in no provider's words. */
export const Message = z.discriminatedUnion("role", [SystemMessage, UserMessage, AssistantMessage, ToolMessage]);
export type Message = z.infer<typeof Message>;
export type SystemMessage = z.infer<typeof SystemMessage>;
export type UserMessage = z.infer<typeof UserMessage>;
export type AssistantMessage = z.infer<typeof AssistantMessage>;
export type ToolMessage = z.infer<typeof ToolMessage>;
