import type { z } from "zod";
import type { ToolDefinition } from "../define/tool.ts";
import { type Json, jsonCopy } from "../lib/json.ts";
import { cutText, wellFormed } from "../lib/text.ts";

/**
 * Longest result the model is told, in UTF-16 units. It is stored in rows that take two million bytes, and a unit may need
 * six of them once it is escaped; a longer one would take the run with it.
 */
const MAX_RESULT_LENGTH = 256_000;
/** Errors stand in their event twice, and say in the first lines what they have to say. */
const MAX_ERROR_LENGTH = 16_000;
/** Longest data of an event that a tool puts into the log, as JSON. */
const MAX_EVENT_LENGTH = 256_000;

/** What a tool returned, as the model is told it. */
export function resultText(result: unknown): string {
  if (typeof result === "string") return shortened(result, MAX_RESULT_LENGTH);
  if (result === undefined) return "Done.";
  try {
    return shortened(JSON.stringify(result) ?? String(result), MAX_RESULT_LENGTH);
  } catch (error) {
    return `The tool returned something that is not JSON: ${errorText(error)}`;
  }
}

/** What was thrown, as the model is told it. Tools throw what they like, also what has no text. */
export function errorText(error: unknown): string {
  try {
    const message = error instanceof Error ? error.message || error.name : error;
    return shortened(String(message), MAX_ERROR_LENGTH);
  } catch {
    return "It threw something that has no text.";
  }
}

/**
 * The data of a tool's own event, as it is logged: a copy, because the tool may go on changing what it gave. What can not be
 * logged is said so in its place; an event is not worth a call.
 */
export function eventData(data: unknown): Json {
  try {
    const copy = jsonCopy(data) ?? null;
    const { length } = JSON.stringify(copy);
    return length <= MAX_EVENT_LENGTH ? copy : { error: `The data of this event was left out: it has ${length} characters, and may have ${MAX_EVENT_LENGTH}.` };
  } catch (error) {
    return { error: `The data of this event was left out, because it is not JSON: ${errorText(error)}` };
  }
}

/** Why arguments do not fit a tool, for a model that is to do better. */
export function misfitText(tool: ToolDefinition<any>, issues: readonly z.core.$ZodIssue[]): string {
  const problems = issues.map((issue) => `${issue.path.join(".") || "arguments"}: ${issue.message}`);
  return shortened(`The arguments do not fit the tool "${tool.name}", so it was not executed. ${problems.join("; ")}`, MAX_ERROR_LENGTH);
}

function shortened(text: string, length: number): string {
  const whole = wellFormed(text);
  if (whole.length <= length) return whole;
  return `${cutText(whole, length)}\n[Cut here: this is the beginning of ${whole.length} characters.]`;
}
