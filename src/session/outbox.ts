import type { Projection } from "../domain/projection.ts";
import type { Clock } from "../lib/clock.ts";
import type { Alarms } from "./alarms.ts";

/** What D1 must hear of: the session's row, a run's row, or that the session is gone. */
export type Entity = "session" | "deleted" | `run:${string}`;

const FIRST_RETRY_MS = 1_000;
const LAST_RETRY_MS = 60_000;
/** How often D1 may say that a row itself is wrong before it is set aside. */
const MAX_REFUSALS = 5;

export interface OutboxParts {
  sql: SqlStorage;
  clock: Clock;
  alarms: Alarms;
  /** The entity's row as it is now; `undefined` when there is nothing left to tell. */
  project: (entity: Entity) => Projection | undefined;
  /** Writes rows to D1. May do so twice, or late: rows are guarded by their version. */
  deliver: (projections: Projection[]) => Promise<void>;
  /** Whether an error says that a row is wrong, rather than that D1 could not be reached. */
  isRefusal: (error: unknown) => boolean;
  /** A commit of its own, for what no turn's commit will carry. */
  commit: (change: () => void) => void;
}

interface Entry {
  /** Counts the changes; what was delivered may be behind. */
  changes: number;
  delivered: number;
  /** There is a row for it. */
  stored: boolean;
  refusals: number;
  parked: boolean;
}

/**
 * What this object owes D1. An entry is a name, not a row: what is delivered is the entity as it is then, so that many
 * changes are one write and order needs no care. An entry is made in the transaction of the change and goes with the next
 * commit after D1 has it; a crash in between delivers once more, which changes nothing.
 */
export class Outbox {
  readonly #parts: OutboxParts;
  readonly #entries = new Map<Entity, Entry>();
  #delivering: Promise<void> | undefined;
  #failures = 0;

  constructor(parts: OutboxParts, hasTables: boolean) {
    this.#parts = parts;
    if (!hasTables) return;
    for (const row of parts.sql.exec<{ entity: string; tries: number; parked: string | null }>("SELECT entity, tries, parked FROM outbox")) {
      this.#entries.set(row.entity as Entity, { changes: 1, delivered: 0, stored: true, refusals: row.tries, parked: row.parked !== null });
    }
  }

  /** Something waits that D1 has not heard of. */
  get isBehind(): boolean {
    return [...this.#entries.values()].some((entry) => !entry.parked && entry.delivered < entry.changes);
  }

  /** Call inside the transaction that changes the entity. */
  put(entity: Entity): void {
    const entry = this.#entries.get(entity) ?? { changes: 0, delivered: 0, stored: false, refusals: 0, parked: false };
    entry.changes += 1;
    if (!entry.stored || entry.parked) this.#parts.sql.exec("INSERT OR REPLACE INTO outbox (entity, tries, parked) VALUES (?, 0, NULL)", entity);
    Object.assign(entry, { stored: true, parked: false });
    this.#entries.set(entity, entry);
  }

  /** Drops the rows of what D1 has. Call inside a transaction that is made anyway. */
  tidy(): void {
    for (const [entity, entry] of this.#entries) {
      if (entry.parked || entry.delivered < entry.changes) continue;
      if (entry.stored) this.#parts.sql.exec("DELETE FROM outbox WHERE entity = ?", entity);
      this.#entries.delete(entity);
    }
  }

  /** Everything but a session's end is forgotten with it. */
  forget(): void {
    this.#entries.clear();
  }

  /** Delivers what waits. Resolves when this try is over, whether or not D1 took it; it never rejects. */
  kick(): Promise<void> {
    this.#delivering ??= this.#deliverAll().finally(() => {
      this.#delivering = undefined;
    });
    return this.#delivering;
  }

  /** Resolves when D1 has the entity as it is now, or after `ms`. */
  async waitFor(entities: readonly Entity[], ms: number): Promise<void> {
    const wanted = entities.map((entity) => [entity, this.#entries.get(entity)?.changes ?? 0] as const);
    const isThere = () =>
      wanted.every(([entity, changes]) => {
        const entry = this.#entries.get(entity);
        return entry === undefined || entry.delivered >= changes;
      });
    const timeUp = new AbortController();
    const limit = this.#parts.clock.sleep(ms, timeUp.signal).then(() => "late" as const);
    try {
      while (!isThere()) {
        const failures = this.#failures;
        if ((await Promise.race([this.kick().then(() => "tried" as const), limit])) === "late") return;
        if (this.#failures > failures && !isThere()) {
          await limit;
          return;
        }
      }
    } finally {
      timeUp.abort();
    }
  }

  async #deliverAll(): Promise<void> {
    while (true) {
      const due = [...this.#entries].filter(([, entry]) => !entry.parked && entry.delivered < entry.changes);
      if (due.length === 0) return;
      try {
        await this.#deliver(due);
        this.#failures = 0;
      } catch (error) {
        if (!this.#parts.isRefusal(error)) return this.#retryLater();
        await this.#deliverEach(due);
      }
    }
  }

  async #deliver(due: [Entity, Entry][]): Promise<void> {
    const taken = due.map(([entity, entry]) => ({ entry, changes: entry.changes, projection: this.#parts.project(entity) }));
    const projections = taken.flatMap(({ projection }) => (projection === undefined ? [] : [projection]));
    if (projections.length > 0) await this.#parts.deliver(projections);
    for (const { entry, changes } of taken) entry.delivered = Math.max(entry.delivered, changes);
  }

  /** One of them is wrong: the others must not wait for it. */
  async #deliverEach(due: [Entity, Entry][]): Promise<void> {
    for (const [entity, entry] of due) {
      try {
        await this.#deliver([[entity, entry]]);
      } catch (error) {
        if (!this.#parts.isRefusal(error)) return this.#retryLater();
        entry.refusals += 1;
        entry.parked = entry.refusals >= MAX_REFUSALS;
        const reason = error instanceof Error ? error.message : String(error);
        this.#parts.commit(() => this.#parts.sql.exec("UPDATE outbox SET tries = ?, parked = ? WHERE entity = ?", entry.refusals, entry.parked ? reason : null, entity));
        console.error(`The row of "${entity}" was refused by D1 (${entry.refusals} of ${MAX_REFUSALS}): ${reason}`);
      }
    }
  }

  #retryLater(): void {
    this.#failures += 1;
    const delay = Math.min(FIRST_RETRY_MS * 2 ** (this.#failures - 1), LAST_RETRY_MS);
    this.#parts.commit(() => this.#parts.alarms.set("outbox", this.#parts.clock.now() + delay));
  }
}
