import type { FinishReason } from "../../domain/message.ts";
import type { Usage } from "../../domain/usage.ts";
import { isJsonObject } from "../../lib/json.ts";
import type { JsonObject } from "../../lib/json.ts";
import { listOf, numberOf, objectOf, stringOf } from "../fields.ts";
import type { Frame } from "../frames.ts";
import type { ModelPart } from "../model.ts";
import type { ReplyReader } from "../stream-reply.ts";
import { collectCalls } from "./chat-calls.ts";
import { failureOfFrame } from "./errors.ts";
import { REASONING_FIELDS } from "./reasoning-field.ts";
import type { ReasoningField } from "./reasoning-field.ts";

/**
 * Reads the chunks of a Chat Completions stream. The reply is whole with a finish reason: many servers leave out `[DONE]`
 * and the usage that may follow, so a stream that ends after it has ended well, and one that ends before it was
 * interrupted, whatever else was sent.
 */
export function readChatStream(name: string): ReplyReader {
  const calls = collectCalls();
  let usage: Usage | undefined;
  let completionId = "";
  let reason = "";
  let refused = false;
  let thinking = false;
  let reasoningField: ReasoningField | undefined;

  function closeReasoning(): ModelPart[] {
    if (!thinking) return [];
    thinking = false;
    return [{ type: "reasoning-end" }];
  }

  function reasoning(delta: JsonObject): ModelPart[] {
    const field = REASONING_FIELDS.find((candidate) => stringOf(delta[candidate]) !== "");
    if (!field) return [];
    thinking = true;
    reasoningField = field;
    return [{ type: "reasoning", text: stringOf(delta[field]) }];
  }

  function text(written: string): ModelPart[] {
    return written === "" ? [] : [...closeReasoning(), { type: "text", text: written }];
  }

  function readDelta(delta: JsonObject): ModelPart[] {
    const fragments = listOf(delta.tool_calls);
    for (const fragment of fragments) calls.add(fragment);
    if (stringOf(delta.refusal) !== "") refused = true;
    return [...reasoning(delta), ...text(stringOf(delta.content)), ...text(stringOf(delta.refusal)), ...(fragments.length > 0 ? closeReasoning() : [])];
  }

  function end(): ModelPart[] {
    if (reason === "") return [];
    const providerData = { ...(completionId !== "" && { completionId }), ...(reasoningField && { reasoningField }) };
    return [
      ...closeReasoning(),
      ...calls.calls(),
      { type: "finish", reason: toFinishReason(reason, refused, !calls.isEmpty()), ...(usage && { usage }), ...(Object.keys(providerData).length > 0 && { providerData }) },
    ];
  }

  return {
    read(frame: Frame) {
      // Ends a whole reply; anywhere else it is junk.
      if (frame.type === "done") return end();
      const { body } = frame;
      if (isJsonObject(body.error)) return [{ type: "error", error: failureOfFrame(name, body.error) }];
      if (frame.event === "error") return [{ type: "error", error: failureOfFrame(name, body) }];
      completionId ||= stringOf(body.id);
      if (isJsonObject(body.usage)) usage = toUsage(body.usage);
      const choice = objectOf(listOf(body.choices).find((candidate) => (numberOf(objectOf(candidate).index) ?? 0) === 0));
      reason = stringOf(choice.finish_reason) || reason;
      const parts = readDelta(objectOf(choice.delta));
      // OpenRouter reports a failure in the middle of a reply so.
      if (reason === "error") parts.push({ type: "error", error: failureOfFrame(name, objectOf(choice.error)) });
      return parts;
    },
    end,
    usage: () => usage,
  };
}

function toUsage(reported: JsonObject): Usage {
  const input = objectOf(reported.prompt_tokens_details);
  return {
    inputTokens: numberOf(reported.prompt_tokens) ?? 0,
    outputTokens: numberOf(reported.completion_tokens) ?? 0,
    cacheReadTokens: numberOf(input.cached_tokens) ?? 0,
    cacheWriteTokens: numberOf(input.cache_write_tokens) ?? 0,
    reasoningTokens: numberOf(objectOf(reported.completion_tokens_details).reasoning_tokens) ?? 0,
  };
}

function toFinishReason(reason: string, refused: boolean, hasCalls: boolean): FinishReason {
  switch (reason) {
    case "stop":
      if (refused) return "refusal";
      // Some servers say "stop" after calls as well.
      return hasCalls ? "tool_calls" : "stop";
    case "tool_calls":
    case "function_call":
      return "tool_calls";
    case "length":
    case "content_filter":
    case "refusal":
      return reason;
    default:
      return `other:${reason}`;
  }
}
