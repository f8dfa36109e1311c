import type { Message } from "../domain/message.ts";
import type { Effect } from "../domain/tool-call.ts";

/**
 * What the newest reply's calls have answered whose tools end the run with their result (`stopAfterCall`), in the order of
 * the calls; `undefined` when there are none, or when the user has spoken since. A run's text and its events both take it
 * from here, so that they agree.
 */
export function toolAnswer(messages: readonly Message[], effects: readonly Effect[]): string | undefined {
  if (messages.at(-1)?.role === "user") return undefined;
  const step = messages.filter((message) => message.role === "assistant").length - 1;
  const answers = effects.filter((effect) => effect.step === step && effect.stopAfter === true && effect.status === "done");
  return answers.length === 0 ? undefined : answers.map((effect) => effect.result ?? "").join("\n");
}
