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

/** Whether arrays and objects nest deeper than so many levels. Parsing bears what writing and walking do not. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(levels - 1, inner));
}

/** The same value always gives the same text: keys sorted, whatever order they were written in. */
export function stableStringify(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    isJsonObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))) : inner,
  );
}

/**
 * A value as it will be read back: a copy that shares nothing with it, in which half a surrogate pair is U+FFFD. `undefined`
 * where JSON has no word for it.
 * @throws TypeError for what can not be written at all, such as a cycle or a BigInt.
 */
export function jsonCopy(value: unknown): Json | undefined {
  const text = JSON.stringify(value) as string | undefined;
  return text === undefined ? undefined : (JSON.parse(withoutHalves(text)) as Json);
}

/** Writing leaves whole pairs as they are and escapes halves. Escapes are read one by one, since a text may spell one out. */
const withoutHalves = (json: string): string =>
  json.includes("\\ud") ? json.replace(/\\(?:ud[89a-f][0-9a-f]{2}|.)/g, (escape) => (escape.startsWith("\\ud") ? "\ufffd" : escape)) : json;

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
