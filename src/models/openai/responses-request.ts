import type { ResponseCreateParamsStreaming, ResponseInputItem, ResponseReasoningItem, ToolChoiceFunction, ToolChoiceOptions } from "openai/resources/responses/responses";
import type { AssistantMessage, Message } from "../../domain/message.ts";
import { wellFormed } from "../../lib/text.ts";
import type { ModelRequest, ToolChoice } from "../model.ts";
import { isBlank, replayable, wellFormedValue } from "../replay.ts";
import { readOutput } from "./output.ts";

/** The API's bound on `prompt_cache_key`. */
const CACHE_KEY_MAX_LENGTH = 64;

/** Our request in the words of the Responses API. */
export function toResponsesRequest(request: ModelRequest, model: string, options: { reasoning?: boolean } = {}): ResponseCreateParamsStreaming {
  const history = replayable(request.messages, { provider: "openai", model });
  const { maxOutputTokens, temperature, topP, reasoningEffort } = request.options ?? {};
  const reasons = options.reasoning ?? isReasoningModel(model);
  return {
    model,
    stream: true,
    store: false,
    input: history.flatMap(toItems),
    ...(request.system && !isBlank(request.system) && { instructions: wellFormed(request.system) }),
    ...(request.tools.length > 0 && {
      tools: request.tools.map((tool) => wellFormedValue({ type: "function" as const, name: tool.name, description: tool.description, parameters: tool.parameters, strict: false })),
      tool_choice: toToolChoice(request.toolChoice ?? "auto"),
    }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    // With nothing stored at the provider, the model remembers why it made a call only if its reasoning comes back.
    ...(reasons && { include: ["reasoning.encrypted_content" as const] }),
    ...(reasons && reasoningEffort && { reasoning: { effort: reasoningEffort, summary: "auto" as const } }),
    ...(!reasons && temperature !== undefined && { temperature }),
    ...(!reasons && topP !== undefined && { top_p: topP }),
    // Only a hint to which cache a request should go, so the end of a long id, where ids differ, is as good as the whole.
    ...(request.sessionId && { prompt_cache_key: wellFormed(request.sessionId.slice(-CACHE_KEY_MAX_LENGTH)) }),
  };
}

/** The generations before GPT-5, and the chat variants after it, do not reason. */
const isReasoningModel = (model: string): boolean => !/(^|\/)(ft:)?(gpt-[34]|chatgpt|davinci|babbage)|-chat(-|$)/.test(model);

function toItems(message: Message): ResponseInputItem[] {
  switch (message.role) {
    case "system":
      return [{ role: "developer", content: message.content }];
    case "user":
      return [{ role: "user", content: message.content }];
    case "assistant":
      return assistantItems(message);
    case "tool":
      return [{ type: "function_call_output", call_id: message.toolCallId, output: message.content }];
  }
}

function assistantItems(message: AssistantMessage): ResponseInputItem[] {
  const calls = message.toolCalls.map((call): ResponseInputItem => ({
    type: "function_call",
    call_id: call.id,
    name: call.name,
    arguments: JSON.stringify(call.arguments),
  }));
  const text = (content: string, phase?: "commentary" | "final_answer"): ResponseInputItem[] =>
    isBlank(content) ? [] : [{ role: "assistant", content, ...(phase && { phase }) }];

  const output = readOutput(message);
  if (!output) return [...text(message.content), ...calls];
  const items = output.flatMap((piece): ResponseInputItem[] => {
    if (piece.type === "message") return text(piece.text, piece.phase);
    return piece.type === "call" ? [calls[piece.index]!] : [piece.item as unknown as ResponseReasoningItem];
  });
  // Reasoning that led to nothing we send again has no place: an item of reasoning must be followed by its item.
  return items.filter((item, index) => item.type !== "reasoning" || items.slice(index + 1).some((later) => later.type !== "reasoning"));
}

function toToolChoice(choice: ToolChoice): ToolChoiceOptions | ToolChoiceFunction {
  return typeof choice === "string" ? choice : { type: "function", name: choice.name };
}
