import type { Message } from "./message.ts";

/** A place in a run from which it can be gone on from: behind each tool result, and at the end. */
export interface Checkpoint {
  /** How many messages it keeps. */
  messageIndex: number;
  isEnd: boolean;
  message: Message | undefined;
}

/** A run's checkpoints in order. Behind a result inside a parallel batch stands one as well. */
export function checkpointsOf(messages: readonly Message[]): Checkpoint[] {
  const behindResults = messages.flatMap((message, index): Checkpoint[] =>
    message.role === "tool" && index + 1 < messages.length ? [{ messageIndex: index + 1, isEnd: false, message }] : [],
  );
  return [...behindResults, { messageIndex: messages.length, isEnd: true, message: messages.at(-1) }];
}

/**
 * The nearest place at which a history may be cut: a reply that asked for calls is kept with all its results, or not at
 * all. Behind one result of a batch its siblings' are kept too; before the first of them the reply goes.
 */
export function safeCut(messages: readonly Message[], wanted: number): number {
  const isResult = (index: number) => messages[index]?.role === "tool";
  if (!isResult(wanted)) return wanted;
  if (!isResult(wanted - 1)) return wanted - 1;
  let cut = wanted;
  while (isResult(cut)) cut += 1;
  return cut;
}
