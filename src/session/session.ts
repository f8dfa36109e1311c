import type { Approval } from "../domain/approval.ts";
import { AppError, ok, type Result, refused } from "../domain/errors.ts";
import { newId } from "../domain/ids.ts";
import { type Access, canSee } from "../domain/principal.ts";
import { isDelta, isTerminalEvent, type RunEvent } from "../domain/run-event.ts";
import { isTerminal, isUnfinished, type Run, type RunRecord } from "../domain/run.ts";
import type { Session as SessionRow } from "../domain/session.ts";
import { NO_USAGE } from "../domain/usage.ts";
import type {
  ContinuedRun,
  ContinueRun,
  CreateSession,
  FollowRun,
  ImportSession,
  PatchSession,
  PolledEvents,
  ResolveApproval,
  RunQuery,
  RunReading,
  SessionCommands,
  StartedRun,
  StartRun,
} from "./commands.ts";
import { Continuations } from "./continuations.ts";
import { SessionCore, type SessionParts } from "./core.ts";
import { Decisions } from "./decisions.ts";
import { type EventLog, RESERVED_AHEAD } from "./event-log.ts";
import { compactEvents, packEvents } from "./event-rows.ts";
import type { RowEntity } from "./outbox.ts";
import { importRun } from "./fill-from-d1.ts";
import { SseFollower } from "./sse-follower.ts";
import { lineFor, notStreamed } from "./line.ts";
import type { StoredRun } from "./store.ts";
import { toRecord } from "./transcript.ts";
import { RETENTION_MS, Turns } from "./turns.ts";

/** How a run is continued that someone's decision has let go on: nobody need be there to see it. */
const GO_ON = {
  continueFrom: "end",
  fork: false,
  regenerate: false,
  replaceOriginal: false,
  background: true,
  stream: true,
  onBusy: "enqueue",
  onDisconnect: "keep",
} as const;

/**
 * Fills an empty object with what D1 knows of its session; see `fill-from-d1.ts`.
 * @returns the version from which a session of this id must count on.
 */
export type FillFromD1 = (core: SessionCore, sessionId: string) => Promise<number>;

/**
 * The session: it accepts commands, decides on them with what is stored, and commits. Between a decision and its commit
 * there is no await, so that two commands never decide on the same state.
 */
export class Session implements SessionCommands {
  readonly core: SessionCore;
  readonly turns: Turns;
  readonly #continuations: Continuations;
  readonly #decisions: Decisions;
  readonly #fill: FillFromD1;
  /** What D1 said that this id was used up to, when the object was empty. */
  #usedVersion = 0;
  /** D1 is being asked what the object lost. Whoever needs to know waits for the same answer. */
  #filling: Promise<void> | undefined;
  /** This instance has been called before. */
  #isAwake = false;
  /** Followers of each run, by run id: who is there to see it. */
  readonly #followers = new Map<string, Set<{ cut(): void }>>();

  constructor(parts: SessionParts, fill: FillFromD1) {
    this.core = new SessionCore(parts);
    this.turns = new Turns(this.core, (stored) => this.#onRunEnd(stored));
    this.#continuations = new Continuations(this.core, this.turns);
    this.#decisions = new Decisions(this.core, this.turns);
    this.#fill = fill;
  }

  /** Every event that reaches the object comes through here first: a turn that nobody runs is taken up. */
  wake(): void {
    const isFirst = !this.#isAwake;
    this.#isAwake = true;
    if (this.core.store.isEmpty) return;
    this.core.store.check();
    this.core.alarms.rearmIfGivenUp();
    if (isFirst) this.turns.restoreUntold();
    this.turns.recover();
    if (this.core.outbox.isBehind) void this.core.outbox.kick();
  }

  async startRun(command: StartRun): Promise<Result<StartedRun>> {
    if (!command.sessionIsNew) await this.#fillIfEmpty();
    const known = this.core.store.run(command.runId);
    if (known !== undefined) return this.#startedBefore(known, command);
    const session = this.core.store.session();
    if (session !== undefined && !this.#mayStart(session, command)) return refused("not_found", `Session with id '${command.sessionId}' not found`);

    const line = lineFor(this.core.store, command.onBusy);
    if (!line.ok) return line;
    const ahead = line.value;
    const stored = this.#accept(command, ahead === undefined);
    if (command.onBusy === "interrupt" && ahead?.run.status === "running") this.turns.end(ahead, { kind: "cancelled", reason: `Interrupted by the run '${command.runId}'` });
    await this.core.parts.storage.sync();
    return ok({ runId: command.runId, sessionId: command.sessionId, status: stored.run.status });
  }

  /** Asking again for a run is not asking for another one. It is watched in the way it was started for. */
  #startedBefore(known: StoredRun, { stream, runId, sessionId }: StartRun): Result<StartedRun> {
    if (stream && !known.run.stream) return notStreamed(runId);
    return ok({ runId, sessionId, status: this.core.told(known).status });
  }

  async continueRun(command: ContinueRun): Promise<Result<ContinuedRun>> {
    await this.#fillIfEmpty();
    return this.#visibleRun(command) === undefined ? this.#noSuchRun() : this.#continuations.continueRun(command);
  }

  async resolveApproval(command: ResolveApproval): Promise<Result<Approval>> {
    await this.#fillIfEmpty();
    const resolved = await this.#decisions.resolve(command);
    if (!resolved.ok || !command.thenContinue || resolved.value.status === "pending") return resolved;
    const { runId } = resolved.value;
    // Always in line: whoever decides need not know what else the session is doing.
    await this.#continuations.resumePaused({ ...GO_ON, runId, newRunId: newId(), access: command.access, ...(command.by === undefined ? {} : { by: command.by }) });
    return ok(this.core.store.approval(command.approvalId) ?? resolved.value);
  }

  async readApproval({ approvalId, access }: { approvalId: string; access: Access }): Promise<Result<Approval>> {
    const approval = this.#isVisible(access) ? this.core.store.approval(approvalId) : undefined;
    return approval === undefined ? refused("not_found", "Approval not found", this.#holdsNothing()) : ok(approval);
  }

  async deleteApproval({ approvalId, access }: { approvalId: string; access: Access }): Promise<Result<null>> {
    await this.#fillIfEmpty();
    if (!this.#isVisible(access) || this.core.store.approval(approvalId) === undefined) return refused("not_found", "Approval not found");
    await this.#decisions.delete(approvalId);
    return ok(null);
  }

  async importSession({ sessionId, access, userId, source, runs, runIds }: ImportSession): Promise<Result<SessionRow>> {
    const existing = this.core.store.session();
    if (existing !== undefined) return canSee(access, existing.userId) ? ok(existing) : refused("session_exists", "This session id can not be used.");
    const now = this.core.parts.clock.now();
    const { userId: _owner, ...copied } = source;
    const session: SessionRow = { ...copied, sessionId, ...(userId === undefined ? {} : { userId }), createdAt: now, updatedAt: now, version: this.#firstVersion() };
    // What is not over is another object's to go on with: here it would be taken for a turn that was lost.
    const copies = runs.map((run, index) => ({ ...run, runId: runIds[index] as string })).filter(({ record }) => isTerminal(record.status));
    this.core.commit(() => {
      this.#save(session);
      for (const { record, events, runId } of copies) {
        importRun(this.core, { ...renamed(record, copies), sessionId, runId, forkedFromSessionId: record.sessionId, ...(userId === undefined ? {} : { userId }) }, events);
        this.core.outbox.put(`run:${runId}`);
      }
    });
    await this.#settle(["session"]);
    return ok(session);
  }

  async cancelRun({ reason, ...query }: RunQuery & { reason?: string }): Promise<Result<{ status: Run["status"] }>> {
    const { runId } = query;
    const stored = this.#visibleRun(query);
    if (stored === undefined) return this.#noSuchRun();
    if (!isTerminal(stored.run.status)) this.turns.end(this.#current(stored), { kind: "cancelled", reason: reason ?? `Run ${runId} was cancelled` });
    await this.core.parts.storage.sync();
    // Its session may be deleted by now, and the run with it.
    return ok({ status: this.core.store.run(runId)?.run.status ?? "cancelled" });
  }

  async readRun(query: RunQuery): Promise<Result<RunReading>> {
    const stored = this.#visibleRun(query);
    return stored === undefined ? this.#noSuchRun() : ok(this.#read(stored));
  }

  async readRuns({ access }: { access: Access }): Promise<Result<RunReading[]>> {
    if (!this.#isVisible(access)) return this.#noSuchSession();
    const runs = this.core.store.runs().filter(({ run }) => run.parentRunId === undefined);
    return ok(runs.map((stored) => this.#read(stored)));
  }

  async pollEvents({ after, waitMs, ...query }: RunQuery & { after: number; waitMs: number }): Promise<Result<PolledEvents>> {
    const { runId } = query;
    const stored = this.#visibleRun(query);
    if (stored === undefined) return this.#noSuchRun();
    const log = this.core.log(stored);
    const release = this.#seen(runId, { cut: () => {} });
    try {
      const heard = log.read(after).length === 0 && !this.#isOver(stored) ? await this.#nextEvent(log, waitMs) : undefined;
      // Deleted meanwhile: its end was told, and there is no log to read any more.
      if (this.core.store.run(runId) === undefined) return heard === undefined ? this.#noSuchRun() : ok({ runId, component: stored.run.component, status: "cancelled", events: [heard], ended: true });
      const events: RunEvent[] = [];
      for (let cursor = after; ; ) {
        const page = log.read(cursor);
        if (page.length === 0) break;
        events.push(...page);
        cursor = (page.at(-1) as RunEvent).index;
      }
      const current = this.core.store.run(runId) as StoredRun;
      const ended = isTerminalEvent(events.at(-1) ?? { type: "run.started" }) || this.#isOver(current);
      return ok({ runId, component: stored.run.component, status: this.core.told(current).status, events, ended });
    } finally {
      release();
      this.core.release(stored);
    }
  }

  /** A run's log for someone who follows it by other means than SSE. `watch` says that they are there, until they leave. */
  watch(runId: string, access: Access): Result<{ log: EventLog; watch: (follower: { cut(): void }) => () => void }> {
    const stored = this.#visibleRun({ runId, access });
    if (stored === undefined) return this.#noSuchRun();
    const watch = (follower: { cut(): void }) => {
      const release = this.#seen(runId, follower);
      return () => {
        release();
        this.core.release(stored);
      };
    };
    return ok({ log: this.core.log(stored), watch });
  }

  /** A socket may be opened on one's own session, and on one that nobody has begun yet. */
  mayOpenSocket(access: Access): Result<null> {
    const session = this.core.store.session();
    return session === undefined || canSee(access, session.userId) ? ok(null) : this.#noSuchSession();
  }

  /** An SSE stream of a run from a cursor on. */
  follow(query: FollowRun): Result<Response> {
    const stored = this.#visibleRun(query);
    if (stored === undefined) return this.#noSuchRun();
    // Counted before it exists: a follower of a finished run is done before its constructor is.
    const handle = { cut: () => follower.cut() };
    const release = this.#seen(query.runId, handle);
    const follower: SseFollower = new SseFollower({
      log: this.core.log(stored),
      view: query,
      encoder: this.core.parts.encoder,
      isAtRest: () => this.#isAtRest(this.core.store.run(query.runId) ?? stored),
      notice: (missed) => this.#replayNotice(stored, query.after, missed),
      onEnd: () => {
        release();
        this.core.release(stored);
      },
    });
    return ok(follower.response);
  }

  async createSession(command: CreateSession): Promise<Result<SessionRow>> {
    if (!command.sessionIsNew) await this.#fillIfEmpty();
    const existing = this.core.store.session();
    if (existing !== undefined) {
      return canSee(command.access, existing.userId)
        ? refused("session_exists", `A session with the id '${command.sessionId}' exists already; change it with PATCH.`)
        : refused("session_exists", "This session id can not be used.");
    }
    const now = this.core.parts.clock.now();
    const session: SessionRow = {
      sessionId: command.sessionId,
      ...(command.userId === undefined ? {} : { userId: command.userId }),
      ...(command.component === undefined ? {} : { component: command.component }),
      ...(command.name === undefined ? {} : { name: command.name }),
      ...(command.metadata === undefined ? {} : { metadata: command.metadata }),
      state: command.state ?? {},
      metrics: { usage: NO_USAGE, durationMs: 0, runs: 0 },
      createdAt: now,
      updatedAt: now,
      version: this.#firstVersion(),
    };
    this.core.commit(() => this.#save(session));
    await this.#settle(["session"]);
    return ok(session);
  }

  async readSession({ access }: { access: Access }): Promise<Result<SessionRow>> {
    const session = this.core.store.session();
    return session === undefined || !canSee(access, session.userId) ? this.#noSuchSession() : ok(session);
  }

  async patchSession(command: PatchSession): Promise<Result<SessionRow>> {
    await this.#fillIfEmpty();
    const session = this.core.store.session();
    if (session === undefined || !canSee(command.access, session.userId)) return this.#noSuchSession();
    const { access: _access, ...changes } = command;
    const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined && value !== null));
    const patched: SessionRow = { ...session, ...given, updatedAt: this.core.parts.clock.now(), version: session.version + 1 };
    this.core.commit(() => this.#save(patched));
    await this.#settle(["session"]);
    return ok(patched);
  }

  async poke({ runIds, parked = [] }: { runIds: string[]; parked?: string[] }): Promise<Result<null>> {
    // What D1 shows as unfinished and the object has lost is lost: D1 must hear of that, or would ask for ever.
    await this.#fillIfEmpty();
    const { store, outbox, alarms, parts } = this.core;
    if (store.isEmpty) return ok(null);
    const known = runIds.flatMap((runId) => store.run(runId) ?? []).map((stored) => this.#current(stored));
    const listed = parked as RowEntity[];
    const arrived = listed.filter((entity) => outbox.parked(entity) === undefined).map((entity) => `parked:${entity}` as const);
    this.core.commit(() => {
      for (const stored of known) {
        outbox.put(`run:${stored.run.runId}`);
        if (isTerminal(stored.run.status)) continue;
        // A newer version, so that D1 notes that it has heard of it.
        stored.run = { ...stored.run, updatedAt: parts.clock.now(), version: stored.run.version + 1 };
        store.saveRun(stored);
      }
      for (const entity of arrived) outbox.put(entity);
      // The platform gives an alarm up after six failures; whatever is named is due again.
      alarms.rearm();
    });
    await this.#settle([...known.map(({ run }) => `run:${run.runId}` as const), ...listed, ...arrived]);
    return ok(null);
  }

  async deleteSession({ access }: { access: Access }): Promise<Result<null>> {
    await this.#fillIfEmpty();
    const session = this.core.store.session();
    if (session === undefined || !canSee(access, session.userId)) return ok(null);
    const { store, outbox, parts } = this.core;
    const { holder, waiting } = store.openRuns();
    // Waiting ones first, so that none of them starts in the moment the holder ends.
    for (const stored of [...store.pausedRuns(), ...waiting.reverse(), ...(holder === undefined ? [] : [holder])]) {
      this.turns.end(this.#current(stored), { kind: "cancelled", reason: "The session was deleted" });
    }
    // What was running tells its followers that it was cancelled; then there is nothing left to tell.
    await parts.storage.sync();
    const version = (store.session() ?? session).version + 1;
    this.core.commit(() => {
      outbox.forget();
      store.bury({ sessionId: session.sessionId, version, at: parts.clock.now() });
      outbox.put("deleted");
    });
    await this.#settle(["deleted"]);
    await this.#releaseIfGone();
    return ok(null);
  }

  /** What the alarm does: the platform has one, and it stands for all that is due. */
  async onAlarm(): Promise<void> {
    if (this.core.store.isEmpty) return;
    const { alarms, outbox } = this.core;
    alarms.rearm();
    this.wake();
    for (const name of alarms.due()) {
      if (name === "lease") this.turns.beat();
      else if (name === "outbox") this.core.commit(() => alarms.clear("outbox"));
      else if (name === "retention") this.#compact();
      else if (name.startsWith("expiry:")) this.#decisions.expire(name.slice("expiry:".length));
      else if (name.startsWith("grace:")) this.#graceIsOver(name.slice("grace:".length));
    }
    await outbox.retry();
    if (await this.#releaseIfGone()) return;
    // An alarm finds the object at rest more often than not: what D1 has need not wait for another turn to go.
    if (this.turns.live === undefined) this.core.commit(() => {});
    alarms.rearm();
  }

  /** Someone looks at a run: a stream, a socket, a poll. The last one to leave starts the run's grace. */
  #seen(runId: string, follower: { cut(): void }): () => void {
    const followers = this.#followers.get(runId) ?? new Set();
    followers.add(follower);
    this.#followers.set(runId, followers);
    const timer = `grace:${runId}` as const;
    if (!this.core.store.isEmpty && this.core.alarms.at(timer) !== undefined) this.core.commit(() => this.core.alarms.clear(timer));
    return () => {
      followers.delete(follower);
      if (followers.size > 0) return;
      this.#followers.delete(runId);
      this.#lastFollowerLeft(runId);
    };
  }

  #lastFollowerLeft(runId: string): void {
    const stored = this.core.store.run(runId);
    // A run that waits for people waits without anyone looking on.
    if (stored === undefined || !isUnfinished(stored.run.status) || stored.run.background) return;
    const { onDisconnect } = stored.run;
    if (onDisconnect === "keep") return;
    if (onDisconnect === 0) return this.#graceIsOver(runId);
    this.core.commit(() => this.core.alarms.set(`grace:${runId}`, this.core.parts.clock.now() + onDisconnect));
  }

  #graceIsOver(runId: string): void {
    const stored = this.core.store.run(runId);
    this.core.commit(() => this.core.alarms.clear(`grace:${runId}`));
    if (stored === undefined || !isUnfinished(stored.run.status) || this.#followers.has(runId)) return;
    this.turns.end(this.#current(stored), { kind: "cancelled", reason: "The client went away" });
  }

  #onRunEnd(stored: StoredRun): void {
    const timer = `grace:${stored.run.runId}` as const;
    if (!this.core.store.isEmpty && this.core.alarms.at(timer) !== undefined) this.core.commit(() => this.core.alarms.clear(timer));
  }

  /**
   * An object that holds nothing asks D1 before it decides: it may have lost its storage. Not where the id was minted with
   * the request. One answer serves all who ask meanwhile, so that none comes late and brings back what another deleted.
   */
  async #fillIfEmpty(): Promise<void> {
    const { store, parts } = this.core;
    if (store.session() !== undefined || store.tombstone() !== undefined) return;
    this.#filling ??= this.#fill(this.core, parts.sessionId)
      .then((usedVersion) => {
        this.#usedVersion = usedVersion;
      })
      .finally(() => {
        this.#filling = undefined;
      });
    try {
      await this.#filling;
    } catch (error) {
      if (error instanceof AppError) throw error;
      throw new AppError("unavailable", "The database can not be reached to see whether this session exists. Try again in a moment.", { retry_after: 1 });
    }
  }

  #accept(command: StartRun, lineIsFree: boolean): StoredRun {
    const now = this.core.parts.clock.now();
    const run: Run = {
      runId: command.runId,
      sessionId: command.sessionId,
      ...(command.userId === undefined ? {} : { userId: command.userId }),
      component: command.component,
      ...(command.schedule === undefined ? {} : { schedule: command.schedule }),
      status: "pending",
      input: command.input,
      background: command.background,
      stream: command.stream,
      onDisconnect: command.onDisconnect,
      attempt: 0,
      attemptsSinceCheckpoint: 0,
      content: "",
      ...this.#metadataOf(command),
      metrics: { usage: NO_USAGE, modelCalls: 0 },
      createdAt: now,
      updatedAt: now,
      version: 1,
    };
    if (lineIsFree) {
      return this.turns.begin(run, (started) => {
        this.#welcome(command, now);
        return this.core.store.insertRun(started, 0, RESERVED_AHEAD);
      });
    }
    let stored!: StoredRun;
    this.core.commit(() => {
      this.#welcome(command, now);
      stored = this.core.store.insertRun(run, command.onBusy === "interrupt" ? 1 : 0, 0);
      this.core.outbox.put(`run:${run.runId}`);
    });
    void this.core.outbox.kick();
    return stored;
  }

  /** What is stored with the run: the agent's own metadata wins over the caller's. */
  #metadataOf({ component, input }: StartRun): Pick<Run, "metadata"> {
    const metadata = { ...input.metadata, ...this.core.parts.registry.find(component)?.metadata };
    return Object.keys(metadata).length === 0 ? {} : { metadata };
  }

  /** The session's row as this start makes or changes it: an unowned session is claimed by the first identified user. */
  #welcome(command: StartRun, now: number): void {
    const session = this.core.store.session();
    if (session === undefined) {
      this.#save({
        sessionId: command.sessionId,
        ...(command.userId === undefined ? {} : { userId: command.userId }),
        component: { kind: command.component.kind, id: command.component.id },
        firstInput: command.input.message,
        state: {},
        metrics: { usage: NO_USAGE, durationMs: 0, runs: 0 },
        createdAt: now,
        updatedAt: now,
        version: this.#firstVersion(),
      });
      return;
    }
    const claimed = session.userId ?? command.userId;
    const firstInput = session.firstInput ?? command.input.message;
    const component = session.component ?? { kind: command.component.kind, id: command.component.id };
    if (claimed === session.userId && firstInput === session.firstInput && component === session.component) return;
    this.#save({ ...session, ...(claimed === undefined ? {} : { userId: claimed }), firstInput, component, updatedAt: now, version: session.version + 1 });
  }

  #save(session: SessionRow): void {
    this.core.store.saveSession(session);
    this.core.outbox.put("session");
  }

  #firstVersion(): number {
    return Math.max(this.core.store.tombstone()?.version ?? 0, this.#usedVersion) + 1;
  }

  /** Nobody starts on what is not theirs, and nobody becomes somebody else on the way. */
  #mayStart(session: SessionRow, command: StartRun): boolean {
    if (!canSee(command.access, session.userId)) return false;
    return command.userId === undefined || session.userId === undefined || command.userId === session.userId;
  }

  #isVisible(access: Access): boolean {
    const session = this.core.store.session();
    return session !== undefined && canSee(access, session.userId);
  }

  /** The run, where it exists for the asker: in a session of theirs, and under the component that they named. */
  #visibleRun({ runId, access, component }: RunQuery): StoredRun | undefined {
    const stored = this.#isVisible(access) ? this.core.store.run(runId) : undefined;
    const named = component ?? stored?.run.component;
    return stored?.run.component.kind === named?.kind && stored?.run.component.id === named?.id ? stored : undefined;
  }

  /** The row object that the living turn holds, so that both see the same. */
  #current(stored: StoredRun): StoredRun {
    const live = this.turns.live?.stored;
    return live?.ordinal === stored.ordinal ? live : stored;
  }

  #isOver(stored: StoredRun): boolean {
    return isTerminal(this.core.told(stored).status);
  }

  /** Nothing more will come unless someone does something. */
  #isAtRest(stored: StoredRun): boolean {
    return this.#isOver(stored) || this.core.told(stored).status === "paused";
  }

  #read(stored: StoredRun): RunReading {
    const run = this.core.told(stored);
    const log = this.core.log(stored);
    const events = this.core.events(stored).filter((event) => !isDelta(event) && event.index <= log.toldIndex);
    const record = toRecord(run, this.core.store.messages(stored), this.core.store.effects(stored.ordinal));
    this.core.release(stored);
    return { record, events };
  }

  #replayNotice(stored: StoredRun, after: number, missed: number) {
    const run = this.core.told(this.core.store.run(stored.run.runId) ?? stored);
    const total = this.core.log(stored).toldIndex + 1;
    if (isUnfinished(run.status)) return missed === 0 ? undefined : ({ type: "catch_up", missedEvents: missed, eventCount: total } as const);
    const events = this.core.events(stored);
    const following = events.filter((event) => event.index > after).length;
    return { type: "replay", status: run.status, totalEvents: following, totalBuffered: events.length, lastEventIndexRequested: after } as const;
  }

  /** Resolves with the next told event, or without one after `ms`. */
  async #nextEvent(log: EventLog, ms: number): Promise<RunEvent | undefined> {
    const stop = new AbortController();
    let heard: RunEvent | undefined;
    const follower = {
      push: (event: RunEvent) => {
        heard ??= event;
        stop.abort();
      },
    };
    log.attach(follower);
    await this.core.parts.clock.sleep(ms, stop.signal);
    log.detach(follower);
    return heard;
  }

  /** Waits for D1 to know, so that a list read next shows it; at most a second, since D1 may be down. */
  async #settle(entities: Parameters<SessionCore["outbox"]["waitFor"]>[0]): Promise<void> {
    await this.core.parts.storage.sync();
    await this.core.outbox.waitFor(entities, 1_000);
  }

  /** Puts the deltas of runs that ended long ago together. */
  #compact(): void {
    const { store, alarms, parts } = this.core;
    const { sql } = parts.storage;
    for (const stored of store.uncompacted(parts.clock.now() - RETENTION_MS)) {
      const events = compactEvents(this.core.events(stored));
      this.core.commit(() => {
        sql.exec("DELETE FROM events WHERE run = ?", stored.ordinal);
        for (const event of events) {
          const row = packEvents([event]);
          sql.exec("INSERT INTO events (run, first, at, data) VALUES (?, ?, ?, ?)", stored.ordinal, row.first, row.at, row.data);
        }
        stored.compacted = true;
        store.saveRun(stored);
      });
    }
    const next = store.oldestUncompactedEnd();
    this.core.commit(() => (next === undefined ? alarms.clear("retention") : alarms.set("retention", next + RETENTION_MS)));
  }

  /** A deleted session whose rows D1 has dropped as well leaves nothing behind: an object without storage costs nothing. */
  async #releaseIfGone(): Promise<boolean> {
    const { store, outbox } = this.core;
    if (store.isEmpty || store.session() !== undefined || store.tombstone() === undefined || outbox.owes) return false;
    this.#usedVersion = (store.tombstone() as { version: number }).version;
    await this.core.erase();
    return true;
  }

  #noSuchRun(): Result<never> {
    return refused("not_found", "Run not found", this.#holdsNothing());
  }

  #noSuchSession(): Result<never> {
    return refused("not_found", "Session not found", this.#holdsNothing());
  }

  /** Tells the asker that D1 may know more; of a session that was deleted here it must not be asked. */
  #holdsNothing(): { empty: true } | undefined {
    const { store } = this.core;
    return store.session() === undefined && store.tombstone() === undefined ? { empty: true } : undefined;
  }
}

/** A copied run names the copies of those that it goes on from, and stands where the first of them stands. */
function renamed(record: RunRecord, copies: readonly { record: RunRecord; runId: string }[]): RunRecord {
  const indexOf = (runId: string | undefined) => copies.findIndex((copy) => copy.record.runId === runId);
  const { forkedFromRunId: source, regeneratedFrom: replaced, historyBefore: _place, ...rest } = record;
  let first = indexOf(record.runId);
  for (let next = indexOf(source); next !== -1; next = indexOf(copies[first]?.record.forkedFromRunId)) first = next;
  return {
    ...rest,
    ...(source === undefined ? {} : { forkedFromRunId: copies[indexOf(source)]?.runId ?? source, historyBefore: first + 1 }),
    ...(replaced === undefined ? {} : { regeneratedFrom: copies[indexOf(replaced)]?.runId ?? replaced }),
  };
}
