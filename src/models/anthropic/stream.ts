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
import { isUsualOrder } from "./layout.ts";
import type { Layout } from "./layout.ts";

type Block =
  | { type: "text" }
  | { type: "reasoning"; signature: string }
  | { type: "call"; id: string; name: string; start: JsonObject; written: string }
  /** A kind we did not ask for: passed over. */
  | { type: "other" };

/**
 * Reads the frames of a Messages stream. The reply is whole with `message_stop`; a stream that ends before it was
 * interrupted. Frames and blocks of unknown kinds are passed over.
 */
export function readMessagesStream(): ReplyReader {
  const blocks = new Map<number, Block>();
  const layout: Layout = [];
  let reported: JsonObject | undefined;
  let messageId = "";
  let stop: { reason: string; details: JsonObject } | undefined;
  let calls = 0;

  function text(written: string): ModelPart[] {
    if (written === "") return [];
    const last = layout.at(-1);
    if (typeof last === "number") layout[layout.length - 1] = last + written.length;
    else layout.push(written.length);
    return [{ type: "text", text: written }];
  }

  function open(index: number, start: JsonObject): ModelPart[] {
    switch (start.type) {
      case "text":
        blocks.set(index, { type: "text" });
        return text(stringOf(start.text));
      case "thinking":
        layout.push("reasoning");
        blocks.set(index, { type: "reasoning", signature: stringOf(start.signature) });
        return reasoning(stringOf(start.thinking));
      case "redacted_thinking":
        layout.push("reasoning");
        blocks.set(index, { type: "other" });
        return [{ type: "reasoning-end", redacted: stringOf(start.data) }];
      case "tool_use":
        layout.push("call");
        blocks.set(index, { type: "call", id: stringOf(start.id), name: stringOf(start.name), start: objectOf(start.input), written: "" });
        return [];
      default:
        blocks.set(index, { type: "other" });
        return [];
    }
  }

  function grow(block: Block | undefined, delta: JsonObject): ModelPart[] {
    switch (delta.type) {
      // Also where no such block was opened: the delta says what it is, and text is not dropped without a word.
      case "text_delta":
        return block?.type === "other" ? [] : text(stringOf(delta.text));
      case "thinking_delta":
        return block?.type === "reasoning" ? reasoning(stringOf(delta.thinking)) : [];
      case "signature_delta":
        if (block?.type === "reasoning") block.signature += stringOf(delta.signature);
        return [];
      case "input_json_delta":
        if (block?.type === "call") block.written += stringOf(delta.partial_json);
        return [];
      default:
        return [];
    }
  }

  function close(index: number): ModelPart[] {
    const block = blocks.get(index);
    blocks.delete(index);
    if (block?.type === "reasoning") return [{ type: "reasoning-end", ...(block.signature !== "" && { signature: block.signature }) }];
    if (block?.type !== "call") return [];
    calls += 1;
    // `input` in the start frame is a placeholder that the fragments replace; a server that sends no fragments may have
    // put the whole input there.
    const written = block.written.trim() === "" && Object.keys(block.start).length > 0 ? JSON.stringify(block.start) : block.written;
    return [{ type: "tool-call", id: block.id, name: block.name, argumentsText: argumentText(written) }];
  }

  function finish(): ModelPart[] {
    // A block that the token limit cut may never be closed.
    const rest = [...blocks.keys()].flatMap(close);
    const usage = toUsage(reported);
    const providerData = {
      ...(messageId !== "" && { messageId }),
      ...(stop && Object.keys(stop.details).length > 0 && { stopDetails: stop.details }),
      ...(!isUsualOrder(layout) && { layout }),
    };
    return [...rest, { type: "finish", reason: toFinishReason(stop?.reason ?? "", calls > 0), ...(usage && { usage }), ...(Object.keys(providerData).length > 0 && { providerData }) }];
  }

  return {
    read(frame: Frame) {
      if (frame.type === "done") return [];
      const { body } = frame;
      const type = stringOf(body.type) || frame.event;
      const index = numberOf(body.index) ?? -1;
      switch (type) {
        case "error":
          return [{ type: "error", error: failureOfFrame(objectOf(body.error)) }];
        case "message_start": {
          const message = objectOf(body.message);
          messageId = stringOf(message.id);
          report(message.usage);
          return [];
        }
        case "content_block_start":
          return open(index, objectOf(body.content_block));
        case "content_block_delta":
          return grow(blocks.get(index), objectOf(body.delta));
        case "content_block_stop":
          return close(index);
        case "message_delta": {
          const delta = objectOf(body.delta);
          if (stringOf(delta.stop_reason) !== "") stop = { reason: stringOf(delta.stop_reason), details: objectOf(delta.stop_details) };
          report(body.usage);
          return [];
        }
        case "message_stop":
          return finish();
        default:
          return [];
      }
    },
    end: () => [],
    usage: () => toUsage(reported),
  };

  /** Each report is a running total, so later figures replace earlier ones; `null` is no figure. */
  function report(usage: unknown): void {
    if (!isJsonObject(usage)) return;
    reported = { ...reported, ...Object.fromEntries(Object.entries(usage).filter(([, value]) => value !== null)) };
  }
}

const reasoning = (written: string): ModelPart[] => (written === "" ? [] : [{ type: "reasoning", text: written }]);

function toUsage(reported: JsonObject | undefined): Usage | undefined {
  if (!reported) return undefined;
  const cacheReadTokens = numberOf(reported.cache_read_input_tokens) ?? 0;
  const cacheWriteTokens = numberOf(reported.cache_creation_input_tokens) ?? 0;
  return {
    // `input_tokens` counts only what no cache had.
    inputTokens: (numberOf(reported.input_tokens) ?? 0) + cacheReadTokens + cacheWriteTokens,
    outputTokens: numberOf(reported.output_tokens) ?? 0,
    cacheReadTokens,
    cacheWriteTokens,
    reasoningTokens: numberOf(objectOf(reported.output_tokens_details).thinking_tokens) ?? 0,
  };
}

function toFinishReason(reason: string, hasCalls: boolean): FinishReason {
  switch (reason) {
    case "end_turn":
    case "stop_sequence":
      return "stop";
    case "tool_use":
      return "tool_calls";
    case "max_tokens":
    // The window was full before the limit was reached: cut off all the same, and what was being written is not whole.
    case "model_context_window_exceeded":
      return "length";
    case "refusal":
      return "refusal";
    case "":
      return hasCalls ? "tool_calls" : "stop";
    default:
      return `other:${reason}`;
  }
}
