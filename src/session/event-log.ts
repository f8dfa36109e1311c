import { type RunEvent, type RunEventBody } from "../domain/run-event.ts";
import type { Clock } from "../lib/clock.ts";
import { type EventRow, packEvents, unpackEvents } from "./event-rows.ts";
import type { RunIdentity, WireEncoder, WireFrame } from "./wire-encoder.ts";

/** Deltas wait this long, or until there is so much of them, before they are stored. */
const FLUSH_AFTER_MS = 250;
const FLUSH_AFTER_CHARACTERS = 4_096;
/** How many indices are reserved ahead in storage. A crash loses at most so many, and says which. */
export const RESERVED_AHEAD = 512;
/** How much of the log is read at a time for someone who is behind. */
const PAGE_ROWS = 32;

/** Someone who reads a run's log as it grows. */
export interface Follower {
  /** An event was told. `frame` is its words for clients, made once for all followers. */
  push(event: RunEvent, frame: () => WireFrame): void;
}

export interface EventLogParts {
  sql: SqlStorage;
  clock: Clock;
  encoder: WireEncoder;
  ordinal: number;
  identity: RunIdentity;
  /** The run's whole text, for its last event: it is not stored a second time with it. */
  content: () => string;
  /** Deltas are waiting to be stored and their time is up. */
  onFlushDue: () => void;
}

/**
 * One run's log. It has two speeds: what means something is stored, synced and then told (`write`, then `tell`); deltas are
 * told at once and stored a moment later (`tellDelta`, then the next `write`). Order of telling is always order of index.
 */
export class EventLog {
  readonly identity: RunIdentity;
  readonly #parts: EventLogParts;
  readonly #followers = new Set<Follower>();
  #next: number;
  /** Everything up to here was told. */
  #told: number;
  /** Everything up to here is in storage. */
  #storedThrough: number;
  /** Indices below this may be told: storage knows that they are taken. */
  #reservedUntil: number;
  /** Events that are not told yet, or not stored yet. Their indices follow each other. */
  #recent: RunEvent[] = [];
  /** Stored, but not known to be on disk: nothing from the first of these on may be told. */
  #unsynced: number[] = [];
  #pendingCharacters = 0;
  #flushTimer: ReturnType<typeof setTimeout> | undefined;

  /** `untold` is the last stored event, where it may not be told yet. */
  constructor(parts: EventLogParts, position: { next: number; storedThrough: number; reservedUntil: number; untold?: RunEvent }) {
    this.#parts = parts;
    this.identity = parts.identity;
    this.#next = position.next;
    this.#storedThrough = position.storedThrough;
    this.#told = position.next - 1;
    this.#reservedUntil = position.reservedUntil;
    if (position.untold === undefined) return;
    this.#told = position.untold.index - 1;
    this.#recent.push(position.untold);
    this.#unsynced.push(position.untold.index);
  }

  get nextIndex(): number {
    return this.#next;
  }

  /** The last index that anyone may have seen. */
  get toldIndex(): number {
    return this.#told;
  }

  get storedIndex(): number {
    return this.#storedThrough;
  }

  get hasFollowers(): boolean {
    return this.#followers.size > 0;
  }

  /** Tells a delta now, unless something before it is still on its way to the disk; then it waits its turn. */
  tellDelta(body: RunEventBody): void {
    const event = this.#append(body);
    this.#pendingCharacters += "text" in body ? body.text.length : 0;
    this.#tellReady();
    if (this.#pendingCharacters >= FLUSH_AFTER_CHARACTERS || event.index >= this.#reservedUntil) this.#flushDue();
    else this.#flushTimer ??= setTimeout(() => this.#flushDue(), FLUSH_AFTER_MS);
  }

  /**
   * Stores the deltas that wait and these events, in one row. Call it inside the transaction that changes what they report,
   * and `tell` once that is synced.
   * @returns the index up to which the row reaches, or `undefined` when there was nothing to store.
   */
  write(bodies: readonly RunEventBody[]): number | undefined {
    const { ordinal, sql } = this.#parts;
    for (const body of bodies) {
      const event = this.#append(body);
      // A delta that is written rather than told follows the rule of what it is written with.
      this.#unsynced.push(event.index);
    }
    const pending = this.#recent.filter((event) => event.index > this.#storedThrough);
    if (pending.length === 0) return undefined;
    const row = packEvents(pending.map(withoutContent));
    sql.exec("INSERT INTO events (run, first, at, data) VALUES (?, ?, ?, ?)", ordinal, row.first, row.at, row.data);
    this.#storedThrough = (pending.at(-1) as RunEvent).index;
    this.#pendingCharacters = 0;
    this.close();
    this.#trim();
    return this.#storedThrough;
  }

  /** What the next write should reserve, when few indices are left; else what is reserved. */
  wantedReservation(): number {
    return this.#next > this.#reservedUntil - RESERVED_AHEAD / 4 ? this.#next + RESERVED_AHEAD : this.#reservedUntil;
  }

  get reservedUntil(): number {
    return this.#reservedUntil;
  }

  /** What was written up to this index is on disk, and so is the reservation: it and what waited behind it may be told. */
  tell(through: number, reservedUntil: number): void {
    this.#reservedUntil = Math.max(this.#reservedUntil, reservedUntil);
    this.#unsynced = this.#unsynced.filter((index) => index > through);
    this.#tellReady();
    this.#trim();
  }

  /** Told events after a cursor, a page at a time. Empty: the reader is up to date. */
  read(after: number): RunEvent[] {
    if (after >= this.#told) return [];
    const events = after < this.#storedThrough ? this.#readStored(after) : this.#recent;
    const page = events.filter((event) => event.index > after && event.index <= this.#told);
    // Rows may end in a hole: what the reader lacks is then only in memory.
    return page.length > 0 ? page : this.#recent.filter((event) => event.index > after && event.index <= this.#told);
  }

  frame(event: RunEvent): WireFrame {
    return this.#parts.encoder.event(this.identity, event);
  }

  oversized(event: RunEvent, bytes: number): WireFrame {
    return this.#parts.encoder.oversized(this.identity, event, bytes);
  }

  /** From now on the follower hears of what is told. What was told before it reads itself. */
  attach(follower: Follower): void {
    this.#followers.add(follower);
  }

  detach(follower: Follower): void {
    this.#followers.delete(follower);
  }

  /** Nothing more is written: a turn that is over leaves no timer behind. */
  close(): void {
    clearTimeout(this.#flushTimer);
    this.#flushTimer = undefined;
  }

  #append(body: RunEventBody): RunEvent {
    const event: RunEvent = { index: this.#next, at: this.#parts.clock.now(), ...body };
    this.#next += 1;
    this.#recent.push(event);
    return event;
  }

  #tellReady(): void {
    const first = this.#recent[0];
    if (first === undefined) return;
    const limit = this.#unsynced.length === 0 ? this.#next - 1 : (this.#unsynced[0] as number) - 1;
    // Past the reservation an index could be given again after a crash: it waits for the write that reserves more.
    const last = Math.min(limit, this.#reservedUntil - 1);
    for (let index = Math.max(this.#told + 1, first.index); index <= last; index += 1) {
      const event = this.#recent[index - first.index] as RunEvent;
      this.#told = index;
      let frame: WireFrame | undefined;
      for (const follower of this.#followers) follower.push(event, () => (frame ??= this.frame(event)));
    }
  }

  /** Forgets what storage has and everyone was told. */
  #trim(): void {
    const first = this.#recent[0]?.index;
    const kept = Math.min(this.#told, this.#storedThrough);
    if (first !== undefined && first <= kept) this.#recent.splice(0, kept - first + 1);
  }

  #flushDue(): void {
    this.close();
    this.#parts.onFlushDue();
  }

  #readStored(after: number): RunEvent[] {
    return readEvents(this.#parts.sql, this.#parts.ordinal, after, PAGE_ROWS, this.#parts.content);
  }
}

/** Stored events after a cursor, in order; the row that holds the cursor's successor first. */
export function readEvents(sql: SqlStorage, ordinal: number, after: number, rows: number, content: () => string): RunEvent[] {
  const events: RunEvent[] = [];
  let from = sql.exec<{ first: number | null }>("SELECT MAX(first) AS first FROM events WHERE run = ? AND first <= ?", ordinal, after + 1).one().first ?? 0;
  while (events.length === 0) {
    const page = sql.exec<EventRow & Record<string, SqlStorageValue>>("SELECT first, at, data FROM events WHERE run = ? AND first >= ? ORDER BY first LIMIT ?", ordinal, from, rows).toArray();
    if (page.length === 0) break;
    for (const row of page) for (const event of unpackEvents(row)) if (event.index > after) events.push(withContent(event, content));
    from = (page.at(-1) as EventRow).first + 1;
  }
  return events;
}

/** The completed event repeats the whole text for clients; in storage the messages have it already. */
const withoutContent = (event: RunEvent): RunEvent => (event.type === "run.completed" ? { ...event, content: "" } : event);
const withContent = (event: RunEvent, content: () => string): RunEvent => (event.type === "run.completed" ? { ...event, content: content() } : event);
