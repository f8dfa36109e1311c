import type { Projection } from "../domain/projection.ts";
import type { Clock } from "../lib/clock.ts";
import type { Alarms } from "./alarms.ts";

/** What D1 can be told of: the session's row, a run's, an approval's, or that the session is gone. */
export type RowEntity = "session" | "deleted" | `run:${string}` | `approval:${string}`;
/** What D1 must hear of: one of those, or that one of them is parked, or is not any more. */
export type Entity = RowEntity | `parked:${RowEntity}`;

/** Before the name of an entity: that it is parked, or is not any more. */
export const PARKED = "parked:";

const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
/** How often D1 may say that a row itself is wrong before it is set aside. */
const MAX_REFUSALS = 5;
/** How many entities go in one batch: the documents of so many fit into memory together. */
const BATCH = 8;
/** An alarm looks after what a crash between a commit and its delivery would leave; one that stands this early will do. */
const LOOKED_AFTER_MS = 30_000;
/** As much of a reason as tells people what is wrong. */
const REASON_LENGTH = 500;

export interface OutboxParts {
  sql: SqlStorage;
  clock: Clock;
  alarms: Alarms;
  /** The release that this instance runs: another one may store what this one could not. */
  release: string;
  /** The entity's row as it is now; `undefined` when there is nothing left to tell. */
  project: (entity: Entity) => Projection | undefined;
  /** Writes rows to D1. May do so twice, or late: rows are guarded by their version. */
  deliver: (projections: Projection[]) => Promise<void>;
  /** Whether an error says that a row is wrong, rather than that D1 could not be reached. */
  isRefusal: (error: unknown) => boolean;
  /** A commit of its own, for what no turn's commit will carry. */
  commit: (change: () => void) => void;
}

/** Why and since when an entity is set aside. */
export interface Parked {
  reason: string;
  at: number;
}

interface Entry {
  /** Counts the changes; what was delivered may be behind. */
  changes: number;
  delivered: number;
  /** How often D1 has refused it since it last took it, under this release. At `MAX_REFUSALS` it is not tried any more. */
  refusals: number;
  /** Stays until D1 has the entity after all: what is tried again is still missing there. */
  parked: Parked | undefined;
  /** A refused entry is not tried before this. */
  notBefore: number;
  /** The stored row says something else than a new entry's would. */
  marked: boolean;
}

/** An entry that someone waits for, as it was when they came. */
interface Wanted {
  entity: Entity;
  entry: Entry;
  changes: number;
  refusals: number;
}

type EntryRow = { entity: string; tries: number; parked: string | null; parked_at: number | null; release: string | null };

/**
 * What this object owes D1. An entry is a name, not a row: what is delivered is the entity as it is then, so that many
 * changes are one write and order needs no care. An entry is made in the transaction of the change and goes with the next
 * commit after D1 has it; a crash in between delivers once more, which changes nothing.
 *
 * Two things can go wrong. D1 is not reached: everything waits and is tried again, for as long as it takes. D1 refuses a
 * row: that one waits alone, and after five tries it is parked, until it changes or another release tries.
 */
export class Outbox {
  readonly #parts: OutboxParts;
  readonly #entries = new Map<Entity, Entry>();
  #delivering: Promise<void> | undefined;
  /** Who waits for the end of the next try, whoever makes it. */
  #awaitingTry: (() => void)[] = [];
  /** Tries in a row that did not reach D1. */
  #failures = 0;
  /** D1 was not reached: nothing is tried before this, unless something new is to be told. */
  #pausedUntil = 0;

  constructor(parts: OutboxParts, hasTables: boolean) {
    this.#parts = parts;
    if (!hasTables) return;
    for (const row of parts.sql.exec<EntryRow>("SELECT entity, tries, parked, parked_at, release FROM outbox")) {
      this.#entries.set(row.entity as Entity, {
        changes: 1,
        delivered: 0,
        refusals: row.release === parts.release ? row.tries : 0,
        parked: row.parked === null ? undefined : { reason: row.parked, at: row.parked_at ?? 0 },
        notBefore: 0,
        marked: row.tries > 0,
      });
    }
  }

  /** Something waits that will be tried. */
  get isBehind(): boolean {
    return [...this.#entries.values()].some(isWaiting);
  }

  /** D1 does not know everything, whether or not it will be tried. */
  get owes(): boolean {
    return [...this.#entries.values()].some(isUndelivered);
  }

  /** What D1 is still to be told and will be. */
  waiting(): Entity[] {
    return [...this.#entries].flatMap(([entity, entry]) => (isWaiting(entry) ? [entity] : []));
  }

  /** Why the entity is set aside, if it is. */
  parked(entity: RowEntity): Parked | undefined {
    return this.#entries.get(entity)?.parked;
  }

  /** Call inside the transaction that changes the entity. */
  put(entity: Entity): void {
    this.#pausedUntil = 0;
    const entry = this.#entries.get(entity);
    if (entry === undefined) {
      this.#entries.set(entity, { changes: 1, delivered: 0, refusals: 0, parked: undefined, notBefore: 0, marked: false });
      this.#parts.sql.exec("INSERT INTO outbox (entity, tries) VALUES (?, 0)", entity);
      return;
    }
    entry.changes += 1;
    entry.notBefore = 0;
    // What is parked has changed, so that D1 may take it: one more try. It is parked until D1 does.
    if (entry.refusals >= MAX_REFUSALS) entry.refusals = MAX_REFUSALS - 1;
    if (entry.marked) this.#write(entity, entry);
  }

  /**
   * Call at the end of every transaction: drops the rows of what D1 has, and sees to it that an alarm stands while it does
   * not have all.
   */
  tidy(): void {
    for (const [entity, entry] of this.#entries) {
      if (isUndelivered(entry)) continue;
      this.#parts.sql.exec("DELETE FROM outbox WHERE entity = ?", entity);
      this.#entries.delete(entity);
    }
    if (!this.isBehind) return;
    const at = Math.max(this.#parts.clock.now() + LOOKED_AFTER_MS, this.#pausedUntil);
    if (!this.#parts.alarms.standsBy(at)) this.#parts.alarms.set("outbox", at);
  }

  /** Everything but a session's end is forgotten with it. A delivery that is under way ends without a trace. */
  forget(): void {
    this.#entries.clear();
    this.#tried();
  }

  /** Delivers what is due. Resolves when this try is over, whether or not D1 took it. */
  async kick(): Promise<void> {
    // Where nothing is due there is no try that could be joined by someone for whom there is.
    if (this.#isIdle) return;
    await (this.#delivering ??= this.#deliverDue());
  }

  get #isIdle(): boolean {
    return this.#delivering === undefined && this.#due().length === 0;
  }

  /** The alarm: whatever waits for another try gets it now. */
  retry(): Promise<void> {
    this.#pausedUntil = 0;
    for (const entry of this.#entries.values()) entry.notBefore = 0;
    return this.kick();
  }

  /** Resolves when D1 has the entities as they are now or has refused them, or after `ms`. */
  async waitFor(entities: readonly Entity[], ms: number): Promise<void> {
    const timeUp = new AbortController();
    const limit = this.#parts.clock.sleep(ms, timeUp.signal);
    try {
      await this.#wait(entities, ({ entry, refusals }) => entry.refusals > refusals, limit);
    } finally {
      timeUp.abort();
    }
  }

  /** Resolves when D1 has the entities as they are now, however long that takes, or has set them aside. */
  async waitUntilHeld(entities: readonly Entity[]): Promise<void> {
    await this.#wait(entities, ({ entry }) => entry.refusals >= MAX_REFUSALS, new Promise<void>(() => {}));
  }

  async #wait(entities: readonly Entity[], isHopeless: (wanted: Wanted) => boolean, limit: Promise<void>): Promise<void> {
    const wanted = entities.flatMap((entity): Wanted[] => {
      const entry = this.#entries.get(entity);
      return entry === undefined ? [] : [{ entity, entry, changes: entry.changes, refusals: entry.refusals }];
    });
    // What was forgotten with its session will never be delivered, and nobody need wait for it.
    const isOpen = (one: Wanted) => one.entry.delivered < one.changes && this.#entries.get(one.entity) === one.entry && !isHopeless(one);
    while (wanted.some(isOpen)) {
      // Where nothing is due, D1 was not reached, and the alarm tries again.
      const tried = this.#isIdle ? new Promise<void>((resolve) => this.#awaitingTry.push(resolve)) : this.kick();
      if ((await Promise.race([tried, limit.then(() => "late" as const)])) === "late") return;
    }
  }

  #due(): [Entity, Entry][] {
    const now = this.#parts.clock.now();
    return this.#isPaused ? [] : [...this.#entries].filter(([, entry]) => isWaiting(entry) && entry.notBefore <= now);
  }

  get #isPaused(): boolean {
    return this.#pausedUntil > this.#parts.clock.now();
  }

  async #deliverDue(): Promise<void> {
    try {
      for (let due = this.#due(); due.length > 0; due = this.#due()) {
        // What was refused once goes alone: a batch is taken as a whole or not at all.
        const healthy = due.filter(([, entry]) => entry.refusals === 0).slice(0, BATCH);
        const [alone] = healthy.length > 0 ? healthy : due;
        if (healthy.length > 1) await this.#deliverTogether(healthy);
        else if (alone !== undefined) await this.#deliverAlone(...alone);
      }
    } finally {
      // In the same moment as the last look, so that nobody joins a try that will not look again.
      this.#delivering = undefined;
      this.#tried();
    }
  }

  async #deliverTogether(due: [Entity, Entry][]): Promise<void> {
    try {
      await this.#deliver(due);
    } catch (error) {
      if (!this.#isRefusal(error)) return this.#pause();
      // One of them is wrong, and only it must wait.
      for (const [entity, entry] of due) if (!this.#isPaused) await this.#deliverAlone(entity, entry);
    }
  }

  async #deliverAlone(entity: Entity, entry: Entry): Promise<void> {
    const { changes } = entry;
    try {
      await this.#deliver([[entity, entry]]);
    } catch (error) {
      if (this.#isRefusal(error)) this.#refuse(entity, entry, changes, error);
      else this.#pause();
    }
  }

  async #deliver(due: [Entity, Entry][]): Promise<void> {
    const taken = due.map(([entity, entry]) => ({ entity, entry, changes: entry.changes, projection: this.#project(entity) }));
    const projections = taken.flatMap(({ projection }) => (projection === undefined ? [] : [projection]));
    if (projections.length > 0) {
      await this.#parts.deliver(projections);
      this.#failures = 0;
    }
    for (const { entity, entry, changes } of taken) {
      entry.delivered = changes;
      entry.refusals = 0;
      if (entry.parked !== undefined) this.#unpark(entity, entry);
    }
  }

  /** A row that can not even be read is wrong as well, and the others must not wait for it. */
  #project(entity: Entity): Projection | undefined {
    try {
      return this.#parts.project(entity);
    } catch (cause) {
      throw new Unreadable(messageOf(cause), { cause });
    }
  }

  #isRefusal(error: unknown): boolean {
    return error instanceof Unreadable || this.#parts.isRefusal(error);
  }

  #tried(): void {
    for (const resolve of this.#awaitingTry.splice(0)) resolve();
  }

  #refuse(entity: Entity, entry: Entry, changes: number, error: unknown): void {
    // Deleted meanwhile: an entry of the same name is another one.
    if (this.#entries.get(entity) !== entry) return;
    const { clock, alarms } = this.#parts;
    const reason = messageOf(error).slice(0, REASON_LENGTH).toWellFormed();
    this.#failures = 0;
    // What changed while it was being refused is not parked unseen.
    entry.refusals = Math.min(entry.refusals + 1, entry.changes > changes ? MAX_REFUSALS - 1 : MAX_REFUSALS);
    const isLast = entry.refusals === MAX_REFUSALS;
    entry.notBefore = clock.now() + delayAfter(entry.refusals);
    this.#parts.commit(() => {
      if (isLast) entry.parked = { reason, at: clock.now() };
      this.#write(entity, entry);
      if (!isLast) alarms.setBy("outbox", entry.notBefore);
      else if (!entity.startsWith(PARKED)) this.put(`${PARKED}${entity as RowEntity}`);
    });
    console.error(JSON.stringify({ level: "error", error: "projection_refused", entity, tries: entry.refusals, parked: isLast, message: reason }));
  }

  #unpark(entity: Entity, entry: Entry): void {
    if (this.#entries.get(entity) !== entry) return;
    entry.parked = undefined;
    this.#parts.commit(() => {
      if (isUndelivered(entry)) this.#write(entity, entry);
      if (!entity.startsWith(PARKED)) this.put(`${PARKED}${entity as RowEntity}`);
    });
  }

  #write(entity: Entity, entry: Entry): void {
    const { refusals, parked } = entry;
    entry.marked = refusals > 0 || parked !== undefined;
    const { release } = this.#parts;
    this.#parts.sql.exec(
      "UPDATE outbox SET tries = ?, parked = ?, parked_at = ?, release = ? WHERE entity = ?",
      refusals,
      parked?.reason ?? null,
      parked?.at ?? null,
      release,
      entity,
    );
  }

  /** D1 was not reached. */
  #pause(): void {
    this.#failures += 1;
    this.#pausedUntil = this.#parts.clock.now() + delayAfter(this.#failures);
    this.#parts.commit(() => this.#parts.alarms.setBy("outbox", this.#pausedUntil));
  }
}

class Unreadable extends Error {}

const isUndelivered = (entry: Entry): boolean => entry.delivered < entry.changes;
const isWaiting = (entry: Entry): boolean => isUndelivered(entry) && entry.refusals < MAX_REFUSALS;
const delayAfter = (tries: number): number => Math.min(FIRST_RETRY_MS * 2 ** (tries - 1), LAST_RETRY_MS);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
