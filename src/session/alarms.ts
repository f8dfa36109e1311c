import type { Clock } from "../lib/clock.ts";

/** Names of what an object can be woken for. `grace:<run>` and `expiry:<approval>` are one each. */
export type AlarmName = "lease" | "outbox" | "retention" | `grace:${string}` | `expiry:${string}`;

/** An alarm that is later than this was given up: the platform tries six times and then no more. */
const GIVEN_UP_MS = 60_000;

/**
 * Many named alarms over the object's single one. A name has one time; the platform's alarm stands at the earliest. It is
 * never moved back when a name is cleared: firing once for nothing costs less than a write at every turn's end.
 */
export class Alarms {
  readonly #storage: DurableObjectStorage;
  readonly #clock: Clock;
  /** When the platform's alarm stands, as far as this instance set it. */
  #armedAt: number | undefined;
  #looked = false;

  constructor(storage: DurableObjectStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Call inside the transaction that makes the alarm necessary. */
  set(name: AlarmName, at: number): void {
    this.#storage.sql.exec("INSERT INTO timers (name, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at", name, at);
    this.#armBy(at);
  }

  /** As `set`, unless the name has an earlier time. */
  setBy(name: AlarmName, at: number): void {
    const stands = this.at(name);
    this.set(name, stands === undefined ? at : Math.min(stands, at));
  }

  /** Whether this instance knows that the platform's alarm will have fired by then, whatever for. */
  standsBy(at: number): boolean {
    return this.#armedAt !== undefined && this.#armedAt <= at && !this.#isGivenUp(this.#armedAt);
  }

  clear(name: AlarmName): void {
    this.#storage.sql.exec("DELETE FROM timers WHERE name = ?", name);
  }

  at(name: AlarmName): number | undefined {
    return this.#storage.sql.exec<{ at: number }>("SELECT at FROM timers WHERE name = ?", name).toArray()[0]?.at;
  }

  due(): AlarmName[] {
    return this.#storage.sql
      .exec<{ name: string }>("SELECT name FROM timers WHERE at <= ? ORDER BY at", this.#clock.now())
      .toArray()
      .map((row) => row.name as AlarmName);
  }

  /** The platform's alarm fired, so none stands: arm it for what is named next. */
  rearm(): void {
    this.#armedAt = undefined;
    this.#looked = true;
    const next = this.#next();
    if (next !== null) this.#arm(next);
  }

  /** An instance's first look: what is named may be long due, where the platform gave the alarm up. */
  rearmIfGivenUp(): void {
    if (this.#looked) return;
    this.#looked = true;
    const next = this.#next();
    if (next !== null && this.#isGivenUp(next)) this.#arm(next);
  }

  /** The storage was released, and the platform's alarm with it. */
  forget(): void {
    this.#armedAt = undefined;
  }

  #armBy(at: number): void {
    if (this.standsBy(at)) return;
    // What an earlier instance armed stands no later than what is named first, and must not be moved back.
    this.#arm(Math.min(at, this.#next() ?? at));
  }

  #arm(at: number): void {
    this.#armedAt = Math.max(at, this.#clock.now());
    // Part of the same commit as the rows above: the platform writes the alarm with them.
    void this.#storage.setAlarm(this.#armedAt);
  }

  #next(): number | null {
    return this.#storage.sql.exec<{ at: number | null }>("SELECT MIN(at) AS at FROM timers").one().at;
  }

  #isGivenUp(at: number): boolean {
    return at < this.#clock.now() - GIVEN_UP_MS;
  }
}
