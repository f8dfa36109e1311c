/** The stamp counts steps of 10 µs on the clock that all processes of a machine share, and starts over after ten minutes. */
const STEP_NS = 10_000n;
const DIGITS = 5;
const WRAP = 36 ** DIGITS;

const now = (): number => Number((process.hrtime.bigint() / STEP_NS) % BigInt(WRAP));

/** A token that says when it was made. No other text of a stream holds a `~`. */
export const stampedToken = (): string => `~${now().toString(36).padStart(DIGITS, "0")} `;

/** Milliseconds since each token in a piece of text was made. */
export function ages(text: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf("~"); at !== -1; at = text.indexOf("~", at + 1)) {
    const stamp = Number.parseInt(text.slice(at + 1, at + 1 + DIGITS), 36);
    found.push(((now() - stamp + WRAP) % WRAP) / 100);
  }
  return found;
}
