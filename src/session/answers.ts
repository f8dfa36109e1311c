import { ok, refused, type Result } from "../domain/errors.ts";
import { problemsOf, type Requirement, Resolution } from "../domain/requirement.ts";
import { type Effect, isWaiting } from "../domain/tool-call.ts";
import { stableStringify } from "../lib/json.ts";
import { filledIn } from "./approvals.ts";
import type { Answer } from "./commands.ts";

/** What became of the answer for one call: a resolution, or what is wrong with it. */
export interface Matched {
  resolution: Resolution | undefined;
  problems: string[];
}

/**
 * Puts each answer to the call that it names. Clients echo whole lists of calls: what says nothing new about a call that
 * is decided is passed over, what contradicts it is refused, and so is an answer to no call of this run.
 */
export function matchAnswers(answers: readonly Answer[], effects: readonly Effect[]): Result<Map<Effect, Matched>> {
  const matched = new Map<Effect, Matched>();
  for (const answer of answers.map(withoutNulls)) {
    const effect = effects.find(({ callId, requirement }) => (answer.requirementId === undefined ? callId === answer.callId : requirement?.id === answer.requirementId));
    const name = answer.requirementId ?? answer.callId ?? "";
    if (effect === undefined || (answer.callId !== undefined && effect.callId !== answer.callId)) {
      return refused("conflict", `No call of this run waits under the name '${name}'.`, { tool_call_id: name });
    }
    const { requirement } = effect;
    if (requirement === undefined || !isWaiting(effect)) {
      if (contradicts(answer, effect)) return refused("conflict", `The call '${effect.callId}' is decided already, and not like that.`, { tool_call_id: effect.callId });
      continue;
    }
    const next = read(requirement, answer, effect);
    const before = matched.get(effect);
    if (before !== undefined && !isEqual(before, next)) return refused("conflict", `The call '${effect.callId}' is answered twice, and differently.`, { tool_call_id: effect.callId });
    matched.set(effect, next);
  }
  return ok(matched);
}

/** Whether an answer says what is to be done with its call, and does not just name it. */
export const decides = (answer: Answer): boolean => {
  const { confirmed, values, selections, result, outcome } = withoutNulls(answer);
  return [confirmed, values, selections, result, outcome].some((said) => said !== undefined);
};

/** Clients write what they leave open as null. */
const withoutNulls = (answer: Answer): Answer => Object.fromEntries(Object.entries(answer).filter(([, value]) => value !== null));

function read(requirement: Requirement, answer: Answer, effect: Effect): Matched {
  const wanted = toResolution(requirement, answer, effect);
  if (wanted === undefined) return { resolution: undefined, problems: [] };
  const parsed = Resolution.safeParse(wanted);
  const problems = parsed.success ? problemsOf(requirement, parsed.data) : parsed.error.issues.map((issue) => `has an answer that can not be read: ${issue.path.join(".")}: ${issue.message}`);
  return { resolution: parsed.success && problems.length === 0 ? parsed.data : undefined, problems };
}

/**
 * The answer in the words of what is asked; `undefined` where it says nothing about that. Nothing is ever taken for a yes,
 * and what it is made of may be anything that a client wrote.
 */
function toResolution(requirement: Requirement, answer: Answer, effect: Effect): object | undefined {
  const note = answer.note === undefined ? {} : { note: answer.note };
  switch (requirement.kind) {
    case "confirmation": {
      if (answer.confirmed === undefined) return undefined;
      const isEdited = answer.arguments !== undefined && !isEqual(answer.arguments, effect.arguments);
      return { kind: "confirmation", confirmed: answer.confirmed, ...note, ...(isEdited ? { arguments: answer.arguments } : {}) };
    }
    case "user_input": {
      const { values = {}, answered } = answer;
      // A client that echoes what the model wrote has not answered by that.
      const isNew = (requirement.fields ?? []).some(({ name, value }) => Object.hasOwn(values, name) && !isEqual(values[name], value));
      return answered === true || isNew ? { kind: "user_input", values: filledIn(requirement, values) } : undefined;
    }
    case "user_feedback":
      return answer.selections === undefined ? undefined : { kind: "user_feedback", selections: answer.selections };
    case "external_execution":
      return answer.result === undefined ? undefined : { kind: "external_execution", result: answer.result };
    case "unknown_outcome": {
      if (answer.outcome === undefined) return undefined;
      // What says that nobody knows is an echo, and no result.
      const isGiven = answer.result !== undefined && answer.result !== effect.result;
      return { kind: "unknown_outcome", decision: answer.outcome, ...(isGiven ? { result: answer.result } : {}) };
    }
  }
}

/** An echo repeats what is stored; anything else is a decision that comes too late. */
function contradicts(answer: Answer, effect: Effect): boolean {
  const resolution = effect.requirement?.resolution;
  const isYes = resolution?.kind === "confirmation" ? resolution.confirmed : resolution !== undefined && resolution.kind !== "rejected";
  const { confirmed, arguments: args, values, selections, result, outcome } = answer;
  return (
    (confirmed !== undefined && (resolution === undefined || confirmed !== isYes)) ||
    (args !== undefined && !isEqual(args, effect.arguments) && !isEqual(args, resolution?.kind === "confirmation" ? resolution.arguments : undefined)) ||
    (values !== undefined && resolution?.kind === "user_input" && Object.entries(values).some(([name, value]) => Object.hasOwn(resolution.values, name) && !isEqual(value, resolution.values[name]))) ||
    (selections !== undefined && resolution?.kind === "user_feedback" && !isEqual(selections, resolution.selections)) ||
    (outcome !== undefined && (resolution?.kind !== "unknown_outcome" || resolution.decision !== outcome)) ||
    (result !== undefined && result !== resultOf(effect))
  );
}

/** What a call answers, as far as anyone has said so far. */
function resultOf({ requirement, result }: Effect): string | undefined {
  const resolution = requirement?.resolution;
  if (result !== undefined) return result;
  return resolution?.kind === "external_execution" || resolution?.kind === "unknown_outcome" ? resolution.result : undefined;
}

const isEqual = (a: unknown, b: unknown): boolean => a === b || stableStringify(a) === stableStringify(b);
