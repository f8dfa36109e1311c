import { AppError } from "../domain/errors.ts";
import type { AssistantMessage, UserMessage } from "../domain/message.ts";
import type { Run } from "../domain/run.ts";
import type { Session } from "../domain/session.ts";
import type { Effect } from "../domain/tool-call.ts";
import { hasTables, migrate, refuseNewer } from "./tables.ts";

/** A message that is stored as a row; what tools answered stands in the ledger. */
export type OwnMessage = UserMessage | AssistantMessage;

/** A run with what only this object needs to know about it. */
export interface StoredRun {
  /** Its place in the session, from 1, in the order of acceptance. Its other rows are keyed by it. */
  ordinal: number;
  run: Run;
  /** Waiting runs with a higher one start first. */
  priority: number;
  /** Event indices below this may have been told; after a crash numbering goes on from here. */
  reservedUntil: number;
  compacted: boolean;
}

/** What is left of a deleted session: the version its successor counts on from. */
export interface Tombstone {
  sessionId: string;
  version: number;
  at: number;
}

type RunRow = { ordinal: number; run_id: string; status: string; attempt: number; priority: number; reserved_until: number; compacted: number; data: string };

/** The rows of one session. Reads and writes only; what may be written, and together with what, is decided above. */
export class SessionStore {
  readonly #sql: SqlStorage;
  #ready: boolean;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    this.#ready = hasTables(sql);
  }

  /** Nothing was ever written here. */
  get isEmpty(): boolean {
    return !this.#ready;
  }

  /**
   * Call before anything is read.
   * @throws AppError `record_unreadable` when a newer release wrote the tables.
   */
  check(): void {
    if (this.#ready) refuseNewer(this.#sql);
  }

  /** Call before the first write of a transaction. */
  prepare(): void {
    migrate(this.#sql);
    this.#ready = true;
  }

  session(): Session | undefined {
    return this.#meta<Session>("session");
  }

  saveSession(session: Session): void {
    this.#saveMeta("session", session);
  }

  tombstone(): Tombstone | undefined {
    return this.#meta<Tombstone>("tombstone");
  }

  /** Drops every row and leaves the tombstone. */
  bury(tombstone: Tombstone): void {
    this.#sql.exec("DELETE FROM meta WHERE key = 'session'");
    for (const table of ["runs", "messages", "effects", "events", "outbox", "timers"]) this.#sql.exec(`DELETE FROM ${table}`);
    this.#saveMeta("tombstone", tombstone);
  }

  /** The storage was released; the next write begins anew. */
  reset(): void {
    this.#ready = false;
  }

  insertRun(run: Run, priority: number, reservedUntil: number): StoredRun {
    const [row] = this.#sql
      .exec<{ ordinal: number }>(
        "INSERT INTO runs (run_id, status, attempt, priority, reserved_until, ended_at, data) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING ordinal",
        run.runId,
        run.status,
        run.attempt,
        priority,
        reservedUntil,
        run.endedAt ?? null,
        JSON.stringify(run),
      )
      .toArray();
    return { ordinal: (row as { ordinal: number }).ordinal, run, priority, reservedUntil, compacted: false };
  }

  saveRun(stored: StoredRun): void {
    const { run } = stored;
    this.#sql.exec(
      "UPDATE runs SET status = ?, attempt = ?, reserved_until = MAX(reserved_until, ?), ended_at = ?, compacted = ?, data = ? WHERE ordinal = ?",
      run.status,
      run.attempt,
      stored.reservedUntil,
      run.endedAt ?? null,
      stored.compacted ? 1 : 0,
      JSON.stringify(run),
      stored.ordinal,
    );
  }

  reserve(ordinal: number, until: number): void {
    this.#sql.exec("UPDATE runs SET reserved_until = ? WHERE ordinal = ?", until, ordinal);
  }

  run(runId: string): StoredRun | undefined {
    if (!this.#ready) return undefined;
    const [row] = this.#sql.exec<RunRow>("SELECT * FROM runs WHERE run_id = ?", runId).toArray();
    return row === undefined ? undefined : toStoredRun(row);
  }

  runs(): StoredRun[] {
    if (!this.#ready) return [];
    return this.#sql.exec<RunRow>("SELECT * FROM runs ORDER BY ordinal").toArray().map(toStoredRun);
  }

  /** Newest first, read as far as the caller goes. */
  *runsBefore(ordinal: number): Generator<StoredRun> {
    const page = 16;
    let below = ordinal;
    while (true) {
      const rows = this.#sql.exec<RunRow>("SELECT * FROM runs WHERE ordinal < ? ORDER BY ordinal DESC LIMIT ?", below, page).toArray();
      for (const row of rows) yield toStoredRun(row);
      if (rows.length < page) return;
      below = (rows.at(-1) as RunRow).ordinal;
    }
  }

  /** The run that holds the line, if any, and those that wait for it in the order they will start. */
  openRuns(): { holder: StoredRun | undefined; waiting: StoredRun[] } {
    if (!this.#ready) return { holder: undefined, waiting: [] };
    const rows = this.#sql
      .exec<RunRow>("SELECT * FROM runs WHERE status IN ('running', 'pending') ORDER BY priority DESC, ordinal")
      .toArray()
      .map(toStoredRun);
    return { holder: rows.find(({ run }) => run.status === "running"), waiting: rows.filter(({ run }) => run.status === "pending") };
  }

  /** The attempt that may write, as storage has it. */
  livingAttempt(ordinal: number): number | undefined {
    return this.#sql.exec<{ attempt: number }>("SELECT attempt FROM runs WHERE ordinal = ? AND status = 'running'", ordinal).toArray()[0]?.attempt;
  }

  /** Ended runs whose deltas are due to be put together, oldest first. */
  uncompacted(endedBefore: number): StoredRun[] {
    return this.#sql.exec<RunRow>("SELECT * FROM runs WHERE compacted = 0 AND ended_at <= ? ORDER BY ordinal", endedBefore).toArray().map(toStoredRun);
  }

  oldestUncompactedEnd(): number | undefined {
    return this.#sql.exec<{ at: number | null }>("SELECT MIN(ended_at) AS at FROM runs WHERE compacted = 0 AND ended_at IS NOT NULL").one().at ?? undefined;
  }

  /** The run's own messages. What it was asked stands in the run already and is not stored a second time. */
  messages({ ordinal, run }: StoredRun): OwnMessage[] {
    const asked: UserMessage = { id: `${run.runId}:input`, role: "user", content: run.input.message, createdAt: run.createdAt };
    const later = this.#sql.exec<{ data: string }>("SELECT data FROM messages WHERE run = ? ORDER BY position", ordinal).toArray();
    return [asked, ...later.map((row) => parseRow<OwnMessage>(row.data, "message"))];
  }

  /** `position` counts from 0 with the message that the run was asked with, so the first that can be added is 1. */
  addMessage(ordinal: number, position: number, message: OwnMessage): void {
    this.#sql.exec("INSERT INTO messages (run, position, data) VALUES (?, ?, ?)", ordinal, position, JSON.stringify(message));
  }

  effects(ordinal: number): Effect[] {
    return this.#sql
      .exec<{ data: string }>("SELECT data FROM effects WHERE run = ? ORDER BY step, position", ordinal)
      .toArray()
      .map((row) => parseRow<Effect>(row.data, "tool call"));
  }

  saveEffect(ordinal: number, effect: Effect): void {
    this.#sql.exec(
      "INSERT INTO effects (run, step, position, data) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data",
      ordinal,
      effect.step,
      effect.position,
      JSON.stringify(effect),
    );
  }

  #meta<T>(key: string): T | undefined {
    if (!this.#ready) return undefined;
    const [row] = this.#sql.exec<{ value: string }>("SELECT value FROM meta WHERE key = ?", key).toArray();
    return row === undefined ? undefined : parseRow<T>(row.value, key);
  }

  #saveMeta(key: string, value: object): void {
    this.#sql.exec("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", key, JSON.stringify(value));
  }
}

const toStoredRun = (row: RunRow): StoredRun => ({
  ordinal: row.ordinal,
  run: parseRow<Run>(row.data, `run ${row.run_id}`),
  priority: row.priority,
  reservedUntil: row.reserved_until,
  compacted: row.compacted === 1,
});

/** Rows are written by this class alone, so their shape is not checked again; that they are JSON at all is. */
function parseRow<T>(text: string, what: string): T {
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new AppError("record_unreadable", `The stored ${what} can not be read.`);
  }
}
