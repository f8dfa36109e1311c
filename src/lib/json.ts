/** Any value that JSON can say. */
export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** Whether a parsed value is an object: not an array, not null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses JSON, or says `undefined` where it is none. JSON itself has no `undefined`, so the two cannot be confused. */
export function tryParseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** The same value always gives the same text: keys sorted, whatever order they were written in. */
export function stableStringify(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isJsonObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) : inner,
  );
}

/**
 * A value as it will be read back: a copy that shares nothing with it. `undefined` where JSON has no word for it.
 * @throws TypeError for what can not be written at all, such as a cycle or a BigInt.
 */
export function jsonCopy(value: unknown): Json | undefined {
  const text = JSON.stringify(value) as string | undefined;
  return text === undefined ? undefined : (JSON.parse(text) as Json);
}

/** A copy of a record without the entries that can not be written: one bad value must not cost the others. */
export function jsonEntries(record: Record<string, unknown>): JsonObject {
  return Object.fromEntries(
    Object.entries(record).flatMap(([key, value]) => {
      const copy = tryJsonCopy(value);
      return copy === undefined ? [] : [[key, copy]];
    }),
  );
}

function tryJsonCopy(value: unknown): Json | undefined {
  try {
    return jsonCopy(value);
  } catch {
    return undefined;
  }
}
