/** What one session's object wrote: its own rows, and D1's through it. */
export interface Counts {
  rows: number;
  /** Of the rows, by statement. An alarm that is set or deleted is a row. */
  byStatement: Record<string, number>;
  /** Bytes of the values that were bound in statements that wrote. */
  bytes: number;
  transactions: number;
  syncs: number;
  d1Rows: number;
  d1Bytes: number;
  d1Batches: number;
}

type Values = readonly unknown[];

const ALARM = "(alarm)";

/** Counts what goes through a Durable Object's storage and through its D1 binding. */
export class WriteCounter {
  /** Statements are counted when asked for: a cursor knows its rows only once it was read. */
  readonly #executed: { sql: string; values: Values; cursor: { readonly rowsWritten: number } }[] = [];
  #alarms = 0;
  #transactions = 0;
  #syncs = 0;
  readonly #d1 = { d1Rows: 0, d1Bytes: 0, d1Batches: 0 };

  read(): Counts {
    const byStatement: Record<string, number> = this.#alarms === 0 ? {} : { [ALARM]: this.#alarms };
    let rows = this.#alarms;
    let bytes = 0;
    for (const { sql, values, cursor } of this.#executed) {
      if (cursor.rowsWritten === 0) continue;
      const name = sql.trim().split(/\s+/).slice(0, 4).join(" ");
      byStatement[name] = (byStatement[name] ?? 0) + cursor.rowsWritten;
      rows += cursor.rowsWritten;
      bytes += bytesOf(values);
    }
    return { rows, byStatement, bytes, transactions: this.#transactions, syncs: this.#syncs, ...this.#d1 };
  }

  /** Puts the counter between an object and its storage. The runtime takes no substitute for the context itself. */
  watch(context: DurableObjectState): DurableObjectState {
    const { storage } = context;
    const sql = withMethods(storage.sql, {
      exec: (text: string, ...values: unknown[]) => {
        const cursor = storage.sql.exec(text, ...values);
        this.#executed.push({ sql: text, values, cursor });
        return cursor;
      },
    });
    const watched = withMethods(storage, {
      sql,
      setAlarm: (...given: Parameters<DurableObjectStorage["setAlarm"]>) => {
        this.#alarms += 1;
        return storage.setAlarm(...given);
      },
      deleteAlarm: (...given: Parameters<DurableObjectStorage["deleteAlarm"]>) => {
        this.#alarms += 1;
        return storage.deleteAlarm(...given);
      },
      transactionSync: <T>(work: () => T): T => {
        this.#transactions += 1;
        return storage.transactionSync(work);
      },
      sync: () => {
        this.#syncs += 1;
        return storage.sync();
      },
    });
    Object.defineProperty(context, "storage", { value: watched });
    return context;
  }

  /** The bindings with a database that is counted. */
  watchBindings<E extends { DB: D1Database }>(env: E): E {
    const { DB } = env;
    const database = withMethods(DB, {
      prepare: (sql: string) => this.#watchStatement(DB.prepare(sql), []),
      batch: async (statements: WatchedStatement[]) => {
        this.#d1.d1Batches += 1;
        const results = await DB.batch(statements.map((statement) => statement[STATEMENT]));
        for (const [index, { meta }] of results.entries()) this.#addD1(meta, statements[index]?.[VALUES] ?? []);
        return results;
      },
    });
    return { ...env, DB: database };
  }

  #watchStatement(statement: D1PreparedStatement, values: Values): WatchedStatement {
    const counted = async <R extends { meta: D1Meta }>(result: Promise<R>): Promise<R> => {
      const answer = await result;
      this.#addD1(answer.meta, values);
      return answer;
    };
    return withMethods(statement, {
      [STATEMENT]: statement,
      [VALUES]: values,
      bind: (...bound: unknown[]) => this.#watchStatement(statement.bind(...bound), bound),
      run: () => counted(statement.run()),
      all: () => counted(statement.all()),
    }) as WatchedStatement;
  }

  #addD1({ rows_written: rows }: D1Meta, values: Values): void {
    if (rows === 0) return;
    this.#d1.d1Rows += rows;
    this.#d1.d1Bytes += bytesOf(values);
  }
}

const STATEMENT = Symbol("statement");
const VALUES = Symbol("values");

type WatchedStatement = D1PreparedStatement & { [STATEMENT]: D1PreparedStatement; [VALUES]: Values };

/** An object of the runtime with some members of ours. Its own methods insist on the object itself as `this`. */
function withMethods<T extends object>(target: T, members: Record<string | symbol, unknown>): T {
  return new Proxy(target, {
    get(_target, name) {
      if (Object.hasOwn(members, name)) return members[name];
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

const encoder = new TextEncoder();

const bytesOf = (values: Values): number => values.reduce<number>((sum, value) => sum + (typeof value === "string" ? encoder.encode(value).byteLength : value === null ? 0 : 8), 0);
