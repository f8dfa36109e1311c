/** How often a condition is looked at. */
const LOOK_MS = 10;

/**
 * Waits for a condition and gives back what it found: the first answer that is neither `undefined` nor `false`.
 * @throws with what was waited for, and what was there instead, when the deadline passes.
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  { withinMs = 10_000, everyMs = LOOK_MS, instead }: { withinMs?: number; everyMs?: number; instead?: () => unknown } = {},
): Promise<T> {
  const deadline = Date.now() + withinMs;
  while (true) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline) {
      const there = instead === undefined ? "" : ` There is: ${JSON.stringify(instead(), undefined, 1)}`;
      throw new Error(`Waited ${withinMs} ms for ${what}.${there}`);
    }
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

/** A promise that must settle in time. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`Waited ${ms} ms for ${what}.`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
