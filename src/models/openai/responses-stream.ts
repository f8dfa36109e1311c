import type { FinishReason } from "../../domain/message.ts";
import type { Usage } from "../../domain/usage.ts";
import { isJsonObject } from "../../lib/json.ts";
import type { JsonObject } from "../../lib/json.ts";
import { argumentText } from "../argument-text.ts";
import { numberOf, objectOf, stringOf } from "../fields.ts";
import type { Frame } from "../frames.ts";
import type { ModelPart } from "../model.ts";
import type { ReplyReader } from "../stream-reply.ts";
import { failureOfFrame } from "./errors.ts";
import { isWorthKeeping } from "./output.ts";
import type { OutputItem } from "./output.ts";

interface Call {
  /** The item's own id and place, by which fragments name it; `callId` is what the result will name. */
  itemId: string;
  index: number | undefined;
  callId: string;
  name: string;
  written: string;
  told: boolean;
}

/**
 * Reads the frames of a Responses stream. The reply is whole with `response.completed` or `response.incomplete`; a stream
 * that ends before was interrupted. Frames and items of unknown kinds are passed over.
 */
export function readResponsesStream(name: string): ReplyReader {
  const calls: Call[] = [];
  const output: OutputItem[] = [];
  let usage: Usage | undefined;
  let refused = false;
  let thinking = false;

  function text(written: string): ModelPart[] {
    if (written === "") return [];
    let item = output.findLast((candidate) => candidate.type === "message");
    if (!item) output.push((item = { type: "message", length: 0 }));
    item.length += written.length;
    return [{ type: "text", text: written }];
  }

  function reasoning(written: string): ModelPart[] {
    if (written === "") return [];
    thinking = true;
    return [{ type: "reasoning", text: written }];
  }

  /** Whether a frame speaks of this call. Servers leave out the item's id or its place; the id is the better name. */
  function isOf(call: Call, frame: JsonObject, itemId: string): boolean {
    if (itemId !== "" && call.itemId !== "") return call.itemId === itemId;
    return call.index === numberOf(frame.output_index);
  }

  const openCall = (frame: JsonObject, itemId: string) => calls.findLast((call) => !call.told && isOf(call, frame, itemId));

  function openItem(frame: JsonObject): Call | undefined {
    const item = objectOf(frame.item);
    if (item.type === "message") output.push({ type: "message", length: 0, ...(stringOf(item.phase) !== "" && { phase: stringOf(item.phase) }) });
    if (item.type !== "function_call") return undefined;
    const call: Call = {
      itemId: stringOf(item.id),
      index: numberOf(frame.output_index),
      callId: stringOf(item.call_id),
      name: stringOf(item.name),
      written: stringOf(item.arguments),
      told: false,
    };
    calls.push(call);
    output.push({ type: "call" });
    return call;
  }

  function closeItem(frame: JsonObject): ModelPart[] {
    const item = objectOf(frame.item);
    if (item.type === "reasoning") {
      const wasThinking = thinking;
      thinking = false;
      const { status: _status, ...kept } = item;
      // Nothing is stored at the provider, so reasoning that is not in the item itself cannot be named again.
      if (stringOf(item.encrypted_content) !== "") output.push({ type: "reasoning", item: kept });
      return wasThinking ? [{ type: "reasoning-end" }] : [];
    }
    if (item.type === "message") {
      const phase = stringOf(item.phase);
      const opened = output.findLast((candidate) => candidate.type === "message");
      if (opened && phase !== "") opened.phase = phase;
      return [];
    }
    if (item.type !== "function_call") return [];
    const itemId = stringOf(item.id);
    // An item that is closed twice was told the first time.
    if (calls.some((call) => call.told && isOf(call, frame, itemId))) return [];
    const call = openCall(frame, itemId) ?? openItem(frame);
    if (!call) return [];
    call.callId ||= stringOf(item.call_id);
    call.name ||= stringOf(item.name);
    // The closing frame has the whole text; the fragments are only as good as the connection.
    return tell(call, stringOf(item.arguments) || call.written);
  }

  function tell(call: Call, written: string): ModelPart[] {
    call.told = true;
    return [{ type: "tool-call", id: call.callId || call.itemId, name: call.name, argumentsText: argumentText(written) }];
  }

  function finish(response: JsonObject): ModelPart[] {
    // A call that the token limit cut may never be closed.
    const rest = calls.filter((call) => !call.told).flatMap((call) => tell(call, call.written));
    const responseId = stringOf(response.id);
    const providerData = { ...(responseId !== "" && { responseId }), ...(isWorthKeeping(output) && { output }) };
    return [
      ...(thinking ? [{ type: "reasoning-end" } as const] : []),
      ...rest,
      { type: "finish", reason: toFinishReason(response, refused, calls.length > 0), ...(usage && { usage }), ...(Object.keys(providerData).length > 0 && { providerData }) },
    ];
  }

  return {
    read(frame: Frame) {
      if (frame.type === "done") return [];
      const { body } = frame;
      const type = stringOf(body.type) || frame.event;
      const response = objectOf(body.response);
      if (isJsonObject(response.usage)) usage = toUsage(response.usage);
      switch (type) {
        case "error":
          return [{ type: "error", error: failureOfFrame(name, isJsonObject(body.error) ? body.error : { ...body, type: "" }) }];
        case "response.failed":
          return [{ type: "error", error: failureOfFrame(name, objectOf(response.error)) }];
        case "response.output_text.delta":
          return text(stringOf(body.delta));
        case "response.refusal.delta":
          refused = true;
          return text(stringOf(body.delta));
        case "response.refusal.done":
          refused = true;
          return [];
        case "response.reasoning_summary_part.added":
          return thinking ? reasoning("\n\n") : [];
        case "response.reasoning_summary_text.delta":
        case "response.reasoning_text.delta":
          return reasoning(stringOf(body.delta));
        case "response.output_item.added":
          openItem(body);
          return [];
        case "response.function_call_arguments.delta": {
          const call = openCall(body, stringOf(body.item_id));
          if (call) call.written += stringOf(body.delta);
          return [];
        }
        case "response.output_item.done":
          return closeItem(body);
        case "response.completed":
        case "response.incomplete":
          return finish(response);
        default:
          return isJsonObject(body.error) ? [{ type: "error", error: failureOfFrame(name, body.error) }] : [];
      }
    },
    end: () => [],
    usage: () => usage,
  };
}

function toUsage(reported: JsonObject): Usage {
  const input = objectOf(reported.input_tokens_details);
  return {
    inputTokens: numberOf(reported.input_tokens) ?? 0,
    outputTokens: numberOf(reported.output_tokens) ?? 0,
    cacheReadTokens: numberOf(input.cached_tokens) ?? 0,
    cacheWriteTokens: numberOf(input.cache_write_tokens) ?? 0,
    reasoningTokens: numberOf(objectOf(reported.output_tokens_details).reasoning_tokens) ?? 0,
  };
}

function toFinishReason(response: JsonObject, refused: boolean, hasCalls: boolean): FinishReason {
  const incomplete = stringOf(objectOf(response.incomplete_details).reason);
  if (incomplete === "max_output_tokens") return "length";
  if (incomplete === "content_filter") return "content_filter";
  if (incomplete !== "") return `other:${incomplete}`;
  if (refused) return "refusal";
  return hasCalls ? "tool_calls" : "stop";
}
