import type { ContentBlockParam, MessageCreateParamsStreaming, MessageParam, TextBlockParam, Tool, ToolChoice } from "@anthropic-ai/sdk/resources/messages";
import type { AssistantMessage, Message } from "../../domain/message.ts";
import { wellFormed } from "../../lib/text.ts";
import type { GenerationOptions, ModelRequest } from "../model.ts";
import { isBlank, replayable, wellFormedValue } from "../replay.ts";
import { readLayout } from "./layout.ts";

/** Every current model can write this much. What is not written is not paid for. */
const DEFAULT_MAX_OUTPUT_TOKENS = 32_000;

/** Models before 4.6 think by a budget of tokens instead of by effort. */
const THINKING_BUDGET = { minimal: 1024, low: 4096, medium: 8192, high: 16_384 } as const;

const CACHE = { type: "ephemeral" } as const;

export interface MessagesRequestOptions {
  maxOutputTokens?: number;
  promptCaching?: boolean;
}

/** The SDK's type no longer knows the sampling parameters, because the newest models refuse them. */
type MessagesRequest = MessageCreateParamsStreaming & { temperature?: number; top_p?: number };

/** Our request in the words of the Messages API. */
export function toMessagesRequest(request: ModelRequest, model: string, options: MessagesRequestOptions = {}): MessagesRequest {
  const history = replayable(request.messages, { provider: "anthropic", model });
  const system = systemBlocks(request.system, history);
  const messages = toMessages(history);
  const tools = toTools(request, history);
  const body: MessagesRequest = {
    model,
    stream: true,
    max_tokens: request.options?.maxOutputTokens ?? options.maxOutputTokens ?? DEFAULT_MAX_OUTPUT_TOKENS,
    messages,
    ...(system.length > 0 && { system }),
    ...(tools.length > 0 && { tools, tool_choice: toToolChoice(request) }),
    ...(request.options?.stop?.length && { stop_sequences: request.options.stop }),
  };
  applyOptions(body, model, request.options ?? {});
  if (options.promptCaching ?? true) markForCache(body);
  return body;
}

function systemBlocks(system: string | undefined, history: readonly Message[]): TextBlockParam[] {
  const texts = [system ?? "", ...history.filter((message) => message.role === "system").map((message) => message.content)];
  return texts.filter((text) => !isBlank(text)).map((text) => ({ type: "text", text: wellFormed(text) }));
}

/** Roles must alternate, a user's message comes first and last, and the results of a batch share one message. */
function toMessages(history: readonly Message[]): MessageParam[] {
  const messages: { role: "user" | "assistant"; content: ContentBlockParam[] }[] = [];
  const add = (role: "user" | "assistant", blocks: ContentBlockParam[]) => {
    const last = messages.at(-1);
    if (last?.role === role) last.content.push(...blocks);
    else messages.push({ role, content: blocks });
  };

  for (const message of history) {
    if (message.role === "user") add("user", [{ type: "text", text: message.content }]);
    else if (message.role === "assistant") add("assistant", assistantBlocks(message));
    else if (message.role === "tool") {
      add("user", [{ type: "tool_result", tool_use_id: message.toolCallId, content: message.content, ...(message.isError && { is_error: true }) }]);
    }
  }

  // A history that was cut, or one that is continued without new input. The newest models do not take a reply of their
  // own as the last message.
  if (messages[0]?.role === "assistant") messages.unshift({ role: "user", content: [{ type: "text", text: "[The conversation began earlier.]" }] });
  if (messages.at(-1)?.role === "assistant") add("user", [{ type: "text", text: "Continue." }]);
  return messages;
}

function assistantBlocks(message: AssistantMessage): ContentBlockParam[] {
  const reasoning = (message.reasoning ?? []).map((block): ContentBlockParam | undefined => {
    if (block.redacted !== undefined) return { type: "redacted_thinking", data: block.redacted };
    // Without its signature a block proves nothing and is refused.
    if (block.signature !== undefined) return { type: "thinking", thinking: block.text, signature: block.signature };
    return undefined;
  });
  const calls = message.toolCalls.map((call): ContentBlockParam => ({ type: "tool_use", id: call.id, name: call.name, input: call.arguments }));
  const text = (written: string): ContentBlockParam[] => (isBlank(written) ? [] : [{ type: "text", text: written }]);

  const layout = readLayout(message);
  const blocks = layout
    ? layout.flatMap((piece) => (piece.type === "text" ? text(piece.text) : [piece.type === "reasoning" ? reasoning[piece.index] : calls[piece.index]]))
    : [...reasoning, ...text(message.content), ...calls];
  const written = blocks.filter((block) => block !== undefined);
  // A reply that was cut while it thought on: no message may end with reasoning.
  return written.slice(0, written.findLastIndex((block) => block.type === "text" || block.type === "tool_use") + 1);
}

function toTools(request: ModelRequest, history: readonly Message[]): Tool[] {
  if (request.tools.length > 0) {
    return request.tools.map((tool) =>
      wellFormedValue({ name: tool.name, description: tool.description, input_schema: { ...tool.parameters, type: "object" as const } }),
    );
  }
  // A history with calls is refused where no tool is declared, as when an agent lost its tools between two turns.
  const named = new Set(history.flatMap((message) => (message.role === "assistant" ? message.toolCalls.map((call) => call.name) : [])));
  return [...named].map((name) => ({ name, description: "No longer available.", input_schema: { type: "object" } }));
}

function toToolChoice({ toolChoice = "auto", tools }: ModelRequest): ToolChoice {
  if (tools.length === 0 || toolChoice === "none") return { type: "none" };
  if (toolChoice === "auto") return { type: "auto" };
  return toolChoice === "required" ? { type: "any" } : { type: "tool", name: toolChoice.name };
}

/** Reasoning and sampling: what a model takes depends on its generation, and it refuses what it does not take. */
function applyOptions(body: MessagesRequest, model: string, options: GenerationOptions): void {
  const generation = generationOf(model);
  const effort = options.reasoningEffort;
  if (effort && generation >= 406) {
    // The text of the reasoning is left out of the stream unless asked for.
    body.thinking = { type: "adaptive", display: "summarized" };
    body.output_config = { effort: effort === "minimal" ? "low" : effort };
  } else if (effort && body.tool_choice?.type !== "any" && body.tool_choice?.type !== "tool") {
    // A budget does not go together with a forced tool, and must stay below the bound of the whole reply.
    const budget = Math.min(THINKING_BUDGET[effort], body.max_tokens - 1);
    if (budget >= THINKING_BUDGET.minimal) body.thinking = { type: "enabled", budget_tokens: budget };
  }
  if (generation < 407 && !body.thinking) {
    if (options.temperature !== undefined) body.temperature = options.temperature;
    if (options.topP !== undefined) body.top_p = options.topP;
  }
}

/** `claude-sonnet-4-5-20250929` is 405, `claude-3-7-sonnet-latest` is 307. A name without a number is of today. */
function generationOf(model: string): number {
  const [, major, minor] = /-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/.exec(model) ?? [];
  return major === undefined ? Number.POSITIVE_INFINITY : Number(major) * 100 + Number(minor ?? 0);
}

/**
 * Marks what the next request will send again. The mark on the system prompt (or the last tool) covers both; those on the
 * last two user messages are where this request ends and where the one before it ended.
 */
function markForCache(body: MessagesRequest): void {
  const prefix = Array.isArray(body.system) ? body.system.at(-1) : (body.tools?.at(-1) as Tool | undefined);
  if (prefix) prefix.cache_control = CACHE;
  for (const message of body.messages.filter((candidate) => candidate.role === "user").slice(-2)) {
    const last = Array.isArray(message.content) ? message.content.at(-1) : undefined;
    if (last?.type === "text" || last?.type === "tool_result") last.cache_control = CACHE;
  }
}
