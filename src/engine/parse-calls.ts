import type { FinishReason } from "../domain/message.ts";
import type { ToolCall } from "../domain/tool-call.ts";
import { isDeeperThan, isJsonObject, tryParseJson } from "../lib/json.ts";
import { wellFormed } from "../lib/text.ts";
import { wellFormedValue } from "../models/replay.ts";

/** A call as it came from the provider: nothing about its text is known yet. */
export interface RawCall {
  id: string;
  name: string;
  argumentsText: string;
}

const MAX_DEPTH = 64;

/**
 * Turns what the model wrote into calls that can stand in history. Arguments are always an object there, because strict
 * servers refuse the whole conversation otherwise; what can not run says why in `invalid` and keeps its text.
 */
export function parseCalls(raw: readonly RawCall[], finishReason: FinishReason, idsInUse: Iterable<string>): ToolCall[] {
  const taken = new Set(idsInUse);
  return raw.map((call, position) => {
    const id = uniqueId(call.id, taken);
    taken.add(id);
    const named = { id, name: wellFormed(call.name) };
    const text = wellFormed(call.argumentsText);
    const invalid = (reason: string): ToolCall => ({ ...named, arguments: {}, invalid: { reason, text } });

    // The last call before a length stop may be cut in a place where the text still parses, with fields missing.
    if (finishReason === "length" && position === raw.length - 1) return invalid(CUT_OFF);
    const parsed = text.trim() === "" ? null : tryParseJson(text);
    if (parsed === undefined) return invalid(NOT_JSON);
    // Servers write a call without arguments as nothing, as blanks or as null.
    const args = parsed ?? {};
    if (!isJsonObject(args)) return invalid(NOT_AN_OBJECT);
    if (isDeeperThan(MAX_DEPTH, args)) return invalid(TOO_DEEP);
    // Half a character may also be written as an escape, which is well-formed text until it is parsed.
    return { ...named, arguments: wellFormedValue(args) };
  });
}

const CUT_OFF = "The call was cut off by the output token limit before it was complete, so it was not executed. Make it again, with less output before it.";
const NOT_JSON = "The arguments are not valid JSON (they may have been cut off), so the call was not executed. Make it again with complete JSON.";
const NOT_AN_OBJECT = "The arguments must be a JSON object, so the call was not executed.";
const TOO_DEEP = `The arguments nest deeper than ${MAX_DEPTH} levels, so the call was not executed.`;

/** Servers reuse ids, within a reply and across them; an answer must find exactly one call. */
function uniqueId(id: string, taken: ReadonlySet<string>): string {
  const wanted = id === "" ? "call" : wellFormed(id);
  if (!taken.has(wanted)) return wanted;
  let suffix = 2;
  while (taken.has(`${wanted}_${suffix}`)) suffix += 1;
  return `${wanted}_${suffix}`;
}
