import type { Registry } from "../components/registry.ts";
import type { ModelChoice } from "../define/agent.ts";
import type { Projection } from "../domain/projection.ts";
import { endsSegment, type RunEvent, type RunEventBody } from "../domain/run-event.ts";
import { isTerminal, type Run, type RunRecord } from "../domain/run.ts";
import type { Clock } from "../lib/clock.ts";
import type { Model } from "../models/model.ts";
import { Alarms } from "./alarms.ts";
import { EventLog, readEvents } from "./event-log.ts";
import { compactEvents } from "./event-rows.ts";
import { type Entity, Outbox, PARKED, type RowEntity } from "./outbox.ts";
import { SessionStore, type StoredRun } from "./store.ts";
import { contentOf, toRecord } from "./transcript.ts";
import type { RunIdentity, WireEncoder } from "./wire-encoder.ts";

/** What the session is made from: all it needs of the platform and of the layers above. */
export interface SessionParts {
  /** The object's name. */
  sessionId: string;
  /** The release that runs: what one could not store, the next one tries again. */
  release: string;
  storage: DurableObjectStorage;
  env: Cloudflare.Env;
  clock: Clock;
  registry: Registry;
  encoder: WireEncoder;
  resolveModel: (choice: ModelChoice, env: Cloudflare.Env) => Model;
  /** Writes projections to D1. */
  deliver: (projections: Projection[]) => Promise<void>;
  isRefusal: (error: unknown) => boolean;
  /** Resets the object: what memory holds can no longer be trusted. */
  abort: (reason: string) => void;
}

/** SQLite reads this as "no limit". */
const ALL_ROWS = -1;

const APPROVAL = "approval:";

/** A commit that is made but maybe not on disk yet. */
export interface Written {
  tell: () => void;
}

/** The object's storage with what keeps it whole: one way to commit, the logs, the alarms and the outbox. */
export class SessionCore {
  readonly parts: SessionParts;
  readonly store: SessionStore;
  readonly alarms: Alarms;
  readonly outbox: Outbox;
  readonly #logs = new Map<number, EventLog>();
  /** How many turns and tellings need the log of a run, by ordinal. */
  readonly #pinned = new Map<number, number>();
  /** Runs whose newest changes were not told yet, as they were before each of those, oldest first: readers see the first. */
  readonly #untold = new Map<string, Run[]>();

  constructor(parts: SessionParts) {
    const { storage, clock } = parts;
    this.parts = parts;
    this.store = new SessionStore(storage.sql);
    this.alarms = new Alarms(storage, clock);
    this.outbox = new Outbox(
      {
        sql: storage.sql,
        clock,
        alarms: this.alarms,
        release: parts.release,
        project: (entity) => this.#project(entity),
        deliver: parts.deliver,
        isRefusal: parts.isRefusal,
        commit: (change) => this.commit(change),
      },
      !this.store.isEmpty,
    );
  }

  /** All of `change` or nothing. It must not await. What D1 has already is dropped from the outbox on the way. */
  commit(change: () => void): void {
    try {
      this.parts.storage.transactionSync(() => {
        this.store.prepare();
        change();
        this.outbox.tidy();
      });
    } catch (error) {
      // Storage kept nothing of it, but memory may have: only a fresh instance is sure to agree with storage.
      this.store.forget();
      this.parts.abort(`A commit failed: ${error instanceof Error ? error.message : String(error)}`);
      throw error;
    }
  }

  /** Commits, waits for the disk, and tells the events. Resolves when they are told. */
  async record(stored: StoredRun, events: readonly RunEventBody[], change?: () => void): Promise<void> {
    const written = this.write(() => stored, events, change);
    await this.parts.storage.sync();
    written.tell();
  }

  /**
   * Commits without waiting. `tell` may be called once the disk has it.
   * @param run says whose events they are, once `change` is made: the run's row may only come into being with it.
   */
  write(run: () => StoredRun, events: readonly RunEventBody[], change?: () => void): Written {
    let log!: EventLog;
    let through: number | undefined;
    let reserved = 0;
    this.commit(() => {
      change?.();
      const stored = run();
      log = this.log(stored);
      through = log.write(events);
      reserved = log.wantedReservation();
      if (reserved > log.reservedUntil) this.store.reserve(stored.ordinal, reserved);
    });
    return { tell: () => log.tell(through ?? -1, reserved) };
  }

  /** Gives the storage back. What memory knew of it goes too. */
  async erase(): Promise<void> {
    this.store.reset();
    this.alarms.forget();
    this.outbox.forget();
    const { storage } = this.parts;
    await Promise.all([storage.deleteAlarm(), storage.deleteAll()]);
  }

  /** The log of a run; one object a run as long as someone needs it. */
  log(stored: StoredRun): EventLog {
    const known = this.#logs.get(stored.ordinal);
    if (known !== undefined) return known;
    const { storage, clock, encoder } = this.parts;
    const last = this.#lastStored(stored);
    const storedThrough = last?.index ?? -1;
    // Where a crash left a run, anything that was reserved may have been told. At its start, its end and its pauses nothing was that is not stored.
    const mayBeTold = last === undefined || endsSegment(last) ? 0 : stored.reservedUntil;
    const log: EventLog = new EventLog(
      {
        sql: storage.sql,
        clock,
        encoder,
        ordinal: stored.ordinal,
        identity: identityOf(stored.run),
        content: () => this.#content(stored),
        onFlushDue: () => {
          const written = this.write(() => stored, []);
          void storage.sync().then(written.tell);
        },
      },
      {
        next: Math.max(mayBeTold, storedThrough + 1),
        storedThrough,
        reservedUntil: stored.reservedUntil,
        ...(last !== undefined && this.#untold.has(stored.run.runId) ? { untold: last } : {}),
      },
    );
    this.#logs.set(stored.ordinal, log);
    return log;
  }

  /** A turn writes this log: it must stay the only one of its run until the turn's end was told. */
  pin(stored: StoredRun): void {
    this.#pinned.set(stored.ordinal, (this.#pinned.get(stored.ordinal) ?? 0) + 1);
  }

  unpin(stored: StoredRun): void {
    const others = (this.#pinned.get(stored.ordinal) ?? 1) - 1;
    if (others > 0) return void this.#pinned.set(stored.ordinal, others);
    this.#pinned.delete(stored.ordinal);
    this.release(stored);
  }

  /** Forgets a log that nobody reads or writes any more. */
  release(stored: StoredRun): void {
    const log = this.#logs.get(stored.ordinal);
    if (log === undefined || log.hasFollowers || this.#pinned.has(stored.ordinal)) return;
    log.close();
    this.#logs.delete(stored.ordinal);
  }

  /** A run as it was told: until its end or pause is told it still shows as it was before. */
  told(stored: StoredRun): Run {
    return this.#untold.get(stored.run.runId)?.[0] ?? stored.run;
  }

  /**
   * Readers go on seeing the run as it was before a change, until the function that this gives back is called. A later
   * change may be told before an earlier one; it then tells both.
   */
  holdBack(before: Run): () => void {
    this.#untold.set(before.runId, [...(this.#untold.get(before.runId) ?? []), before]);
    return () => {
      const held = this.#untold.get(before.runId) ?? [];
      const left = held.slice(held.indexOf(before) + 1);
      if (!held.includes(before)) return;
      if (left.length > 0) this.#untold.set(before.runId, left);
      else this.#untold.delete(before.runId);
    };
  }

  #lastStored(stored: StoredRun): RunEvent | undefined {
    const { sql } = this.parts.storage;
    const last = sql.exec<{ first: number | null }>("SELECT MAX(first) AS first FROM events WHERE run = ?", stored.ordinal).one().first;
    return last === null ? undefined : readEvents(sql, stored.ordinal, last - 1, 1, () => "").at(-1);
  }

  /** Every event of a run's log that is in storage. */
  events(stored: StoredRun): RunEvent[] {
    return readEvents(this.parts.storage.sql, stored.ordinal, -1, ALL_ROWS, () => this.#content(stored));
  }

  recordOf(stored: StoredRun): RunRecord {
    return toRecord(stored.run, this.store.messages(stored), this.store.effects(stored.ordinal));
  }

  #content(stored: StoredRun): string {
    return contentOf(this.store.messages(stored), this.store.effects(stored.ordinal), stored.run);
  }

  #project(entity: Entity): Projection | undefined {
    if (entity === "session") {
      const session = this.store.session();
      return session === undefined ? undefined : { kind: "session", session };
    }
    if (entity === "deleted") {
      const tombstone = this.store.tombstone();
      return tombstone === undefined ? undefined : { kind: "session-deleted", sessionId: tombstone.sessionId, version: tombstone.version, at: tombstone.at };
    }
    if (entity.startsWith(PARKED)) return this.#projectParked(entity.slice(PARKED.length) as RowEntity);
    const session = this.store.session();
    if (entity.startsWith(APPROVAL)) {
      if (session === undefined) return undefined;
      const approvalId = entity.slice(APPROVAL.length);
      const approval = this.store.approval(approvalId);
      return approval === undefined ? { kind: "approval-deleted", sessionId: session.sessionId, approvalId } : { kind: "approval", approval, sessionVersion: session.version };
    }
    const stored = this.store.run(entity.slice("run:".length));
    if (stored === undefined || session === undefined) return undefined;
    const placed = { kind: "run" as const, ordinal: stored.ordinal, sessionVersion: session.version };
    if (!isTerminal(stored.run.status)) return { ...placed, run: { ...stored.run, messages: [], effects: [] } };
    return { ...placed, run: this.recordOf(stored), events: compactEvents(this.events(stored)) };
  }

  #projectParked(entity: RowEntity): Projection | undefined {
    const session = this.store.session() ?? this.store.tombstone();
    if (session === undefined) return undefined;
    const parked = this.outbox.parked(entity);
    return {
      kind: "parked",
      sessionId: session.sessionId,
      sessionVersion: session.version,
      entity,
      release: this.parts.release,
      ...(parked === undefined ? { at: this.parts.clock.now() } : parked),
    };
  }
}

export const identityOf = (run: Run): RunIdentity => ({
  runId: run.runId,
  sessionId: run.sessionId,
  component: run.component,
  ...(run.parentRunId === undefined ? {} : { parentRunId: run.parentRunId }),
});
