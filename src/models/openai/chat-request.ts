import type { ChatCompletionCreateParamsStreaming, ChatCompletionMessageParam, ChatCompletionToolChoiceOption } from "openai/resources/chat/completions";
import type { AssistantMessage, Message } from "../../domain/message.ts";
import { wellFormed } from "../../lib/text.ts";
import type { ModelRequest, ToolChoice } from "../model.ts";
import { isBlank, replayable, wellFormedValue } from "../replay.ts";
import { isReasoningField } from "./reasoning-field.ts";

/** Our request in the words of Chat Completions, as plainly as it goes: every compatible server knows another part. */
export function toChatRequest(request: ModelRequest, model: string, { ownServer }: { ownServer: boolean }): ChatCompletionCreateParamsStreaming {
  const history = replayable(request.messages, { provider: "openai-chat", model });
  const { maxOutputTokens, temperature, topP, stop, reasoningEffort } = request.options ?? {};
  return {
    model,
    stream: true,
    stream_options: { include_usage: true },
    messages: toMessages(request.system, history),
    ...(request.tools.length > 0 && {
      tools: request.tools.map((tool) => wellFormedValue({ type: "function" as const, function: { name: tool.name, description: tool.description, parameters: tool.parameters } })),
      tool_choice: toToolChoice(request.toolChoice ?? "auto"),
    }),
    // OpenAI's newer models refuse the old name, other servers know only that one.
    ...(maxOutputTokens !== undefined && { [ownServer ? "max_completion_tokens" : "max_tokens"]: maxOutputTokens }),
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { top_p: topP }),
    ...(stop?.length && { stop }),
    ...(reasoningEffort && { reasoning_effort: reasoningEffort }),
    // Some compatible servers refuse fields that they do not know.
    ...(ownServer && request.sessionId && { prompt_cache_key: wellFormed(request.sessionId.slice(-64)) }),
  };
}

/** Many chat templates take a system message only in front, and only one. */
function toMessages(system: string | undefined, history: readonly Message[]): ChatCompletionMessageParam[] {
  const texts = [wellFormed(system ?? ""), ...history.filter((message) => message.role === "system").map((message) => message.content)];
  const front = texts.filter((text) => !isBlank(text)).join("\n\n");
  const currentTurn = history.findLastIndex((message) => message.role === "user");
  return [
    ...(front === "" ? [] : [{ role: "system" as const, content: front }]),
    ...history.flatMap((message, index): ChatCompletionMessageParam[] => {
      switch (message.role) {
        case "system":
          return [];
        case "user":
          return [{ role: "user", content: message.content }];
        case "assistant":
          return [toAssistant(message, index > currentTurn)];
        case "tool":
          return [{ role: "tool", tool_call_id: message.toolCallId, content: message.content }];
      }
    }),
  ];
}

function toAssistant(message: AssistantMessage, inCurrentTurn: boolean): ChatCompletionMessageParam {
  const calls = message.toolCalls.map((call) => ({ id: call.id, type: "function" as const, function: { name: call.name, arguments: JSON.stringify(call.arguments) } }));
  return {
    role: "assistant",
    content: message.content === "" ? null : message.content,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(calls.length > 0 && inCurrentTurn && reasoningOf(message)),
  };
}

/**
 * Models that think between calls lose the thread, or refuse the request, when their reasoning does not come back with the
 * call that it led to. It goes back under the name it came by, and only within the turn: later turns do without it.
 */
function reasoningOf(message: AssistantMessage): Record<string, string> {
  const field = message.providerData?.reasoningField;
  const text = (message.reasoning ?? []).map((block) => block.text).join("");
  return isReasoningField(field) && text !== "" ? { [field]: text } : {};
}

function toToolChoice(choice: ToolChoice): ChatCompletionToolChoiceOption {
  return typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } };
}
