const MAX_DEPTH = 64;

/**
 * Why a parsed JSON value can not be kept, or nothing. Parsing takes what writing does not: nesting so deep that it
 * overflows the stack, and halves of surrogate pairs, which are no UTF-8.
 */
export function unstorable(value: unknown, levels = MAX_DEPTH): string | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : "it holds half of a surrogate pair, which is not valid Unicode";
  if (typeof value !== "object" || value === null) return undefined;
  if (levels === 0) return `it nests deeper than ${MAX_DEPTH} levels`;
  for (const [key, inner] of Object.entries(value)) {
    const problem = unstorable(key) ?? unstorable(inner, levels - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
