import { AGENT_DEFAULTS } from "../define/agent-defaults.ts";
import type { AgentDefinition } from "../define/agent.ts";
import { effectKey, type Effect, type ToolCall } from "../domain/tool-call.ts";
import type { AssistantMessage, Message, ToolMessage, UserMessage } from "../domain/message.ts";
import type { RunInput, RunStatus } from "../domain/run.ts";
import { NO_RESULT } from "../models/replay.ts";
import type { PastRun } from "./ports.ts";

/** Runs that have said nothing yet, or are still at it, are never history. */
const NEVER: readonly RunStatus[] = ["pending", "running"];
/** Of the others only those that went well, unless the agent says otherwise. */
const SKIPPED_BY_DEFAULT: readonly RunStatus[] = ["paused", "cancelled", "failed", "regenerated"];

/** Whether later runs of the agent are shown a run that stands so. */
export const isHistory = (status: RunStatus, agent: AgentDefinition): boolean => !NEVER.includes(status) && !(agent.historySkipStatuses ?? SKIPPED_BY_DEFAULT).includes(status);

/**
 * A run's messages as a model must see them: each reply that asked for calls is followed by exactly one result a call, in
 * the order of the calls. Tool messages are not stored; they are the ledger's rows, read in place.
 */
export function withToolResults(messages: readonly (UserMessage | AssistantMessage)[], effects: readonly Effect[]): Message[] {
  const byCall = new Map(effects.map((effect) => [`${effect.step}:${effect.position}`, effect]));
  const woven: Message[] = [];
  let step = 0;
  for (const message of messages) {
    woven.push(message);
    if (message.role !== "assistant") continue;
    message.toolCalls.forEach((call, position) => woven.push(toolMessage(call, byCall.get(`${step}:${position}`), message.createdAt)));
    step += 1;
  }
  return woven;
}

/** The same with the arguments that people put in place of the model's: a model that reads its own would take a result for another call's. */
export function asModelsSee(messages: readonly (UserMessage | AssistantMessage)[], effects: readonly Effect[]): Message[] {
  const edited = new Map(effects.flatMap((effect) => (effect.edited === undefined ? [] : [[effect.callId, effect.edited] as const])));
  return withToolResults(messages, effects).map((message) => {
    if (edited.size === 0 || message.role !== "assistant") return message;
    return { ...message, toolCalls: message.toolCalls.map((call) => ({ ...call, arguments: edited.get(call.id) ?? call.arguments })) };
  });
}

function toolMessage(call: ToolCall, effect: Effect | undefined, repliedAt: number): ToolMessage {
  return {
    id: effect === undefined ? `${call.id}:result` : effectKey(effect),
    role: "tool",
    createdAt: effect?.settledAt ?? repliedAt,
    toolCallId: call.id,
    toolName: call.name,
    content: effect?.result ?? NO_RESULT,
    // A call that a hook answered in the tool's place is skipped, and went well.
    isError: effect?.status !== "done" && effect?.status !== "skipped",
  };
}

/**
 * Which earlier messages go before this turn's own (`spec/runtime.md` 2.5). A reply with calls and its results are one
 * unit: a window keeps them whole or drops them whole.
 */
export function projectHistory(pastRuns: Iterable<PastRun>, agent: AgentDefinition, input: RunInput): Message[] {
  const wanted = input.addHistoryToContext ?? agent.addHistoryToContext ?? false;
  if (!wanted) return [];
  // A window that the caller names replaces the agent's, whichever of the two kinds each of them is.
  const given = input.numHistoryRuns === undefined && input.numHistoryMessages === undefined ? agent : input;
  const messageLimit = given.numHistoryRuns === undefined ? given.numHistoryMessages : undefined;
  const window = given.numHistoryRuns ?? (messageLimit === undefined ? AGENT_DEFAULTS.numHistoryRuns : Number.POSITIVE_INFINITY);

  const taken: Message[][] = [];
  let count = 0;
  for (const run of pastRuns) {
    if (taken.length >= window || count >= (messageLimit ?? Number.POSITIVE_INFINITY)) break;
    if (run.componentId !== agent.id || run.parentRunId !== undefined || !isHistory(run.status, agent)) continue;
    const own = run.messages().filter((message) => message.role !== "system");
    taken.push(own);
    count += own.length;
  }
  let messages = taken.reverse().flat();
  if (messageLimit !== undefined) messages = lastMessages(messages, messageLimit);
  if (agent.maxToolCallsFromHistory !== undefined) messages = limitToolCalls(messages, agent.maxToolCallsFromHistory);
  return messages;
}

/** The newest `limit` messages, less those at the front that would stand without the reply that asked for them. */
function lastMessages(messages: Message[], limit: number): Message[] {
  if (limit <= 0) return [];
  const kept = messages.slice(-limit);
  const first = kept.findIndex((message) => message.role !== "tool");
  return first === -1 ? [] : kept.slice(first);
}

/** Keeps the newest `limit` calls with their results; an older reply keeps its words and loses its calls, batch by batch. */
function limitToolCalls(messages: Message[], limit: number): Message[] {
  let room = limit;
  const kept: Message[] = [];
  for (let index = messages.length - 1; index >= 0; index -= 1) {
    const message = messages[index] as Message;
    if (message.role === "tool") continue;
    if (message.role !== "assistant" || message.toolCalls.length === 0) {
      kept.unshift(message);
      continue;
    }
    if (message.toolCalls.length <= room) {
      room -= message.toolCalls.length;
      kept.unshift(message, ...messages.slice(index + 1, index + 1 + message.toolCalls.length));
      continue;
    }
    room = 0;
    // Reasoning and the provider's own items belong to the calls that are gone: providers refuse them alone.
    const { reasoning: _reasoning, providerData: _providerData, ...words } = message;
    if (message.content.trim() !== "") kept.unshift({ ...words, toolCalls: [] });
  }
  return kept;
}
