import { safeCut } from "../domain/checkpoint.ts";
import { ok, refused, type Result } from "../domain/errors.ts";
import { newId } from "../domain/ids.ts";
import type { Message } from "../domain/message.ts";
import type { Requirement } from "../domain/requirement.ts";
import { type Effect, isSettled } from "../domain/tool-call.ts";
import { toolAnswer } from "../engine/tool-answer.ts";
import type { ContinueRun } from "./commands.ts";
import type { OwnMessage } from "./store.ts";
import { readableMessages } from "./transcript.ts";

/** What a branch goes on with when nothing else is said. */
const GO_ON = "Continue.";

/** What a branch begins with. */
export interface Beginning {
  /** The source's messages up to a safe place, and what is said next. */
  messages: OwnMessage[];
  /** The ledger rows of their calls. */
  effects: Effect[];
  /** How many of the source's messages are kept, results of tools counted. */
  index: number;
}

/** How much of a run is kept where someone goes on from it, and what the branch begins with. The run itself is only read. */
export function beginningOf(messages: readonly OwnMessage[], effects: readonly Effect[], command: Pick<ContinueRun, "continueFrom" | "regenerate" | "input">, now: number): Result<Beginning> {
  const last = messages.at(-1);
  // What was cut off is told as what it was, but nobody goes on from the middle of a word.
  const whole = last?.role === "assistant" && last.partial === true ? messages.slice(0, -1) : messages;
  const readable = readableMessages(whole, effects);
  const wanted = wantedIndex(command, readable);
  if (wanted === undefined || !(Number.isInteger(wanted) && wanted >= 0 && wanted <= readable.length)) {
    return refused("invalid_request", `continue_from must be "end", "last_user" or a message index from 0 to ${readable.length}.`);
  }
  const index = safeCut(readable, wanted);
  const own = readable.slice(0, index).filter((message): message is OwnMessage => message.role === "user" || message.role === "assistant");
  if (own.length === 0 && command.input === undefined) return refused("invalid_request", "Nothing is kept of the run, so a new input is needed.");

  const steps = own.filter((message) => message.role === "assistant").length;
  const kept = effects.filter((effect) => effect.step < steps).map((effect) => withoutDecision(effect, now));
  const said = command.input ?? (needsWord(own, kept) ? GO_ON : undefined);
  return ok({ messages: said === undefined ? own : [...own, { id: newId(), role: "user", content: said, createdAt: now }], effects: kept, index });
}

/**
 * A decision was made for one call of one run: a branch asks again. What has an outcome keeps it, so that nothing is done
 * twice; a call of which nobody knows whether it happened is asked about anew, under the key that it was made with.
 */
function withoutDecision(effect: Effect, now: number): Effect {
  const { requirement, ...bare } = effect;
  if (effect.status === "unknown" && requirement?.kind === "unknown_outcome") return { ...bare, requirement: askedAnew(requirement, now) };
  return isSettled(effect.status) ? bare : { ...bare, status: "planned" };
}

function askedAnew({ kind, shownHash }: Requirement, now: number): Requirement {
  return { id: newId(), kind, createdAt: now, ...(shownHash === undefined ? {} : { shownHash }) };
}

/** After an answer, be it a tool's, a model has nothing to say unless somebody speaks. */
const needsWord = (own: readonly OwnMessage[], effects: readonly Effect[]): boolean => {
  const last = own.at(-1);
  return last?.role === "assistant" && (last.toolCalls.length === 0 || toolAnswer(own, effects) !== undefined);
};

function wantedIndex({ continueFrom, regenerate }: Pick<ContinueRun, "continueFrom" | "regenerate">, messages: readonly Message[]): number | undefined {
  if (typeof continueFrom === "number") return continueFrom;
  if (continueFrom === "last_user") {
    const last = messages.findLastIndex((message) => message.role === "user");
    return last === -1 ? undefined : last + 1;
  }
  if (!regenerate) return messages.length;
  // The last answer goes; the calls before it, which had their effects, stay.
  return messages.findLastIndex((message) => message.role !== "assistant" || message.toolCalls.length > 0) + 1;
}
