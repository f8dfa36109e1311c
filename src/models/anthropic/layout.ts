import type { AssistantMessage } from "../../domain/message.ts";
import { listOf } from "../fields.ts";

/**
 * The order in which a reply's blocks came: the length of a text, or what else stood there. Our messages keep text,
 * reasoning and calls apart, but the provider signs its reasoning and refuses it in another place.
 */
export type Layout = (number | "reasoning" | "call")[];

/** Whether the blocks stand in the order in which a message is written anyway: reasoning, one text, calls. */
export const isUsualOrder = (layout: Layout): boolean => /^(reasoning )*(\d+ )?(call )*$/.test(layout.map((piece) => `${piece} `).join(""));

export type Piece = { type: "text"; text: string } | { type: "reasoning" | "call"; index: number };

/** The message's own layout, if it has one and it still fits what the message holds. */
export function readLayout(message: AssistantMessage): Piece[] | undefined {
  const layout = listOf(message.providerData?.layout);
  if (layout.length === 0) return undefined;
  const pieces: Piece[] = [];
  const count = { reasoning: 0, call: 0 };
  let offset = 0;
  for (const piece of layout) {
    if (piece === "reasoning" || piece === "call") {
      pieces.push({ type: piece, index: count[piece] });
      count[piece] += 1;
    } else if (typeof piece === "number") {
      pieces.push({ type: "text", text: message.content.slice(offset, offset + piece) });
      offset += piece;
    }
  }
  const fits = offset === message.content.length && count.call === message.toolCalls.length && count.reasoning === (message.reasoning?.length ?? 0);
  return fits ? pieces : undefined;
}
