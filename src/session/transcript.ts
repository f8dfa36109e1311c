import { withToolResults } from "../engine/history.ts";
import { toolAnswer } from "../engine/tool-answer.ts";
import type { AssistantMessage } from "../domain/message.ts";
import type { Run, RunMetrics, RunRecord } from "../domain/run.ts";
import { type Effect, effectKey, isSettled } from "../domain/tool-call.ts";
import { addUsage, NO_USAGE } from "../domain/usage.ts";
import type { OwnMessage } from "./store.ts";

const isReply = (message: OwnMessage): message is AssistantMessage => message.role === "assistant";

/** What a run has said: all its text, and the result of a tool whose result is the answer. */
export function contentOf(messages: readonly OwnMessage[], effects: readonly Effect[]): string {
  const said = messages.filter(isReply).map((message) => message.content);
  return [...said, toolAnswer(messages, effects) ?? ""].join("");
}

/** What its model calls cost and how long they took. */
export function metricsOf(messages: readonly OwnMessage[], times: { startedAt?: number; endedAt?: number }): RunMetrics {
  const replies = messages.filter(isReply);
  const first = replies[0]?.timeToFirstTokenMs;
  return {
    usage: replies.reduce((sum, reply) => (reply.usage === undefined ? sum : addUsage(sum, reply.usage)), NO_USAGE),
    modelCalls: replies.length,
    ...(times.startedAt === undefined || times.endedAt === undefined ? {} : { durationMs: times.endedAt - times.startedAt }),
    ...(first === undefined ? {} : { timeToFirstTokenMs: first }),
  };
}

/** A run with what it said and did. What follows from its messages is worked out, not stored twice. */
export function toRecord(run: Run, messages: readonly OwnMessage[], effects: readonly Effect[]): RunRecord {
  const reasoning = messages
    .filter(isReply)
    .flatMap((message) => message.reasoning ?? [])
    .map((block) => block.text)
    // What a provider keeps to itself has no text.
    .filter((text) => text !== "")
    .join("\n");
  // Models must see a result for each call; readers see those that there are.
  const settled = new Set(effects.filter((effect) => isSettled(effect.status)).map(effectKey));
  return {
    ...run,
    content: contentOf(messages, effects),
    ...(reasoning === "" ? {} : { reasoning }),
    metrics: metricsOf(messages, run),
    messages: withToolResults(messages, effects).filter((message) => message.role !== "tool" || settled.has(message.id)),
    effects: [...effects],
  };
}

/** The other way round, for an object that is filled from D1: the messages that are rows of their own. */
export const ownMessages = (record: RunRecord): OwnMessage[] =>
  record.messages.filter((message): message is OwnMessage => message.role === "user" || message.role === "assistant");
