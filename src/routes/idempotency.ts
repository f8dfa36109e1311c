import { z } from "@hono/zod-openapi";
import type { Idempotency } from "../operations/idempotency.ts";

const MAX_CHARACTERS = 512;

/** The header under which a client may ask again without asking twice. */
export const IdempotencyHeader = z.object({
  "idempotency-key": z
    .string()
    .max(MAX_CHARACTERS, { error: `Idempotency-Key must have at most ${MAX_CHARACTERS} characters` })
    .refine((key) => [...key].every(isPrintable), "Idempotency-Key must not hold control characters")
    .optional()
    .openapi({ description: "Asking again within a day with the same key and the same fields is answered with the same run. With other fields it is refused." }),
});

const isPrintable = (character: string): boolean => character >= " " && character !== "\u007f";

/** Set on an answer that is about a run which an earlier request with the same key has started. */
export const REPLAYED_HEADER = "idempotency-replayed";

/** Fields that say how a run is watched: asking again in another way is still asking for the same run. */
type Watching = { stream: boolean; stream_events: boolean };

/** A client's key with the fields that it came with. An empty one is none. */
export function idempotencyOf(headers: z.output<typeof IdempotencyHeader>, { stream: _stream, stream_events: _events, ...request }: Watching): { idempotency?: Idempotency } {
  const key = headers["idempotency-key"] ?? "";
  return key === "" ? {} : { idempotency: { key, request } };
}
