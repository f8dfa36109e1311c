import { withToolResults } from "../engine/history.ts";
import { ownReplies } from "../engine/own-replies.ts";
import { toolAnswer } from "../engine/tool-answer.ts";
import type { Message } from "../domain/message.ts";
import type { Run, RunMetrics, RunRecord } from "../domain/run.ts";
import { type Effect, effectKey, isSettled } from "../domain/tool-call.ts";
import { addUsage, NO_USAGE } from "../domain/usage.ts";
import type { OwnMessage } from "./store.ts";

/** What a run has said: all its text, and the result of a tool whose result is the answer. What was said in the run that it goes on from is not its own. */
export function contentOf(messages: readonly OwnMessage[], effects: readonly Effect[], { firstStep }: Pick<Run, "firstStep"> = {}): string {
  const said = ownReplies({ messages, firstStep }).map((reply) => reply.content);
  return [...said, toolAnswer(messages, effects) ?? ""].join("");
}

/** What its model calls cost and how long they took. */
export function metricsOf(messages: readonly OwnMessage[], { startedAt, endedAt, firstStep }: Partial<Pick<Run, "startedAt" | "endedAt" | "firstStep">>): RunMetrics {
  const replies = ownReplies({ messages, firstStep });
  const first = replies[0]?.timeToFirstTokenMs;
  return {
    usage: replies.reduce((sum, reply) => (reply.usage === undefined ? sum : addUsage(sum, reply.usage)), NO_USAGE),
    modelCalls: replies.length,
    ...(startedAt === undefined || endedAt === undefined ? {} : { durationMs: endedAt - startedAt }),
    ...(first === undefined ? {} : { timeToFirstTokenMs: first }),
  };
}

/** A run's messages for readers: models must see a result for each call, readers see those that there are. */
export function readableMessages(messages: readonly OwnMessage[], effects: readonly Effect[]): Message[] {
  const settled = new Set(effects.filter((effect) => isSettled(effect.status)).map(effectKey));
  return withToolResults(messages, effects).filter((message) => message.role !== "tool" || settled.has(message.id));
}

/** A run with what it said and did. What follows from its messages is worked out, not stored twice. */
export function toRecord(run: Run, messages: readonly OwnMessage[], effects: readonly Effect[]): RunRecord {
  const reasoning = ownReplies({ messages, firstStep: run.firstStep })
    .flatMap((message) => message.reasoning ?? [])
    .map((block) => block.text)
    // What a provider keeps to itself has no text.
    .filter((text) => text !== "")
    .join("\n");
  return {
    ...run,
    content: contentOf(messages, effects, run),
    ...(reasoning === "" ? {} : { reasoning }),
    metrics: metricsOf(messages, run),
    messages: readableMessages(messages, effects),
    effects: [...effects],
  };
}

/** The other way round, for an object that is filled from D1: the messages that are rows of their own. */
export const ownMessages = (record: RunRecord): OwnMessage[] =>
  record.messages.filter((message): message is OwnMessage => message.role === "user" || message.role === "assistant");
