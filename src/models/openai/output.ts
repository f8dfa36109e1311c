import type { AssistantMessage } from "../../domain/message.ts";
import { isJsonObject } from "../../lib/json.ts";
import type { JsonObject } from "../../lib/json.ts";
import { listOf, numberOf, objectOf } from "../fields.ts";

/**
 * The items of a reply in the order in which they came, kept in the message's provider data: encrypted reasoning whole,
 * of the rest only what our message does not hold. Reasoning counts only in front of the item that it led to.
 */
export type OutputItem = { type: "reasoning"; item: JsonObject } | { type: "message"; length: number; phase?: string } | { type: "call" };

/** Whether the items say more than the message itself does. */
export function isWorthKeeping(output: readonly OutputItem[]): boolean {
  return output.some((item) => item.type === "reasoning" || (item.type === "message" && item.phase !== undefined));
}

export type OutputPiece = { type: "reasoning"; item: JsonObject } | { type: "message"; text: string; phase?: "commentary" | "final_answer" } | { type: "call"; index: number };

/** The message's own items, if it has some and they still fit what the message holds. */
export function readOutput(message: AssistantMessage): OutputPiece[] | undefined {
  const output = listOf(message.providerData?.output);
  if (output.length === 0) return undefined;
  const pieces: OutputPiece[] = [];
  let offset = 0;
  let calls = 0;
  for (const kept of output) {
    const { type, item, length, phase } = objectOf(kept);
    if (type === "reasoning" && isJsonObject(item)) pieces.push({ type, item });
    else if (type === "call") pieces.push({ type, index: calls++ });
    else if (type === "message") {
      const end = offset + (numberOf(length) ?? 0);
      pieces.push({ type, text: message.content.slice(offset, end), ...((phase === "commentary" || phase === "final_answer") && { phase }) });
      offset = end;
    }
  }
  return offset === message.content.length && calls === message.toolCalls.length ? pieces : undefined;
}
