import type { Seen, WireEvent } from "./event-stream.ts";
import { isTerminal, summary } from "./event-stream.ts";
import { until } from "./until.ts";

/** A session's WebSocket, with what came on it. */
export class Socket implements Seen {
  readonly frames: Record<string, unknown>[] = [];
  readonly events: WireEvent[] = [];
  /** Bytes of the largest frame. */
  largest = 0;
  state: Seen["state"] = "open";
  readonly closed: Promise<"ended" | "broken">;
  readonly #socket: WebSocket;
  readonly #opened: Promise<void>;

  constructor(url: string) {
    this.#socket = new WebSocket(url);
    this.#opened = new Promise((resolve, reject) => {
      this.#socket.addEventListener("open", () => resolve());
      this.#socket.addEventListener("error", () => reject(new Error(`The socket to ${url} could not be opened.`)));
    });
    this.#opened.catch(() => {});
    this.#socket.addEventListener("message", ({ data }) => this.#take(String(data)));
    this.closed = new Promise((resolve) => this.#socket.addEventListener("close", ({ wasClean }) => resolve((this.state = wasClean ? "ended" : "broken"))));
  }

  async opened(): Promise<this> {
    await this.#opened;
    return this;
  }

  send(message: object | string): void {
    this.#socket.send(typeof message === "string" ? message : JSON.stringify(message));
  }

  sendBytes(bytes: Uint8Array<ArrayBuffer>): void {
    this.#socket.send(bytes);
  }

  drop(): void {
    this.#socket.close();
  }

  of(runId: string): WireEvent[] {
    return this.events.filter((event) => event.run_id === runId);
  }

  frame(what: string, wanted: (frame: Record<string, unknown>) => boolean, withinMs = 15_000): Promise<Record<string, unknown>> {
    return until(what, () => this.frames.find(wanted), { withinMs, instead: () => this.frames.map(({ event, ref, error }) => ({ event, ref, error })).slice(-50) });
  }

  until(what: string, wanted: (event: WireEvent) => boolean, withinMs = 15_000): Promise<WireEvent> {
    return until(what, () => this.events.find(wanted), { withinMs, instead: () => ({ connection: this.state, events: summary(this.events) }) });
  }

  /** Waits for a run's last event. */
  end(runId: string, withinMs = 30_000): Promise<WireEvent> {
    return this.until(`the end of ${runId} on the socket`, (event) => event.run_id === runId && isTerminal(event), withinMs);
  }

  #take(text: string): void {
    this.largest = Math.max(this.largest, Buffer.byteLength(text));
    const frame = JSON.parse(text) as Record<string, unknown>;
    this.frames.push(frame);
    if (frame.event_index !== undefined) this.events.push(frame as WireEvent);
  }
}
