import { DatabaseSync, type SQLInputValue } from "node:sqlite";

/** What an object's storage is, as far as code that knows no platform class uses it: SQLite in memory and one alarm. */
export interface MemoryStorage {
  storage: DurableObjectStorage;
  /** When the platform's alarm stands. */
  alarmAt(): number | null;
}

/** Makes a Durable Object's storage for tests in Node. Transactions roll back, the alarm with them, and do not nest. */
export function memoryStorage(): MemoryStorage {
  const database = new DatabaseSync(":memory:");
  let alarm: number | null = null;
  const storage = {
    sql: { exec: (query: string, ...bindings: unknown[]) => new Cursor(database, query, bindings) },
    transactionSync<T>(work: () => T): T {
      const before = alarm;
      database.exec("BEGIN");
      try {
        const value = work();
        database.exec("COMMIT");
        return value;
      } catch (error) {
        database.exec("ROLLBACK");
        alarm = before;
        throw error;
      }
    },
    sync: async () => undefined,
    getAlarm: async () => alarm,
    setAlarm: async (at: number | Date) => {
      alarm = Number(at);
    },
    deleteAlarm: async () => {
      alarm = null;
    },
    deleteAll: async () => {
      const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
      for (const { name } of tables) database.exec(`DROP TABLE "${String(name)}"`);
    },
  };
  return { storage: storage as unknown as DurableObjectStorage, alarmAt: () => alarm };
}

/** Like the platform's, `exec` runs at once, and takes several statements where nothing is bound to them. */
class Cursor {
  readonly #rows: Record<string, unknown>[];

  constructor(database: DatabaseSync, query: string, bindings: unknown[]) {
    if (bindings.length === 0 && query.includes(";")) {
      database.exec(query);
      this.#rows = [];
    } else {
      this.#rows = database.prepare(query).all(...(bindings as SQLInputValue[])).map((row) => ({ ...row }));
    }
  }

  toArray(): Record<string, unknown>[] {
    return this.#rows;
  }

  one(): Record<string, unknown> {
    if (this.#rows.length !== 1) throw new Error(`Expected exactly one row, there are ${this.#rows.length}.`);
    return this.#rows[0]!;
  }

  [Symbol.iterator]() {
    return this.#rows[Symbol.iterator]();
  }
}
