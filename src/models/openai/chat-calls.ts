import { newId } from "../../domain/ids.ts";
import { isJsonObject, tryParseJson } from "../../lib/json.ts";
import { argumentText } from "../argument-text.ts";
import { numberOf, objectOf, stringOf } from "../fields.ts";
import type { ModelPart } from "../model.ts";

interface Call {
  index: number | undefined;
  id: string;
  name: string;
  written: string;
}

/**
 * Puts tool calls together from fragments that name them in whatever way their server has: by index, by id, by both, by
 * neither. Two calls must never melt into one, and one call must never become two:
 *
 * - An id that no call at this index has begins a new call. So does the same id at another index: two calls with one id
 *   are told as two, and the engine gives each an id of its own.
 * - Without an id a fragment belongs to the newest call at its index; without both, to the newest call.
 * - A name counts once, as some servers repeat it with every fragment. Only where no id is given and the arguments so far
 *   are whole does it begin a new call, as servers do that send each call in one piece.
 */
export function collectCalls(): { add(fragment: unknown): void; calls(): ModelPart[]; isEmpty(): boolean } {
  const calls: Call[] = [];

  function find(index: number | undefined, id: string): Call | undefined {
    if (index === undefined) return id === "" ? calls.at(-1) : calls.findLast((call) => call.id === id);
    const there = calls.filter((call) => call.index === index);
    // A call that began without an index may go on with one.
    const placeless = calls.filter((call) => call.index === undefined);
    if (id !== "") return there.findLast((call) => call.id === id || call.id === "") ?? placeless.findLast((call) => call.id === id);
    return there.at(-1) ?? placeless.at(-1);
  }

  return {
    add(fragment) {
      const { index: place, id: identifier, function: fields } = objectOf(fragment);
      const { name: tool, arguments: args } = objectOf(fields);
      const index = numberOf(place);
      const id = stringOf(identifier);
      const name = stringOf(tool);
      const written = isJsonObject(args) ? JSON.stringify(args) : stringOf(args);

      const found = find(index, id);
      const isAnother = found && id === "" && name !== "" && written.trim() !== "" && tryParseJson(found.written) !== undefined;
      const call = found && !isAnother ? found : { index, id: "", name: "", written: "" };
      if (call !== found) calls.push(call);
      call.id ||= id;
      call.name ||= name;
      call.written += written;
    },
    calls: () => calls.map((call) => ({ type: "tool-call", id: call.id || `call_${newId()}`, name: call.name, argumentsText: argumentText(call.written) })),
    isEmpty: () => calls.length === 0,
  };
}
