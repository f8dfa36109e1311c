import { createParser } from "eventsource-parser";
import type { EventSourceMessage } from "eventsource-parser";
import { isJsonObject, tryParseJson } from "../lib/json.ts";
import type { JsonObject } from "../lib/json.ts";
import type { StallWatch } from "./stall.ts";

/** One server-sent event of a provider: a JSON object, or OpenAI's `[DONE]` mark. */
export type Frame = { type: "json"; event: string; body: JsonObject } | { type: "done" };

/**
 * Reads a provider's event stream, cut into chunks anywhere. Comments, lines that are no field and events without data
 * say nothing and are passed over; an event whose data is not a JSON object is skipped with a line in the log, because
 * one line of junk from a proxy is no reason to lose the reply. Any byte, also of a comment, counts as a sign of life.
 *
 * Throws when the connection breaks; returns when the body ends. Whether the reply was whole by then is for the caller
 * to know.
 */
export async function* readFrames(body: ReadableStream<Uint8Array>, watch: StallWatch): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event) });
  try {
    while (true) {
      const { done, value } = await watch.during(reader.read());
      // Some servers leave out the blank line after their last event; the end of the body stands for it.
      parser.feed(done ? `${decoder.decode()}\n\n` : decoder.decode(value, { stream: true }));
      for (const event of events.splice(0)) {
        const frame = toFrame(event);
        if (frame) yield frame;
        // What the end of the body cut off is no junk: the reply is known to be broken.
        else if (!done && event.data.trim() !== "") console.warn(`A model provider sent an event of ${event.data.length} characters that is not a JSON object; it was skipped.`);
      }
      if (done) return;
    }
  } finally {
    // Not awaited: a body that is already broken may never answer.
    reader.cancel().catch(() => {});
  }
}

function toFrame(event: EventSourceMessage): Frame | undefined {
  const data = event.data.trim();
  if (data === "[DONE]") return { type: "done" };
  const body = tryParseJson(data);
  return isJsonObject(body) ? { type: "json", event: event.event ?? "", body } : undefined;
}
