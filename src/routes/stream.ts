import { isTerminalEvent } from "../domain/run-event.ts";
import { isTerminal } from "../domain/run.ts";
import type { RunReading } from "../session/commands.ts";
import type { WireFrame } from "../session/wire-encoder.ts";
import { wireEncoder } from "./wire.ts";

/** What keeps proxies from holding back, changing or caching a stream. */
export const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
} as const;

/** A stream that the session's object wrote, its bytes untouched. */
export const relayed = (stream: Response): Response => new Response(stream.body, { headers: STREAM_HEADERS });

/** A run that only D1 still has, as the stream its object would write. */
export function replayed({ record, events }: RunReading, view: { after: number; framing: "plain" | "agentos" }): Response {
  const missed = events.filter((event) => event.index > view.after);
  const frames = missed.map((event) => frame(wireEncoder.event(record, event), event.index));
  if (view.framing === "agentos") {
    const notice = {
      type: "replay",
      status: record.status,
      totalEvents: missed.length,
      totalBuffered: events.length,
      lastEventIndexRequested: view.after,
    } as const;
    frames.unshift(frame(wireEncoder.notice(record, notice)));
  }
  return new Response(frames.join(""), { headers: STREAM_HEADERS });
}

/** The one frame of a replay that cannot be. */
export const failedReplay = (runId: string, error: string): Response =>
  new Response(frame(wireEncoder.notice({ runId }, { type: "error", error })), { headers: STREAM_HEADERS });

/** Whether nothing will come after a cursor: what tells an EventSource to stop. */
export const isPastEnd = ({ record, events }: RunReading, after: number): boolean =>
  isTerminal(record.status) && events.some((event) => isTerminalEvent(event) && event.index <= after);

const frame = ({ name, json }: WireFrame, index?: number): string => `${index === undefined ? "" : `id: ${index}\n`}event: ${name}\ndata: ${json}\n\n`;
