import type { AssistantMessage, Message, ToolMessage } from "../domain/message.ts";
import type { ToolCall } from "../domain/tool-call.ts";
import { isJsonObject } from "../lib/json.ts";
import { wellFormed } from "../lib/text.ts";

/** Who the history is going to be shown to. */
export interface ReplayTarget {
  provider: string;
  model: string;
}

/** What a model is told about a call whose result is not in the history. It claims neither success nor failure. */
export const NO_RESULT = "[No result was recorded for this call. It may or may not have been carried out.]";

/** Providers refuse a result without text, and a model reads nothing out of silence. */
const EMPTY_RESULT = "(no output)";

/** The strictest alphabet and length among the providers (Anthropic's, OpenAI's). */
const CALL_ID_MAX_LENGTH = 64;

/**
 * Makes a history readable for `target`, whoever wrote it and however its turns ended:
 *
 * - Opaque reasoning and provider data stay only where the same model of the same provider wrote them.
 * - Every tool call has exactly one result, directly after its message and in call order. A missing one is made up
 *   (`NO_RESULT`), one without a call is dropped, one that stands too late is moved.
 * - Call ids are unique over the whole history and in an alphabet that every provider takes; results follow their call.
 * - Tool names are such as every provider takes; those that the model made up need not have been.
 * - Messages that say nothing are gone: providers refuse blank text, and one would poison the session for good.
 * - No text holds half of a surrogate pair.
 *
 * Pure, and the same prefix of messages always gives the same prefix of the result, so that prompt caches keep matching.
 */
export function replayable(messages: readonly Message[], target: ReplayTarget): Message[] {
  const results = pairResults(messages);
  const taken = new Set<string>();
  const replayed: Message[] = [];

  for (const message of messages) {
    if (message.role === "tool") continue; // Stands after its call.
    if (message.role !== "assistant") {
      if (isBlank(message.content)) continue;
      replayed.push({ ...message, content: wellFormed(message.content) });
      continue;
    }
    const toolCalls = message.toolCalls.map((call) => ({
      ...call,
      id: uniqueId(call.id, taken),
      name: providerName(call.name),
      arguments: wellFormedValue(call.arguments),
    }));
    // Reasoning alone is no message: no provider takes a reply that ends with it.
    if (isBlank(message.content) && toolCalls.length === 0) continue;
    replayed.push({ ...withOwnReasoning(message, target), content: isBlank(message.content) ? "" : wellFormed(message.content), toolCalls });
    message.toolCalls.forEach((call, index) => {
      replayed.push(resultMessage(results.get(call), message, toolCalls[index]!));
    });
  }
  return replayed;
}

/** Models make tools up, also by names that providers refuse to read again: one such name would poison every later request. */
const providerName = (name: string): string => name.toWellFormed().replace(/[^A-Za-z0-9_-]/g, "_").slice(0, CALL_ID_MAX_LENGTH) || "unknown_tool";

/**
 * Which result answers which call. Servers use ids again, in one reply and over the turns, so a result belongs to the
 * newest call before it with that id which has none yet; of two calls in one reply, to the first.
 */
function pairResults(messages: readonly Message[]): Map<ToolCall, ToolMessage> {
  const results = new Map<ToolCall, ToolMessage>();
  const open = new Map<string, ToolCall[][]>();
  for (const message of messages) {
    if (message.role === "assistant") {
      for (const [id, calls] of Map.groupBy(message.toolCalls, (call) => call.id)) {
        open.set(id, [...(open.get(id) ?? []), calls]);
      }
    } else if (message.role === "tool") {
      const batch = open.get(message.toolCallId)?.findLast((calls) => calls.some((call) => !results.has(call)));
      const call = batch?.find((candidate) => !results.has(candidate));
      if (call) results.set(call, message);
    }
  }
  return results;
}

function resultMessage(result: ToolMessage | undefined, asked: AssistantMessage, call: ToolCall): ToolMessage {
  if (!result) {
    return { id: `${asked.id}:${call.id}`, createdAt: asked.createdAt, role: "tool", toolCallId: call.id, toolName: call.name, content: NO_RESULT, isError: true };
  }
  return { ...result, toolCallId: call.id, toolName: call.name, content: isBlank(result.content) ? EMPTY_RESULT : wellFormed(result.content) };
}

function withOwnReasoning(message: AssistantMessage, target: ReplayTarget): AssistantMessage {
  const { reasoning, providerData, ...rest } = message;
  if (message.provider !== target.provider || message.model !== target.model) return rest;
  return {
    ...rest,
    ...(reasoning && { reasoning: reasoning.map((block) => ({ ...block, text: wellFormed(block.text) })) }),
    ...(providerData && { providerData: wellFormedValue(providerData) }),
  };
}

function uniqueId(wanted: string, taken: Set<string>): string {
  const clean = wanted.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, CALL_ID_MAX_LENGTH) || "call";
  let id = clean;
  for (let copy = 2; taken.has(id); copy += 1) {
    const suffix = `_${copy}`;
    id = clean.slice(0, CALL_ID_MAX_LENGTH - suffix.length) + suffix;
  }
  taken.add(id);
  return id;
}

export const isBlank = (text: string): boolean => text.trim() === "";

/** The same value with every text in it well-formed, keys included. */
export function wellFormedValue<T>(value: T): T {
  if (typeof value === "string") return wellFormed(value) as T;
  if (Array.isArray(value)) return value.map(wellFormedValue) as T;
  if (isJsonObject(value)) return Object.fromEntries(Object.entries(value).map(([key, inner]) => [wellFormed(key), wellFormedValue(inner)])) as T;
  return value;
}
