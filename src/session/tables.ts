import { AppError } from "../domain/errors.ts";

/**
 * This object's tables. A list that is only ever appended to: an object written by an older release runs what it lacks, in
 * one transaction, the first time it writes. Few tables and no second index, because a new object pays for each of them
 * and each index is one more row for every write.
 */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
   CREATE TABLE runs (
     ordinal INTEGER PRIMARY KEY,
     run_id TEXT NOT NULL UNIQUE,
     status TEXT NOT NULL,
     attempt INTEGER NOT NULL,
     priority INTEGER NOT NULL,
     reserved_until INTEGER NOT NULL,
     ended_at INTEGER,
     compacted INTEGER NOT NULL DEFAULT 0,
     data TEXT NOT NULL
   );
   CREATE TABLE messages (run INTEGER NOT NULL, position INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, position)) WITHOUT ROWID;
   CREATE TABLE effects (run INTEGER NOT NULL, step INTEGER NOT NULL, position INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, step, position)) WITHOUT ROWID;
   CREATE TABLE events (run INTEGER NOT NULL, first INTEGER NOT NULL, at INTEGER NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run, first)) WITHOUT ROWID;
   CREATE TABLE outbox (entity TEXT PRIMARY KEY, tries INTEGER NOT NULL, parked TEXT, parked_at INTEGER, release TEXT) WITHOUT ROWID;
   CREATE TABLE timers (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID;`,
];

const VERSION_KEY = "schema";

/** Whether anything was ever stored here. Asking makes no tables: probing unknown ids must not make databases. */
export function hasTables(sql: SqlStorage): boolean {
  return sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta'").toArray().length > 0;
}

/** @throws AppError `record_unreadable` when a newer release wrote the tables: refused, not damaged. */
export function refuseNewer(sql: SqlStorage): void {
  const version = schemaVersion(sql);
  if (version <= MIGRATIONS.length) return;
  throw new AppError("record_unreadable", `This session was written by a newer release (its schema is ${version}, this one knows ${MIGRATIONS.length}). Deploy that release again.`);
}

/** Brings the tables up to date. Call it inside a transaction, before the first write. */
export function migrate(sql: SqlStorage): void {
  const done = hasTables(sql) ? schemaVersion(sql) : 0;
  if (done >= MIGRATIONS.length) return;
  for (const migration of MIGRATIONS.slice(done)) sql.exec(migration);
  sql.exec("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", VERSION_KEY, String(MIGRATIONS.length));
}

const schemaVersion = (sql: SqlStorage): number =>
  Number(sql.exec<{ value: string }>("SELECT value FROM meta WHERE key = ?", VERSION_KEY).toArray()[0]?.value ?? 0);
