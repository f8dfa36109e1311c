import type { Approval } from "../domain/approval.ts";
import { AppError } from "../domain/errors.ts";
import type { AssistantMessage, UserMessage } from "../domain/message.ts";
import type { Run } from "../domain/run.ts";
import type { Session } from "../domain/session.ts";
import type { Effect } from "../domain/tool-call.ts";
import { hasTables, migrate, refuseNewer } from "./tables.ts";

/** How many turns may wait for the line of one session. */
export const MAX_WAITING = 100;

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

/** A run with its rows, which are parsed when they are asked for: not every run is history. */
export interface PastRows {
  stored: StoredRun;
  messages: () => OwnMessage[];
  effects: () => Effect[];
}

const FIRST_PAGE = 4;

type RunRow = { ordinal: number; run_id: string; status: string; attempt: number; priority: number; reserved_until: number; ended_at: number | null; compacted: number; data: string };

/** An unfinished run, or the one that ended last, with its rows as far as they were asked for. */
interface KeptRun {
  row: RunRow;
  messages?: string[];
  effects?: string[];
}

/**
 * The rows of one session. Reads and writes only; what may be written, and together with what, is decided above.
 *
 * A turn asks for the same few rows dozens of times. They are kept as this instance, which alone writes them, last wrote
 * or read them; as text, so that each reader gets objects of its own.
 */
export class SessionStore {
  readonly #sql: SqlStorage;
  #ready: boolean;
  /** The tables are known to be of this release. */
  #migrated = false;
  readonly #keptMeta = new Map<string, string | undefined>();
  #kept: Map<number, KeptRun> | undefined;

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
    if (this.#migrated) return;
    migrate(this.#sql);
    this.#ready = true;
    this.#migrated = true;
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
    this.forget();
    this.#sql.exec("DELETE FROM meta WHERE key = 'session' OR key LIKE 'approval:%'");
    for (const table of ["runs", "messages", "effects", "events", "outbox", "timers"]) this.#sql.exec(`DELETE FROM ${table}`);
    this.#saveMeta("tombstone", tombstone);
  }

  /** The storage was released; the next write begins anew. */
  reset(): void {
    this.#ready = false;
    this.forget();
  }

  /** What is kept in memory may not be what storage has: the next question asks storage. */
  forget(): void {
    this.#migrated = false;
    this.#keptMeta.clear();
    this.#kept = undefined;
  }

  approval(id: string): Approval | undefined {
    return this.#meta<Approval>(approvalKey(id));
  }

  /** Approvals of one run, oldest first: its pauses follow each other. */
  approvalsOf(runId: string): Approval[] {
    if (!this.#ready) return [];
    return this.#sql
      .exec<{ value: string }>("SELECT value FROM meta WHERE key >= ? AND key < ?", approvalKey(""), approvalKey("\uffff"))
      .toArray()
      .map((row) => parseRow<Approval>(row.value, "approval"))
      .filter((approval) => approval.runId === runId)
      .sort((a, b) => a.createdAt - b.createdAt);
  }

  saveApproval(approval: Approval): void {
    this.#saveMeta(approvalKey(approval.id), approval);
  }

  deleteApproval(id: string): void {
    this.#keptMeta.delete(approvalKey(id));
    this.#sql.exec("DELETE FROM meta WHERE key = ?", approvalKey(id));
  }

  insertRun(run: Run, priority: number, reservedUntil: number): StoredRun {
    const data = JSON.stringify(run);
    const { runId: run_id, status, attempt, endedAt: ended_at = null } = run;
    const { ordinal } = this.#sql
      .exec<{ ordinal: number }>(
        "INSERT INTO runs (run_id, status, attempt, priority, reserved_until, ended_at, data) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING ordinal",
        run_id,
        status,
        attempt,
        priority,
        reservedUntil,
        ended_at,
        data,
      )
      .one();
    const row = { ordinal, run_id, status, attempt, priority, reserved_until: reservedUntil, ended_at, compacted: 0, data };
    this.#keep({ row, messages: [], effects: [] });
    return { ordinal, run, priority, reservedUntil, compacted: false };
  }

  saveRun(stored: StoredRun): void {
    const { run, ordinal, priority } = stored;
    const kept = this.#keptRun(ordinal);
    const row: RunRow = {
      ordinal,
      run_id: run.runId,
      status: run.status,
      attempt: run.attempt,
      priority,
      reserved_until: Math.max(stored.reservedUntil, kept?.row.reserved_until ?? 0),
      ended_at: run.endedAt ?? null,
      compacted: stored.compacted ? 1 : 0,
      data: JSON.stringify(run),
    };
    this.#sql.exec(
      "UPDATE runs SET status = ?, attempt = ?, priority = ?, reserved_until = MAX(reserved_until, ?), ended_at = ?, compacted = ?, data = ? WHERE ordinal = ?",
      row.status,
      row.attempt,
      row.priority,
      row.reserved_until,
      row.ended_at,
      row.compacted,
      row.data,
      ordinal,
    );
    if (kept !== undefined || isOpen(row)) this.#keep({ ...kept, row });
  }

  reserve(ordinal: number, until: number): void {
    this.#sql.exec("UPDATE runs SET reserved_until = ? WHERE ordinal = ?", until, ordinal);
    const kept = this.#keptRun(ordinal);
    if (kept !== undefined) kept.row = { ...kept.row, reserved_until: until };
  }

  run(runId: string): StoredRun | undefined {
    if (!this.#ready) return undefined;
    for (const { row } of this.#keptRuns().values()) if (row.run_id === runId) return toStoredRun(row);
    const [row] = this.#sql.exec<RunRow>("SELECT * FROM runs WHERE run_id = ?", runId).toArray();
    return row === undefined ? undefined : toStoredRun(row);
  }

  runs(): StoredRun[] {
    if (!this.#ready) return [];
    return this.#sql.exec<RunRow>("SELECT * FROM runs ORDER BY ordinal").toArray().map(toStoredRun);
  }

  /** Newest first, read as far as the caller goes: in pages that grow, for most callers want the last few or all. */
  *runsBefore(ordinal: number): Generator<PastRows> {
    let below = ordinal;
    for (let page = FIRST_PAGE; ; page *= 2) {
      const rows = this.#sql.exec<RunRow>("SELECT * FROM runs WHERE ordinal < ? ORDER BY ordinal DESC LIMIT ?", below, page).toArray();
      const last = rows.at(-1);
      if (last === undefined) return;
      const messages = this.#textsByRun("SELECT run, data FROM messages WHERE run >= ? AND run < ? ORDER BY run, position", last.ordinal, below);
      const effects = this.#textsByRun("SELECT run, data FROM effects WHERE run >= ? AND run < ? ORDER BY run, step, position", last.ordinal, below);
      for (const row of rows) {
        const stored = toStoredRun(row);
        yield { stored, messages: () => withInput(stored.run, messages.get(row.ordinal) ?? []), effects: () => toEffects(effects.get(row.ordinal) ?? []) };
      }
      if (rows.length < page) return;
      below = last.ordinal;
    }
  }

  /**
   * Names the run that a run's messages began in: its own id, or that of the run it goes on from, however far back. An answer
   * that was given anew beside the old one, which stays, begins a line of its own.
   */
  lineOf(run: Run): string {
    for (let from = run; ; ) {
      const source = from.forkedFromRunId === undefined ? undefined : this.run(from.forkedFromRunId)?.run;
      if (source === undefined || (from.regeneratedFrom !== undefined && source.status !== "regenerated")) return from.runId;
      from = source;
    }
  }

  /** The run that holds the line, if any, and those that wait for it in the order they will start. */
  openRuns(): { holder: StoredRun | undefined; waiting: StoredRun[] } {
    if (!this.#ready) return { holder: undefined, waiting: [] };
    const rows = [...this.#keptRuns().values()]
      .map(({ row }) => row)
      .filter(isOpen)
      .map(toStoredRun);
    const since = ({ run }: StoredRun) => run.queuedAt ?? run.createdAt;
    const waiting = rows.filter(({ run }) => run.status === "pending").sort((a, b) => b.priority - a.priority || since(a) - since(b) || a.ordinal - b.ordinal);
    return { holder: rows.find(({ run }) => run.status === "running"), waiting };
  }

  pausedRuns(): StoredRun[] {
    return this.#sql.exec<RunRow>("SELECT * FROM runs WHERE status = 'paused' ORDER BY ordinal").toArray().map(toStoredRun);
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
    const kept = this.#keptRun(ordinal);
    const later = kept?.messages ?? this.#texts("SELECT data FROM messages WHERE run = ? ORDER BY position", ordinal);
    if (kept !== undefined) kept.messages = later;
    return withInput(run, later);
  }

  /** `position` counts from 0 with the message that the run was asked with, so the first that can be added is 1. */
  addMessage(ordinal: number, position: number, message: OwnMessage): void {
    const data = JSON.stringify(message);
    this.#sql.exec("INSERT INTO messages (run, position, data) VALUES (?, ?, ?)", ordinal, position, data);
    this.#keptRun(ordinal)?.messages?.push(data);
  }

  effects(ordinal: number): Effect[] {
    const kept = this.#keptRun(ordinal);
    const rows = kept?.effects ?? this.#texts("SELECT data FROM effects WHERE run = ? ORDER BY step, position", ordinal);
    if (kept !== undefined) kept.effects = rows;
    return toEffects(rows);
  }

  saveEffect(ordinal: number, effect: Effect): void {
    this.#sql.exec(
      "INSERT INTO effects (run, step, position, data) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data",
      ordinal,
      effect.step,
      effect.position,
      JSON.stringify(effect),
    );
    const kept = this.#keptRun(ordinal);
    if (kept !== undefined) kept.effects = undefined;
  }

  /** All runs that are open, and the one that ended last. */
  #keptRuns(): Map<number, KeptRun> {
    if (this.#kept === undefined) {
      const rows = this.#ready ? this.#sql.exec<RunRow>("SELECT * FROM runs WHERE status IN ('running', 'pending')").toArray() : [];
      this.#kept = new Map(rows.map((row) => [row.ordinal, { row }]));
    }
    return this.#kept;
  }

  #keptRun(ordinal: number): KeptRun | undefined {
    return this.#keptRuns().get(ordinal);
  }

  #keep(run: KeptRun): void {
    const kept = this.#keptRuns();
    const { ordinal } = run.row;
    if (!isOpen(run.row)) for (const other of kept.values()) if (!isOpen(other.row)) kept.delete(other.row.ordinal);
    kept.set(ordinal, run);
  }

  #texts(query: string, ordinal: number): string[] {
    return this.#sql.exec<{ data: string }>(query, ordinal).toArray().map((row) => row.data);
  }

  #textsByRun(query: string, from: number, below: number): Map<number, string[]> {
    const rows = this.#sql.exec<{ run: number; data: string }>(query, from, below).toArray();
    return new Map([...Map.groupBy(rows, (row) => row.run)].map(([run, own]) => [run, own.map((row) => row.data)]));
  }

  #meta<T>(key: string): T | undefined {
    if (!this.#ready) return undefined;
    if (!this.#keptMeta.has(key)) this.#keptMeta.set(key, this.#sql.exec<{ value: string }>("SELECT value FROM meta WHERE key = ?", key).toArray()[0]?.value);
    const value = this.#keptMeta.get(key);
    return value === undefined ? undefined : parseRow<T>(value, key);
  }

  #saveMeta(key: string, value: object): void {
    const text = JSON.stringify(value);
    this.#sql.exec("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value", key, text);
    this.#keptMeta.set(key, text);
  }
}

const approvalKey = (id: string): string => `approval:${id}`;
const isOpen = (row: RunRow): boolean => row.status === "running" || row.status === "pending";

function withInput(run: Run, later: readonly string[]): OwnMessage[] {
  const asked: UserMessage = { id: `${run.runId}:input`, role: "user", content: run.input.message, createdAt: run.createdAt };
  return [asked, ...later.map((data) => parseRow<OwnMessage>(data, "message"))];
}

const toEffects = (rows: readonly string[]): Effect[] => rows.map((data) => parseRow<Effect>(data, "tool call"));

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
