/** Milliseconds to wait before try number `retry` (1 is the first repetition). */
export function backoffDelay(retry: number, options: { baseMs: number; exponential: boolean; maxMs?: number }): number {
  const delay = options.exponential ? options.baseMs * 2 ** (retry - 1) : options.baseMs;
  return Math.min(delay, options.maxMs ?? Number.POSITIVE_INFINITY);
}
