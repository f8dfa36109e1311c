import { endsSegment, isTerminalEvent, type RunEvent } from "../domain/run-event.ts";
import type { FollowView } from "./commands.ts";
import type { EventLog, Follower } from "./event-log.ts";
import type { ReplayNotice, WireEncoder, WireFrame } from "./wire-encoder.ts";

/** A dead client only shows when something is written to it. */
const KEEP_ALIVE_MS = 15_000;
/** How much may wait for a reader before it has to come and get the rest from the log. */
const BUFFER_BYTES = 256 * 1024;
/** A reader that takes nothing for so many keep-alives is cut; it comes back with its cursor. */
const SILENT_KEEP_ALIVES = 4;

/**
 * Frames of one read from the provider come within a dozen microtasks of each other. After so many without a frame there is
 * none to wait for, or it comes with a later read.
 */
const QUIET_HOPS = 32;
/** A model that never waits for anything would hold its frames back until its end. */
const FLUSH_AT_CHARACTERS = 16 * 1024;

const encoder = new TextEncoder();

const sseFrame = ({ name, json }: WireFrame, index?: number): string => (index === undefined ? `event: ${name}\ndata: ${json}\n\n` : `id: ${index}\nevent: ${name}\ndata: ${json}\n\n`);

/** Whether a view shows an event. Whatever it leaves out, a stream ends with the run's end or pause. */
export function shows(view: Pick<FollowView, "only">, event: RunEvent): boolean {
  if (view.only === undefined || endsSegment(event)) return true;
  return view.only === "content" && (event.type === "text.delta" || event.type === "run.retried");
}

export interface SseFollowerParts {
  log: EventLog;
  view: FollowView;
  encoder: WireEncoder;
  /** The run will say nothing more than what was told, unless someone continues it. */
  isAtRest: () => boolean;
  /** What an AgentOS client is told before the events it missed. */
  notice: (missed: number) => ReplayNotice | undefined;
  onEnd: () => void;
}

/**
 * One SSE client. It only ever knows its cursor: while it keeps up it is handed events as they are told, and when it does
 * not, it reads the log at its own pace. So nothing piles up for a slow one and nobody else waits for it.
 */
export class SseFollower implements Follower {
  readonly response: Response;
  readonly #parts: SseFollowerParts;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #cursor: number;
  #live = false;
  #waiting = "";
  /** Someone waits to flush, for so many more microtasks. */
  #isHolding = false;
  #hopsLeft = 0;
  #keepAlive: ReturnType<typeof setInterval> | undefined;
  #silent = 0;
  #ended = false;

  constructor(parts: SseFollowerParts) {
    this.#parts = parts;
    this.#cursor = parts.view.after;
    const body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#catchUp(),
        cancel: () => this.#end(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: BUFFER_BYTES }),
    );
    this.response = new Response(body, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
    this.#keepAlive = setInterval(() => this.#tick(), KEEP_ALIVE_MS);
    parts.log.attach(this);
    this.#greet();
    this.#catchUp();
  }

  push(event: RunEvent, frame: () => WireFrame): void {
    if (!this.#live || this.#ended) return;
    if ((this.#controller.desiredSize ?? 0) - this.#waiting.length <= 0) {
      // Too far behind to be handed more: what it lacks is in the log, and `pull` says when it wants it.
      this.#live = false;
      return;
    }
    this.#cursor = event.index;
    if (shows(this.#parts.view, event)) this.#write(sseFrame(frame(), event.index));
    if (this.#isLast(event)) this.#finish();
  }

  /** Ends the stream without a terminal event: the client comes back with its cursor. */
  cut(): void {
    if (this.#ended) return;
    this.#finish();
  }

  #greet(): void {
    const { log, view } = this.#parts;
    if (view.framing !== "agentos") return;
    const notice = this.#parts.notice(Math.max(0, log.toldIndex - this.#cursor));
    if (notice !== undefined) this.#write(sseFrame(this.#parts.encoder.notice(log.identity, notice)));
  }

  #catchUp(): void {
    const { log, view } = this.#parts;
    while (!this.#live && !this.#ended && (this.#controller.desiredSize ?? 0) - this.#waiting.length > 0) {
      const events = log.read(this.#cursor);
      if (events.length === 0) return this.#arrive();
      for (const event of events) {
        this.#cursor = event.index;
        if (shows(view, event)) this.#write(sseFrame(log.frame(event), event.index));
        if (this.#isLast(event)) return this.#finish();
      }
    }
  }

  /** Everything that was told is written: from here on events come as they happen, or there are none to come. */
  #arrive(): void {
    const { log, view } = this.#parts;
    this.#live = true;
    if (this.#parts.isAtRest()) return this.#finish();
    if (view.framing === "agentos") {
      this.#write(sseFrame(this.#parts.encoder.notice(log.identity, { type: "subscribed", eventCount: log.toldIndex + 1 })));
    }
  }

  /** A pause that was followed by a continue is one event among others. */
  #isLast(event: RunEvent): boolean {
    if (isTerminalEvent(event)) return true;
    return event.type === "run.paused" && event.index === this.#parts.log.toldIndex && this.#parts.isAtRest();
  }

  /** One write for all frames that come together: a write costs more than the frames in it. */
  #write(text: string): void {
    this.#waiting += text;
    this.#hopsLeft = QUIET_HOPS;
    if (this.#isHolding) return;
    this.#isHolding = true;
    void this.#flushWhenQuiet();
  }

  // A timer of no delay would do as well, but costs a millisecond of every token's way and a fifth of its CPU.
  async #flushWhenQuiet(): Promise<void> {
    for (; this.#hopsLeft > 0 && this.#waiting.length < FLUSH_AT_CHARACTERS; this.#hopsLeft -= 1) await undefined;
    this.#isHolding = false;
    if (!this.#ended) this.#flush();
  }

  #flush(): void {
    if (this.#waiting === "") return;
    const text = this.#waiting;
    this.#waiting = "";
    try {
      this.#controller.enqueue(encoder.encode(text));
      this.#silent = 0;
    } catch {
      // The client is gone and the stream with it; the log has what it missed.
      this.#end();
    }
  }

  #tick(): void {
    if ((this.#controller.desiredSize ?? 0) <= 0) {
      this.#silent += 1;
      if (this.#silent >= SILENT_KEEP_ALIVES) this.#controller.error(new Error("The client does not read."));
      if (this.#silent >= SILENT_KEEP_ALIVES) this.#end();
      return;
    }
    this.#write(": keepalive\n\n");
  }

  #finish(): void {
    this.#flush();
    if (this.#ended) return;
    this.#end();
    try {
      this.#controller.close();
    } catch {
      // Closed by the client in the same moment.
    }
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearInterval(this.#keepAlive);
    this.#parts.log.detach(this);
    this.#parts.onEnd();
  }
}
