import type { WireName } from "./wire.ts";

// What every provider refuses in a history, checked on the request bodies themselves. A body passes when the list of
// problems is empty.

type Json = Record<string, unknown>;

/** One message of any wire, reduced to what the rules are about. */
type Item =
  | { type: "text"; role: string; text: string }
  | { type: "call"; id: string; arguments: unknown }
  | { type: "result"; id: string; text: string }
  | { type: "reasoning" };

const CALL_ID = /^[a-zA-Z0-9_-]{1,64}$/;

/** Everything that is wrong with the history in a request body, in sentences. */
export function historyProblems(wire: WireName, body: Json): string[] {
  switch (wire) {
    case "anthropic":
      return [...commonProblems(body, anthropicItems(body)), ...anthropicProblems(body)];
    case "responses":
      return [...commonProblems(body, responsesItems(body)), ...responsesProblems(body)];
    case "chat":
      return [...commonProblems(body, chatItems(body)), ...chatProblems(body)];
  }
}

/** How often a text stands in what users said, in any wire: the message of a turn must be there once. */
export function countUserText(wire: WireName, body: Json, text: string): number {
  const items = wire === "anthropic" ? anthropicItems(body) : wire === "responses" ? responsesItems(body) : chatItems(body);
  return items.filter((item) => item.type === "text" && item.role === "user" && item.text === text).length;
}

function commonProblems(body: Json, items: Item[]): string[] {
  const problems: string[] = [];
  if (!wellFormedDeep(body)) problems.push("A text holds half of a surrogate pair.");
  if (items.length === 0) problems.push("The history is empty.");
  if (items[0]?.type === "result") problems.push("The history begins with a result.");

  const seen = new Set<string>();
  for (const item of items) {
    if (item.type === "text" && item.text.trim() === "") problems.push(`A text of the ${item.role} is blank.`);
    if (item.type === "result" && item.text.trim() === "") problems.push(`The result of ${item.id} is blank.`);
    if (item.type !== "call") continue;
    if (!CALL_ID.test(item.id)) problems.push(`The call id ${JSON.stringify(item.id)} has characters or a length that providers refuse.`);
    if (seen.has(item.id)) problems.push(`The call id ${item.id} is used twice.`);
    seen.add(item.id);
    if (typeof item.arguments !== "object" || item.arguments === null || Array.isArray(item.arguments)) problems.push(`The arguments of ${item.id} are no JSON object.`);
  }

  // A batch of calls ends with the first item that is neither part of the reply nor another call.
  let open: string[] = [];
  let answering = false;
  for (const item of items) {
    if (item.type === "result") {
      answering = true;
      if (open[0] === item.id) open = open.slice(1);
      else if (open.includes(item.id)) problems.push(`The result of ${item.id} is out of order.`);
      else problems.push(`The result of ${item.id} has no open call.`);
      continue;
    }
    const continues = !answering && (item.type === "call" || item.type === "reasoning" || (item.type === "text" && item.role === "assistant"));
    if (open.length > 0 && !continues) {
      problems.push(`The calls ${open.join(", ")} have no result directly after them.`);
      open = [];
    }
    answering = false;
    if (item.type === "call") open = [...open, item.id];
  }
  if (open.length > 0) problems.push(`The calls ${open.join(", ")} have no result.`);
  return problems;
}

function anthropicItems(body: Json): Item[] {
  return list(body.messages).flatMap((message): Item[] => {
    if (typeof message.content === "string") return [{ type: "text", role: String(message.role), text: message.content }];
    return list(message.content).map((block): Item => {
      switch (block.type) {
        case "text":
          return { type: "text", role: String(message.role), text: String(block.text) };
        case "tool_use":
          return { type: "call", id: String(block.id), arguments: block.input };
        case "tool_result":
          return { type: "result", id: String(block.tool_use_id), text: typeof block.content === "string" ? block.content : JSON.stringify(block.content) };
        default:
          return { type: "reasoning" };
      }
    });
  });
}

function anthropicProblems(body: Json): string[] {
  const problems: string[] = [];
  const messages = list(body.messages);
  if (messages[0]?.role !== "user") problems.push("The first message is not the user's.");
  if (messages.at(-1)?.role !== "user") problems.push("The last message is not the user's.");
  if (messages.some((message, index) => index > 0 && message.role === messages[index - 1]!.role)) problems.push("Two messages of one role follow each other.");
  for (const block of list(body.system)) if (String(block.text).trim() === "") problems.push("A system block is blank.");

  let marks = [...list(body.system), ...list(body.tools)].filter((block) => block.cache_control).length;
  for (const message of messages) {
    const blocks = list(message.content);
    if (typeof message.content !== "string" && blocks.length === 0) problems.push("A message has no content.");
    marks += blocks.filter((block) => block.cache_control).length;
    if (blocks.some((block) => isThinking(block) && block.cache_control)) problems.push("A block of reasoning is marked for the cache.");
    if (blocks.some((block) => block.type === "thinking" && typeof block.signature !== "string")) problems.push("A block of reasoning has no signature.");
    if (isThinking(blocks.at(-1))) problems.push("A message ends with reasoning.");
    const firstText = blocks.findIndex((block) => block.type === "text");
    if (message.role === "user" && firstText !== -1 && blocks.findLastIndex((block) => block.type === "tool_result") > firstText) problems.push("A result stands after text in its message.");
  }
  if (marks > 4) problems.push(`${marks} blocks are marked for the cache; four are allowed.`);
  if (anthropicItems(body).some((item) => item.type === "call") && list(body.tools).length === 0) problems.push("The history holds calls, but no tool is declared.");
  return problems;
}

const isThinking = (block: Json | undefined) => block?.type === "thinking" || block?.type === "redacted_thinking";

function responsesItems(body: Json): Item[] {
  return list(body.input).map((item): Item => {
    switch (item.type) {
      case "function_call":
        return { type: "call", id: String(item.call_id), arguments: parse(item.arguments) };
      case "function_call_output":
        return { type: "result", id: String(item.call_id), text: String(item.output) };
      case "reasoning":
        return { type: "reasoning" };
      default:
        return { type: "text", role: String(item.role), text: typeof item.content === "string" ? item.content : JSON.stringify(item.content) };
    }
  });
}

function responsesProblems(body: Json): string[] {
  const items = list(body.input);
  const problems: string[] = [];
  if (body.store !== false) problems.push("The request would be stored at the provider.");
  items.forEach((item, index) => {
    if (item.type !== "reasoning") return;
    if (typeof item.encrypted_content !== "string") problems.push("An item of reasoning has no encrypted content.");
    const next = items.slice(index + 1).find((later) => later.type !== "reasoning");
    if (next?.type !== "function_call" && next?.role !== "assistant") problems.push("An item of reasoning is not followed by what it led to.");
  });
  return problems;
}

function chatItems(body: Json): Item[] {
  return list(body.messages).flatMap((message): Item[] => {
    if (message.role === "tool") return [{ type: "result", id: String(message.tool_call_id), text: String(message.content) }];
    const calls = list(message.tool_calls).map((call): Item => ({ type: "call", id: String(call.id), arguments: parse((call.function as Json | undefined)?.arguments) }));
    const silent = message.content === null || message.content === undefined;
    return [...(silent ? [] : [{ type: "text" as const, role: String(message.role), text: String(message.content) }]), ...calls];
  });
}

function chatProblems(body: Json): string[] {
  const messages = list(body.messages);
  const problems: string[] = [];
  if (messages.some((message, index) => message.role === "system" && index > 0)) problems.push("A system message is not in front.");
  if (messages.some((message) => message.role === "assistant" && (message.content ?? null) === null && list(message.tool_calls).length === 0)) problems.push("A message of the assistant is empty.");
  return problems;
}

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);

function parse(text: unknown): unknown {
  try {
    return JSON.parse(String(text));
  } catch {
    return undefined;
  }
}

function wellFormedDeep(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (Array.isArray(value)) return value.every(wellFormedDeep);
  if (typeof value === "object" && value !== null) return Object.entries(value).every(([key, inner]) => key.isWellFormed() && wellFormedDeep(inner));
  return true;
}
