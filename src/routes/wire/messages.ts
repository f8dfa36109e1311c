import type { Message } from "../../domain/message.ts";
import type { RunRecord } from "../../domain/run.ts";
import type { Effect } from "../../domain/tool-call.ts";
import type { WireMessage } from "../schemas/run.ts";
import { toSeconds, usageToWire } from "./words.ts";

/** A run's messages, behind those of earlier runs that were kept with it. */
export const runMessagesToWire = ({ history = [], messages, effects }: RunRecord): WireMessage[] => [
  ...messagesToWire(history, []).map((message) => ({ ...message, from_history: true })),
  ...messagesToWire(messages, effects),
];

/** `effects` say with which arguments each tool really ran. */
export function messagesToWire(messages: readonly Message[], effects: readonly Effect[]): WireMessage[] {
  const calls = new Map(effects.map((effect) => [effect.callId, effect]));
  return messages.map((message) => ({
    id: message.id,
    role: message.role,
    content: message.content,
    from_history: false,
    stop_after_tool_call: message.role === "tool" ? (calls.get(message.toolCallId)?.stopAfter ?? false) : false,
    ...ownFields(message, calls),
    created_at: toSeconds(message.createdAt),
  }));
}

function ownFields(message: Message, calls: ReadonlyMap<string, Effect>): Partial<WireMessage> {
  if (message.role === "tool") {
    const effect = calls.get(message.toolCallId);
    return {
      tool_call_id: message.toolCallId,
      tool_name: message.toolName,
      ...(effect === undefined ? {} : { tool_args: effect.arguments }),
      tool_call_error: message.isError,
    };
  }
  if (message.role !== "assistant") return {};
  const reasoning = message.reasoning?.map((block) => block.text).join("") ?? "";
  return {
    ...(message.toolCalls.length === 0 ? {} : { tool_calls: message.toolCalls.map(toolCallToWire) }),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(message.usage === undefined ? {} : { metrics: usageToWire(message.usage) }),
  };
}

const toolCallToWire = (call: { id: string; name: string; arguments: Record<string, unknown> }) => ({
  id: call.id,
  type: "function" as const,
  function: { name: call.name, arguments: JSON.stringify(call.arguments) },
});
