import type { ErrorWord, Step, UsageScript } from "./script.ts";

export type WireName = "anthropic" | "responses" | "chat";

/** Steps that say something in the vendor's words. */
export type SpokenStep = Extract<Step, { type: "say" | "think" | "redact" | "refuse" | "call" | "calls" | "error" | "end" | "ping" | "frame" }>;

/** One reply on one vendor's wire; it keeps count of what is open. */
export interface WireReply {
  /** The frames before the first step. */
  begin(usage?: UsageScript): string;
  /** The frames of a step. What is open and does not go on is closed first. */
  speak(step: SpokenStep): string;
}

export interface Wire {
  name: WireName;
  path: string;
  reply(body: Record<string, unknown>): WireReply;
  /** The body of an answer that is no stream. */
  errorBody(error: ErrorWord, message: string): Record<string, unknown>;
  /** Text of the last message of the user; a test's key is in it. */
  lastUserText(body: Record<string, unknown>): string;
}

/** One server-sent event. */
export const event = (body: Record<string, unknown>, name?: string): string => `${name ? `event: ${name}\n` : ""}data: ${JSON.stringify(body)}\n\n`;

/** What the server means by an HTTP status, where the script does not say. */
export function errorWordOf(status: number): ErrorWord {
  if (status === 401 || status === 403) return "authentication";
  if (status === 402) return "billing";
  if (status === 404) return "not_found";
  if (status === 429) return "rate_limited";
  if (status === 503 || status === 529) return "overloaded";
  return status >= 500 ? "server_error" : "invalid_request";
}

/** All text in a message's content, which is a string or a list of parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part: { text?: unknown }) => (typeof part?.text === "string" ? part.text : "")).join("\n");
}

/** The newest user message with text in it: on Anthropic's wire results stand in user messages as well. */
export function lastUserText(messages: unknown): string {
  const list = Array.isArray(messages) ? (messages as { role?: unknown; content?: unknown }[]) : [];
  return textOf(list.findLast((message) => message.role === "user" && textOf(message.content).trim() !== "")?.content);
}
