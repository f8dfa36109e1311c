import type { RecordedRequest } from "../../fakes/client.ts";
import { countUserText } from "../../fakes/valid-history.ts";
import { isTerminal, type WireEvent } from "./event-stream.ts";

/** Deltas are the only events that a crash may take back. */
const isDelta = ({ event }: WireEvent): boolean => event === "RunContent" || event === "ReasoningContentDelta";

interface Range {
  from: number;
  to: number;
}

export const discardedIn = (log: readonly WireEvent[]): Range[] => log.flatMap(({ discarded }) => (discarded === undefined ? [] : [discarded]));
const holds = (ranges: readonly Range[], index: number): boolean => ranges.some(({ from, to }) => from <= index && index <= to);

/** The text as a client shows it that follows what it is told to drop. */
export function textOf(log: readonly WireEvent[]): string {
  const discarded = discardedIn(log);
  return log
    .filter((event) => event.event === "RunContent" && !holds(discarded, event.event_index))
    .map((event) => String(event.content))
    .join("");
}

/** What is wrong with a finished run's log (check EV of the cases), in sentences. */
export function logProblems(log: readonly WireEvent[]): string[] {
  const problems: string[] = [];
  const discarded = discardedIn(log);
  if (log[0]?.event_index !== 0) problems.push(`The log begins with ${log[0]?.event_index}.`);
  if (log[0]?.event !== "RunStarted") problems.push(`The log begins with ${log[0]?.event}.`);
  log.forEach((event, place) => {
    const before = log[place - 1];
    if (before === undefined) return;
    if (event.event_index <= before.event_index) problems.push(`${event.event_index} follows ${before.event_index}.`);
    for (let index = before.event_index + 1; index < event.event_index; index += 1) {
      if (holds(discarded, index)) continue;
      problems.push(`${index} is missing after ${before.event_index} ${before.event}, and no event declares it.`);
      break;
    }
  });
  for (const range of discarded) if (range.from > range.to) problems.push(`The range ${range.from}–${range.to} is declared.`);
  const ends = log.filter(isTerminal);
  if (ends.length !== 1) problems.push(`There are ${ends.length} terminal events.`);
  const last = log.at(-1);
  if (last === undefined || !isTerminal(last)) problems.push(`The last event is ${last?.event}.`);
  if (last?.event === "RunCompleted" && textOf(log) !== last.content) problems.push(`The deltas say ${JSON.stringify(textOf(log))}, the end says ${JSON.stringify(last.content)}.`);
  return problems;
}

/**
 * What a client saw that is not so: an event that is gone or another one now, other than deltas that were declared; indices
 * that went back or came twice on one connection.
 */
export function seenProblems(seen: readonly WireEvent[], log: readonly WireEvent[]): string[] {
  const problems: string[] = [];
  const discarded = discardedIn(log);
  const stored = new Map(log.map((event) => [event.event_index, JSON.stringify(event)]));
  seen.forEach((event, place) => {
    const before = seen[place - 1];
    if (before !== undefined && event.event_index <= before.event_index) problems.push(`Saw ${event.event_index} after ${before.event_index}.`);
    const now = stored.get(event.event_index);
    if (now === JSON.stringify(event)) return;
    if (now === undefined && isDelta(event) && holds(discarded, event.event_index)) return;
    problems.push(`Saw ${JSON.stringify(event)}, but the log has ${now ?? "nothing there"}.`);
  });
  return problems;
}

/** Whether a connection brought everything after a cursor, without a hole. */
export function holesIn(seen: readonly WireEvent[], after: number, log: readonly WireEvent[]): string[] {
  const got = new Set(seen.map((event) => event.event_index));
  const discarded = discardedIn(log);
  return log.filter((event) => event.event_index > after && !got.has(event.event_index) && !holds(discarded, event.event_index)).map((event) => `${event.event_index} ${event.event} never came.`);
}

/** What is wrong with what the model was shown (check HV of the cases). */
export function historyProblems(requests: readonly RecordedRequest[], messages: readonly string[] = []): string[] {
  return requests.flatMap((request, place) => [
    ...request.problems.map((problem) => `Request ${place}: ${problem}`),
    ...messages.filter((message) => countUserText(request.wire, request.body, message) > 1).map((message) => `Request ${place} says ${JSON.stringify(message)} more than once.`),
  ]);
}
