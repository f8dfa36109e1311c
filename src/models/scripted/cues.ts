import type { FinishReason } from "../../domain/message.ts";
import type { Usage } from "../../domain/usage.ts";
import type { ModelErrorKind, ModelFailure } from "../model.ts";

/** How a text comes out: where it is cut, and how long the model takes over each piece. */
export interface Pace {
  /**
   * `"words"` (the default) cuts after each word; a number cuts every so many UTF-16 units, also inside a surrogate pair;
   * a list is taken as the pieces themselves.
   */
  pieces?: "words" | number | readonly string[];
  /** Milliseconds before each piece. Default 0. */
  everyMs?: number;
}

/** One thing a scripted model does while it replies. Made by the functions of this file, never by hand. */
export type Cue =
  | { cue: "say"; pieces: readonly string[]; everyMs: number }
  | { cue: "think"; pieces: readonly string[]; everyMs: number; signature?: string; redacted?: string }
  | { cue: "call"; name: string; id?: string; pieces: readonly string[]; everyMs: number }
  | { cue: "wait"; ms: number }
  | { cue: "gate"; name: string }
  | { cue: "hang" }
  | { cue: "usage"; usage: Partial<Usage> | "none" }
  | { cue: "end"; reason: FinishReason; providerData?: Record<string, unknown> }
  | { cue: "fail"; failure: ModelFailure };

/** What the model does with one request, cue by cue. */
export interface Reply {
  readonly cues: readonly Cue[];
}

/**
 * A reply: its cues in order, plain strings being said. It ends after the last of them, as `tool_calls` when it called
 * something and as `stop` when it did not, unless `end`, `refuse`, `fail` or `cutOff` ended it before.
 */
export function reply(...cues: readonly (Cue | string)[]): Reply {
  return Object.freeze({ cues: Object.freeze(cues.map((cue) => (typeof cue === "string" ? say(cue) : cue))) });
}

/** Text of the answer, in deltas. */
export const say = (text: string, pace: Pace = {}): Cue => ({ cue: "say", pieces: cut(text, pace), everyMs: pace.everyMs ?? 0 });

/** Thinking aloud, in deltas; closes the block, with the opaque proof a real provider would add. */
export const think = (text: string, options: Pace & { signature?: string; redacted?: string } = {}): Cue => ({
  cue: "think",
  pieces: cut(text, options),
  everyMs: options.everyMs ?? 0,
  ...(options.signature === undefined ? {} : { signature: options.signature }),
  ...(options.redacted === undefined ? {} : { redacted: options.redacted }),
});

/**
 * Asks for a tool. Several of them in one reply are parallel calls. Arguments given as a string go out as they are: that is how
 * a script writes text that is not JSON, is no object, or is cut off. The call comes once its last piece is written, so
 * a reply that ends while it is being written never asked for it.
 */
export const call = (name: string, args: Record<string, unknown> | string = {}, options: Pace & { id?: string } = {}): Cue => ({
  cue: "call",
  name,
  pieces: cut(typeof args === "string" ? args : JSON.stringify(args), { pieces: 16, ...options }),
  everyMs: options.everyMs ?? 0,
  ...(options.id === undefined ? {} : { id: options.id }),
});

/** Silence for so many milliseconds. */
export const wait = (ms: number): Cue => ({ cue: "wait", ms });

/**
 * Silence until someone lets the model go on: `releaseGate(name)` in the same isolate, or, for a gate that is an
 * `http:` or `https:` address, the server there answering 2xx. Whatever else it does fails the request as `connection`.
 */
export const gate = (name: string): Cue => ({ cue: "gate", name });

/** Silence until the request is aborted, or given up as `stalled`. */
export const hang = (): Cue => ({ cue: "hang" });

/** What the reply reports as used, in place of the estimate (a token for four characters); `"none"` reports nothing. */
export const usage = (used: Partial<Usage> | "none"): Cue => ({ cue: "usage", usage: used });

/** Ends the reply here, for this reason: `"length"`, `"content_filter"`, `"other:…"` for a word nobody knows. */
export const end = (reason: FinishReason, providerData?: Record<string, unknown>): Cue => ({
  cue: "end",
  reason,
  ...(providerData === undefined ? {} : { providerData }),
});

/** Ends the reply here because the model declines to go on. */
export const refuse = (): Cue => end("refusal");

/** Ends the reply here with a failure: first in a reply it is one before the stream, later one in the middle of it. */
export const fail = (kind: ModelErrorKind, details: Partial<Omit<ModelFailure, "kind">> = {}): Cue => ({
  cue: "fail",
  failure: { kind, message: `The scripted model failed as "${kind}".`, ...details },
});

/** Ends the stream here without its last frame, as a connection that was closed too early does. */
export const cutOff = (): Cue => fail("interrupted", { message: "The stream ended before its last frame." });

function cut(text: string, { pieces = "words" }: Pace): readonly string[] {
  if (typeof pieces === "object") return pieces;
  if (pieces === "words") return text.match(/\s*\S+|\s+$/g) ?? [];
  if (!(pieces >= 1)) throw new RangeError(`A text can not be cut every ${pieces} characters.`);
  const size = Math.floor(pieces);
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) => text.slice(index * size, (index + 1) * size));
}
