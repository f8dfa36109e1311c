import { createParser } from "eventsource-parser";
import { until, within } from "./until.ts";

/** An event as every transport tells it: the JSON of a frame. */
export interface WireEvent {
  event: string;
  run_id: string;
  session_id: string;
  event_index: number;
  content?: unknown;
  reason?: string;
  discarded?: { from: number; to: number };
  tool?: { tool_call_id: string; tool_name: string; tool_args: Record<string, unknown>; result: string | null; tool_call_error: boolean | null };
  [field: string]: unknown;
}

export interface SseFrame {
  id?: string;
  event?: string;
  data: string;
}

export const TERMINAL = ["RunCompleted", "RunError", "RunCancelled"] as const;
export const isTerminal = ({ event }: { event: string }): boolean => (TERMINAL as readonly string[]).includes(event);

/** What a client has seen on one connection, whatever kind that is. */
export interface Seen {
  /** Events of the log, in the order they came. */
  readonly events: WireEvent[];
  until(what: string, wanted: (event: WireEvent) => boolean, withinMs?: number): Promise<WireEvent>;
  /** Resolves when the connection is over. */
  readonly closed: Promise<"ended" | "broken">;
  /** How the connection is now. */
  readonly state: "open" | "ended" | "broken";
  /** Goes away in the middle. */
  drop(): void;
}

/** An answer with server-sent events, read by a strict parser while it comes. */
export class EventStream implements Seen {
  readonly response: Response;
  readonly frames: SseFrame[] = [];
  readonly events: WireEvent[] = [];
  /** Frames that are about the stream and not in the log: `catch_up`, `subscribed`, `replay`, `error`. */
  readonly notices: Record<string, unknown>[] = [];
  readonly comments: string[] = [];
  /** The bytes as they came. */
  raw = "";
  state: Seen["state"] = "open";
  readonly closed: Promise<"ended" | "broken">;
  readonly #abort: AbortController;

  /** @param paceMs how long the reader takes over each event: nothing more is read meanwhile. */
  constructor(response: Response, abort: AbortController, paceMs = 0) {
    this.response = response;
    this.#abort = abort;
    this.closed = this.#read(paceMs).then((how) => (this.state = how));
  }

  get lastIndex(): number {
    return this.events.at(-1)?.event_index ?? -1;
  }

  until(what: string, wanted: (event: WireEvent) => boolean, withinMs = 15_000): Promise<WireEvent> {
    return until(what, () => this.events.find(wanted), { withinMs, instead: () => ({ connection: this.state, events: summary(this.events), comments: this.comments }) });
  }

  /** Waits for the end of the stream, as the server ends it. */
  async ended(withinMs = 30_000): Promise<WireEvent[]> {
    const how = await within(withinMs, `the stream to end; it has ${JSON.stringify(summary(this.events))}`, this.closed);
    if (how === "broken") throw new Error(`The stream broke after ${JSON.stringify(summary(this.events))}`);
    return this.events;
  }

  drop(): void {
    this.#abort.abort();
  }

  async #read(paceMs: number): Promise<"ended" | "broken"> {
    const arrived: SseFrame[] = [];
    const parser = createParser({
      onEvent: ({ id, event, data }) => arrived.push({ data, ...(id === undefined ? {} : { id }), ...(event === undefined ? {} : { event }) }),
      onComment: (comment) => this.comments.push(comment),
    });
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
    try {
      for await (const chunk of this.response.body ?? []) {
        const text = decoder.decode(chunk, { stream: true });
        this.raw += text;
        parser.feed(text);
        for (const frame of arrived.splice(0)) {
          this.#take(frame);
          if (paceMs > 0) await new Promise((resolve) => setTimeout(resolve, paceMs));
        }
      }
      return "ended";
    } catch {
      return "broken";
    }
  }

  #take(frame: SseFrame): void {
    this.frames.push(frame);
    const parsed = JSON.parse(frame.data) as WireEvent;
    if (parsed.event_index === undefined) this.notices.push(parsed);
    else this.events.push(parsed);
  }
}

/** What there is, short enough for a failure's message: the beginning and the end of it. */
export function summary(events: readonly WireEvent[]): string[] {
  const all = events.map(({ event, event_index }) => `${event_index} ${event}`);
  return all.length <= 40 ? all : [...all.slice(0, 10), `… ${all.length - 40} more …`, ...all.slice(-30)];
}
