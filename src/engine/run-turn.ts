import { AGENT_DEFAULTS } from "../define/agent-defaults.ts";
import type { AssistantMessage } from "../domain/message.ts";
import type { RunEventBody } from "../domain/run-event.ts";
import type { RunError } from "../domain/run.ts";
import type { Effect } from "../domain/tool-call.ts";
import { addUsage, type Usage } from "../domain/usage.ts";
import { type ModelFailure, type ModelRequest } from "../models/model.ts";
import { executeTools, openCalls, unknownOutcome, waitingCalls } from "./execute-tools.ts";
import { ownReplies } from "./own-replies.ts";
import type { Turn, TurnOutcome, TurnPorts } from "./ports.ts";
import { prepareContext, prepareRequest } from "./prepare-request.ts";
import { isRetryable, retryDelay, toRunError } from "./retry.ts";
import { streamModel, type StreamedReply } from "./stream-model.ts";
import { toolAnswer } from "./tool-answer.ts";

/** Replies in a row whose calls are all too broken to run, after which asking again is no use. */
const MAX_BROKEN_REPLIES = 3;

/**
 * The loop: ask the model, run the calls it asks for, ask again, until it answers without any. A new turn and a recovered
 * one are the same to it: what was stored is in the turn, and what is stored is not done again.
 */
export async function runTurn(turn: Turn, ports: TurnPorts): Promise<TurnOutcome> {
  const context = await prepareContext(turn, ports);
  while (true) {
    if (openCalls(turn).length > 0) await executeTools(turn, context, ports);
    if (ports.signal.aborted) return { kind: "cancelled" };
    // Asked of the ledger, not of this attempt: an earlier one may have been lost before it could say so.
    const waiting = waitingCalls(turn);
    if (waiting.length > 0) return { kind: "paused", waiting, events: [{ type: "text.completed" }] };
    const unknown = unknownOutcome(turn);
    if (unknown !== undefined) return failed(unknown);
    // What a person has said about one call may have left another one open.
    if (openCalls(turn).length > 0) continue;

    const last = turn.messages.at(-1);
    if (last?.role === "assistant" && last.toolCalls.length === 0) return { kind: "completed", events: [{ type: "text.completed" }], finishReason: last.finishReason };
    const answer = toolAnswer(turn.messages, turn.effects);
    if (answer !== undefined) return { kind: "completed", events: [...textOf(answer), { type: "text.completed" }], finishReason: "stop" };
    const limit = limitReached(turn);
    if (limit !== undefined) return failed(limit);

    const reply = await askWithRetries(turn, prepareRequest(turn, context), ports);
    if (reply.kind === "cancelled") return { kind: "cancelled" };
    if (reply.kind === "failed") {
      return { kind: "failed", error: toRunError(reply.error), ...(reply.partial === undefined ? {} : { partial: reply.partial }), events: [] };
    }
    if (reply.message.toolCalls.length === 0 || isDeclined(reply.message)) return answered(reply);
    const calls = plan(turn, reply.message, ports);
    await ports.saveReply(reply.message, calls, reply.closing);
    turn.messages.push(reply.message);
    turn.effects.push(...calls);
  }
}

function answered({ message, closing }: Extract<StreamedReply, { kind: "finished" }>): TurnOutcome {
  const events: RunEventBody[] = [...closing, { type: "text.completed" }];
  if (!isDeclined(message)) return { kind: "completed", reply: message, events, finishReason: message.finishReason };
  const why = message.finishReason === "refusal" ? "The model refused to answer." : "The provider's content filter stopped the answer.";
  // Calls of a reply that was declined were never meant to run; without them the message can stand in history.
  const partial: AssistantMessage = { ...message, toolCalls: [] };
  return { kind: "failed", error: { type: `model_${message.finishReason}`, message: why, retryable: false }, partial, events };
}

const isDeclined = (message: AssistantMessage): boolean => message.finishReason === "refusal" || message.finishReason === "content_filter";

const textOf = (text: string): RunEventBody[] => (text === "" ? [] : [{ type: "text.delta", text }]);

const repliesOf = (turn: Turn): number => turn.messages.filter((message) => message.role === "assistant").length;

function limitReached(turn: Turn): RunError | undefined {
  const maxSteps = turn.agent.maxSteps ?? AGENT_DEFAULTS.maxSteps;
  if (ownReplies(turn).length >= maxSteps) {
    return { type: "step_limit", message: `The run made ${maxSteps} model requests (the agent's maxSteps) without coming to an end.`, retryable: false };
  }
  const newest = ownReplies(turn).slice(-MAX_BROKEN_REPLIES);
  const broken = newest.length === MAX_BROKEN_REPLIES && newest.every((reply) => reply.toolCalls.every((call) => call.invalid !== undefined));
  if (!broken) return undefined;
  return { type: "broken_tool_calls", message: `The model wrote tool calls that could not be read ${MAX_BROKEN_REPLIES} times in a row.`, retryable: false };
}

/** Each call gets its ledger row, under a key of ours: servers reuse theirs. */
function plan(turn: Turn, reply: AssistantMessage, ports: TurnPorts): Effect[] {
  const step = repliesOf(turn);
  return reply.toolCalls.map((call, position) => ({
    runId: turn.runId,
    step,
    position,
    callId: call.id,
    toolName: call.name,
    status: "planned" as const,
    arguments: call.arguments,
    attempt: 1,
    plannedAt: ports.clock.now(),
  }));
}

/** One step's request, made again where that can help. Followers are told to drop what the failed one said. */
async function askWithRetries(turn: Turn, request: ModelRequest, ports: TurnPorts): Promise<StreamedReply> {
  const retries = turn.agent.retries ?? 0;
  let spent: Usage | undefined;
  for (let attempt = 1; ; attempt += 1) {
    const reply = await streamModel(turn, request, ports);
    if (reply.kind === "cancelled") return reply;
    if (reply.kind === "finished") return { ...reply, message: withUsage(reply.message, spent) };
    if (attempt > retries || !isRetryable(reply.error)) return { ...reply, partial: reply.partial && withUsage(reply.partial, spent) };
    // What failed was paid for as well; it is counted with the reply that came of it.
    spent = sumOf(spent, reply.usage);
    const delayMs = retryDelay(turn.agent, reply.error, attempt);
    await ports.emit(retryEvent(reply.error, reply.firstDelta, { attempt: attempt + 1, maxAttempts: retries + 1, delayMs }, ports));
    await ports.clock.sleep(delayMs, ports.signal);
    if (ports.signal.aborted) return { kind: "cancelled" };
  }
}

function withUsage(message: AssistantMessage, spent: Usage | undefined): AssistantMessage {
  const usage = sumOf(message.usage, spent);
  return usage === undefined ? message : { ...message, usage };
}

const sumOf = (a: Usage | undefined, b: Usage | undefined): Usage | undefined => (a && b ? addUsage(a, b) : (a ?? b));

function retryEvent(
  error: ModelFailure,
  firstDelta: number | undefined,
  counts: { attempt: number; maxAttempts: number; delayMs: number },
  ports: TurnPorts,
): RunEventBody {
  const discarded = firstDelta === undefined ? {} : { discarded: { from: firstDelta, to: ports.nextIndex() - 1 } };
  return { type: "run.retried", ...counts, reason: "model_error", error: error.message, ...discarded };
}

const failed = (error: RunError): TurnOutcome => ({ kind: "failed", error, events: [] });
