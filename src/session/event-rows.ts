import { isDelta, type IndexRange, type RunEvent, type RunEventBody } from "../domain/run-event.ts";

/**
 * How events lie in a row. Indices in a row follow each other, so that only the first is stored; a delta is its text and
 * the milliseconds since the row's time, because deltas are what a log mostly holds.
 */
type PackedEvent = [sinceMs: number, text: string] | [sinceMs: number, text: string, reasoning: 1] | { ms: number; index?: number; event: RunEventBody };

export interface EventRow {
  first: number;
  at: number;
  data: string;
}

/** Packs events into one row. There must be at least one. */
export function packEvents(events: readonly RunEvent[]): EventRow {
  const { index: first, at } = events[0] as RunEvent;
  const packed = events.map((event, offset): PackedEvent => {
    const ms = event.at - at;
    if (isDelta(event) && event.compacted === undefined && event.index === first + offset) {
      return event.type === "text.delta" ? [ms, event.text] : [ms, event.text, 1];
    }
    const { index, at: _at, ...body } = event;
    return { ms, ...(index === first + offset ? {} : { index }), event: body as RunEventBody };
  });
  return { first, at, data: JSON.stringify(packed) };
}

export function unpackEvents(row: EventRow): RunEvent[] {
  return (JSON.parse(row.data) as PackedEvent[]).map((packed, offset) => {
    const index = row.first + offset;
    if (!Array.isArray(packed)) return { index: packed.index ?? index, at: row.at + packed.ms, ...packed.event };
    const [ms, text, reasoning] = packed;
    return { index, at: row.at + ms, type: reasoning === 1 ? "reasoning.delta" : "text.delta", text };
  });
}

/**
 * The log of an ended run without its deltas: each unbroken range of them becomes one event with the whole text, which
 * carries the range's last index and says where it began.
 */
export function compactEvents(events: readonly RunEvent[]): RunEvent[] {
  const compacted: RunEvent[] = [];
  for (const event of events) {
    const last = compacted.at(-1);
    if (!isDelta(event)) {
      compacted.push(event);
      continue;
    }
    const { from } = event.compacted ?? { from: event.index };
    if (last?.type === event.type && isDelta(last) && last.index + 1 === from) {
      const range: IndexRange = { from: last.compacted?.from ?? last.index, to: event.index };
      compacted[compacted.length - 1] = { ...event, text: last.text + event.text, compacted: range };
    } else {
      compacted.push({ ...event, compacted: { from, to: event.index } });
    }
  }
  return compacted;
}
