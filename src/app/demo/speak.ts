import { type Cue, say } from "signalbox/models/scripted";

/** Milliseconds a word: fast enough to wait for, slow enough to see it stream. */
const WORD_MS = 15;

/** Text at the pace of someone typing well. */
export const speak = (text: string): Cue => say(text, { everyMs: WORD_MS });

/** Text before a tool call: set off from the answer, because what a run says is one text from its first step to its last. */
export const speakAhead = (text: string): Cue => speak(`${text}\n\n`);

/** What a tool answered, where it answered with an object; its plain words otherwise. */
export function readResult<T>(content: string): T | string {
  try {
    const value: unknown = JSON.parse(content);
    return typeof value === "object" && value !== null ? (value as T) : content;
  } catch {
    return content;
  }
}
