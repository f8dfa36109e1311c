import type { FinishReason } from "../../domain/message.ts";
import { NO_USAGE, type Usage } from "../../domain/usage.ts";
import type { Clock } from "../../lib/clock.ts";
import { DEFAULT_STALL_TIMEOUT_MS, type ModelContext, type ModelFailure, type ModelPart, type ModelRequest } from "../model.ts";
import type { Cue, Reply } from "./cues.ts";
import { passGate } from "./gates.ts";

/** Characters that the estimate counts as a token. */
const CHARACTERS_PER_TOKEN = 4;

/** Plays a reply to a request, part by part, as a provider's adapter would tell it. */
export async function* play(reply: Reply, request: ModelRequest, context: ModelContext, clock: Clock): AsyncGenerator<ModelPart> {
  let written = 0;
  let calls = 0;
  let reported: Partial<Usage> | "none" = {};

  const finish = (reason: FinishReason, providerData?: Record<string, unknown>): ModelPart => ({
    type: "finish",
    reason,
    ...(reported === "none" ? {} : { usage: { ...estimate(request, written), ...reported } }),
    ...(providerData === undefined ? {} : { providerData }),
  });

  for (const cue of reply.cues) {
    // Whoever takes the parts may abort between any two of them.
    if (context.signal.aborted) return yield failed(ABORTED);
    switch (cue.cue) {
      case "say":
      case "think":
      case "call": {
        for (const piece of cue.pieces) {
          const problem = await paced(cue.everyMs, context, clock);
          if (problem !== undefined) return yield failed(problem);
          written += piece.length;
          if (cue.cue === "say") yield { type: "text", text: piece };
          if (cue.cue === "think") yield { type: "reasoning", text: piece };
        }
        if (context.signal.aborted) return yield failed(ABORTED);
        if (cue.cue === "think") yield reasoningEnd(cue);
        if (cue.cue === "call") {
          yield { type: "tool-call", id: cue.id ?? callId(request, calls), name: cue.name, argumentsText: cue.pieces.join("") };
          calls += 1;
        }
        break;
      }
      case "wait":
      case "gate":
      case "hang": {
        const problem = await silence(cue, context, clock);
        if (problem !== undefined) return yield failed(problem);
        break;
      }
      case "usage":
        reported = cue.usage;
        break;
      case "end":
        return yield finish(cue.reason, cue.providerData);
      case "fail":
        return yield failed(cue.failure);
    }
  }
  yield context.signal.aborted ? failed(ABORTED) : finish(calls > 0 ? "tool_calls" : "stop");
}

const ABORTED: ModelFailure = { kind: "aborted", message: "The request was aborted." };

/** A reply that consists of its failure. */
export const failed = (error: ModelFailure): ModelPart => ({ type: "error", error });

/**
 * The same for the same reply to the same conversation, and another one in each step, as long as the conversation is not
 * shown in part: providers promise no more.
 */
const callId = (request: ModelRequest, position: number): string => `call_${request.messages.length}_${position}`;

const reasoningEnd = (cue: Cue & { cue: "think" }): ModelPart => ({
  type: "reasoning-end",
  ...(cue.signature === undefined ? {} : { signature: cue.signature }),
  ...(cue.redacted === undefined ? {} : { redacted: cue.redacted }),
});

async function paced(ms: number, context: ModelContext, clock: Clock): Promise<ModelFailure | undefined> {
  if (ms > 0) return silence({ cue: "wait", ms }, context, clock);
  return context.signal.aborted ? ABORTED : undefined;
}

/** Keeps silent, at most as long as the request bears it. Says what ended the request meanwhile, if anything did. */
async function silence(cue: Cue & { cue: "wait" | "gate" | "hang" }, context: ModelContext, clock: Clock): Promise<ModelFailure | undefined> {
  const stallMs = context.stallTimeoutMs ?? DEFAULT_STALL_TIMEOUT_MS;
  if (cue.cue === "wait" && cue.ms < stallMs) {
    await clock.sleep(cue.ms, context.signal);
    return context.signal.aborted ? ABORTED : undefined;
  }
  // Whichever is over first stops the other, so that nothing goes on behind a reply that has ended.
  const over = new AbortController();
  const signal = AbortSignal.any([context.signal, over.signal]);
  const stalled = clock.sleep(stallMs, signal).then(() => "stalled" as const);
  const passed = cue.cue === "gate" ? passGate(cue.name, signal).then((open) => (open ? ("passed" as const) : ("refused" as const))) : stalled;
  const outcome = await Promise.race([passed, stalled]);
  over.abort();
  if (context.signal.aborted) return ABORTED;
  if (outcome === "stalled") return { kind: "stalled", message: `The model was silent for ${stallMs} ms.` };
  if (outcome === "refused" && cue.cue === "gate") return { kind: "connection", message: `The gate at ${cue.name} did not open.` };
  return undefined;
}

function estimate(request: ModelRequest, written: number): Usage {
  const read = request.messages.reduce((sum, message) => {
    const calls = message.role === "assistant" && message.toolCalls.length > 0 ? JSON.stringify(message.toolCalls.map((made) => made.arguments)) : "";
    return sum + message.content.length + calls.length;
  }, request.system?.length ?? 0);
  return { ...NO_USAGE, inputTokens: Math.ceil(read / CHARACTERS_PER_TOKEN), outputTokens: Math.ceil(written / CHARACTERS_PER_TOKEN) };
}
