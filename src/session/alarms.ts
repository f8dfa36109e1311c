import type { Clock } from "../lib/clock.ts";

/** Names of what an object can be woken for. `grace:<run>` is one a run. */
export type AlarmName = "lease" | "outbox" | "retention" | `grace:${string}`;

/**
 * Many named alarms over the object's single one. A name has one time; the platform's alarm stands at the earliest. It is
 * never moved back when a name is cleared: firing once for nothing costs less than a write at every turn's end.
 */
export class Alarms {
  readonly #storage: DurableObjectStorage;
  readonly #clock: Clock;
  /** When the platform's alarm stands, as far as this instance set it. */
  #armedAt: number | undefined;

  constructor(storage: DurableObjectStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Call inside the transaction that makes the alarm necessary. */
  set(name: AlarmName, at: number): void {
    this.#storage.sql.exec("INSERT INTO timers (name, at) VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at", name, at);
    this.#armBy(at);
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
    const next = this.#storage.sql.exec<{ at: number | null }>("SELECT MIN(at) AS at FROM timers").one().at;
    if (next !== null) this.#armBy(Math.max(next, this.#clock.now()));
  }

  /** The storage was released, and the platform's alarm with it. */
  forget(): void {
    this.#armedAt = undefined;
  }

  #armBy(at: number): void {
    if (this.#armedAt !== undefined && this.#armedAt <= at) return;
    this.#armedAt = at;
    // Part of the same commit as the rows above: the platform writes the alarm with them.
    void this.#storage.setAlarm(at);
  }
}
