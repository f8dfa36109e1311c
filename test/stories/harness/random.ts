/** Chance that can be played again: the same seed gives the same numbers. */
export interface Random {
  /** From 0 up to 1. */
  next(): number;
  /** An integer, both ends included. */
  between(from: number, to: number): number;
  pick<T>(items: readonly T[]): T;
  /** A generator of its own, so that parts do not depend on how much chance the others took. */
  fork(name: string): Random;
}

export function random(seed: number): Random {
  let state = seed >>> 0;
  // mulberry32
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    pick: (items) => items[between(0, items.length - 1)]!,
    fork: (name) => random(hash(`${seed}:${name}`)),
  };
}

/** The run's seed: `STORY_SEED`, or one that is new each time and printed when something fails. */
export const storySeed = (): number => Number(process.env.STORY_SEED ?? Math.floor(Math.random() * 2 ** 31));

function hash(text: string): number {
  let value = 2166136261;
  for (const character of text) value = Math.imul(value ^ character.codePointAt(0)!, 16777619);
  return value >>> 0;
}
