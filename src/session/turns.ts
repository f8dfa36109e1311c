import type { AgentDefinition } from "../define/agent.ts";
import type { Approval } from "../domain/approval.ts";
import type { Requirement } from "../domain/requirement.ts";
import type { RunEventBody } from "../domain/run-event.ts";
import type { Run, RunError } from "../domain/run.ts";
import type { Session } from "../domain/session.ts";
import { type Effect, isSettled, isWaiting } from "../domain/tool-call.ts";
import { addUsage } from "../domain/usage.ts";
import { viewOf } from "../engine/call-view.ts";
import { projectHistory } from "../engine/history.ts";
import type { TurnOutcome } from "../engine/ports.ts";
import { runTurn } from "../engine/run-turn.ts";
import type { Model } from "../models/model.ts";
import { needApproval, openApproval } from "./approvals.ts";
import type { SessionCore } from "./core.ts";
import { LiveTurn, StaleAttempt } from "./live-turn.ts";
import { isSame, stateAtStart } from "./session-state.ts";
import type { RowEntity } from "./outbox.ts";
import type { OwnMessage, StoredRun } from "./store.ts";
import { contentOf, metricsOf } from "./transcript.ts";

/** While a turn runs, the object's alarm beats this often: it keeps the object alive and notices a turn nobody runs. */
const HEARTBEAT_MS = 25_000;
/** Attempts since the last new checkpoint; a long run outlives many deploys. */
const MAX_ATTEMPTS = 3;
/** What a run has stored before its first attempt: the message it was asked with. */
const AT_START = 1;
/** Before an approval's id, in the words of the outbox. */
const APPROVAL = "approval:";
/** How long the end of a run may wait for D1 to know it. */
const WAIT_FOR_D1_MS = 1_000;
/** Deltas of an ended run are put together after this. */
export const RETENTION_MS = 24 * 60 * 60 * 1_000;

/** How a turn ended, in the session's terms: the engine's outcome, or a cancel that came from outside. */
export type Ending =
  | Exclude<TurnOutcome, { kind: "cancelled" | "paused" }>
  /** What its open approvals become, since nobody can decide on them any more: `cancelled`, unless it is their own time that is up. */
  | { kind: "cancelled"; reason: string; approvals?: "expired" };

/**
 * The turn lock and what happens under it. One run holds the line at a time; which one is decided by the rows, and this
 * instance's turn is only the hand that does the work.
 */
export class Turns {
  readonly #core: SessionCore;
  #live: LiveTurn | undefined;
  /** Called when a run's end was told, and when the line is free for good. */
  readonly #onEnd: (stored: StoredRun) => void;

  constructor(core: SessionCore, onEnd: (stored: StoredRun) => void) {
    this.#core = core;
    this.#onEnd = onEnd;
  }

  get live(): LiveTurn | undefined {
    return this.#live;
  }

  /**
   * Makes a run the holder of the line, in the commit that `store` is part of: it must write the run that it is given.
   * The line must be free.
   */
  begin(run: Run, store: (run: Run) => StoredRun): StoredRun {
    const { clock } = this.#core.parts;
    const { agent, model, problem } = this.#definition(run);
    // It has had a turn before: its index, its state and its start go on from there.
    const isContinued = run.attempt > 0;
    const started: Run = {
      ...run,
      status: "running",
      attempt: run.attempt + 1,
      attemptsSinceCheckpoint: 1,
      ...(model === undefined ? {} : { model: model.id, provider: model.provider }),
      startedAt: run.startedAt ?? clock.now(),
      updatedAt: clock.now(),
      version: run.version + 1,
    };
    const event: RunEventBody = isContinued ? { type: "run.continued", ...noteOf(run, started) } : { type: "run.started", ...(model === undefined ? {} : { model: model.id, provider: model.provider }) };
    let stored!: StoredRun;
    let state: Record<string, unknown> = {};
    const written = this.#core.write(() => stored, [event], () => {
      stored = store(started);
      this.#core.pin(stored);
      const session = this.#core.store.session() as Session;
      state = agent === undefined || isContinued ? structuredClone(session.state) : stateAtStart(session.state, agent, run.input);
      if (!isSame(state, session.state)) this.#saveSession({ ...session, state });
      this.#core.outbox.put(`run:${run.runId}`);
      this.#core.alarms.set("lease", clock.now() + HEARTBEAT_MS);
    });
    void this.#core.parts.storage.sync().then(written.tell);
    this.#drive(stored, agent, model, problem, state);
    void this.#core.outbox.kick();
    return stored;
  }

  /** Starts the next waiting run, if the line is free and one waits. */
  startNext(): void {
    if (this.#live !== undefined) return;
    const { holder, waiting } = this.#core.store.openRuns();
    const next = waiting[0];
    if (holder !== undefined || next === undefined) return;
    this.begin(next.run, (run) => {
      next.run = run;
      this.#core.store.saveRun(next);
      return next;
    });
  }

  /**
   * Takes up a running turn that this instance does not run: a crash, a deploy or an eviction took the one that did. An
   * object is one process, so there is nothing to wait for.
   */
  recover(): void {
    if (this.#live !== undefined || this.#core.store.isEmpty) return;
    const { holder } = this.#core.store.openRuns();
    if (holder === undefined) return this.startNext();
    const { run } = holder;
    const messages = this.#core.store.messages(holder);
    const effects = this.#core.store.effects(holder.ordinal);
    const progress = messages.length + effects.filter((effect) => isSettled(effect.status)).length;
    const isNewCheckpoint = progress > (run.checkpoint ?? AT_START);
    const attemptsSinceCheckpoint = isNewCheckpoint ? 1 : run.attemptsSinceCheckpoint + 1;
    const { agent, model, problem } = this.#definition(run);
    this.#core.pin(holder);
    const log = this.#core.log(holder);
    const discarded = { from: this.#startOfUnfinishedReply(holder), to: log.nextIndex - 1 };

    holder.run = { ...run, attempt: run.attempt + 1, attemptsSinceCheckpoint, checkpoint: progress, updatedAt: this.#core.parts.clock.now(), version: run.version + 1 };
    if (attemptsSinceCheckpoint > MAX_ATTEMPTS) {
      const error: RunError = {
        type: "attempts_exhausted",
        message: `The run was interrupted ${MAX_ATTEMPTS} times without getting any further, so it is given up.`,
        retryable: true,
      };
      this.end(holder, { kind: "failed", error, events: [{ type: "run.retried", ...this.#attemptOf(holder.run), discarded }] });
      return;
    }
    const state = structuredClone(this.#core.store.session()?.state ?? {});
    const written = this.#core.write(() => holder, [{ type: "run.retried", ...this.#attemptOf(holder.run), discarded }], () => {
      this.#core.store.saveRun(holder);
      this.#core.alarms.set("lease", this.#core.parts.clock.now() + HEARTBEAT_MS);
    });
    void this.#core.parts.storage.sync().then(written.tell);
    this.#drive(holder, agent, model, problem, state);
  }

  /** The lease's alarm: a living turn is kept alive for another beat. */
  beat(): void {
    if (this.#live === undefined) return this.#core.commit(() => this.#core.alarms.clear("lease"));
    this.#core.commit(() => this.#core.alarms.set("lease", this.#core.parts.clock.now() + HEARTBEAT_MS));
  }

  /**
   * Ends a run, in one commit: what it left unsaid, its status, its last event, the projections, the lock. The line is free
   * at once; the end itself is told when D1 knows of it, or after a second.
   */
  end(stored: StoredRun, ending: Ending): void {
    const { clock, storage } = this.#core.parts;
    const { store, alarms, outbox } = this.#core;
    const before = stored.run;
    const live = this.#live?.stored.ordinal === stored.ordinal ? this.#live : undefined;
    const wasHolding = before.status === "running";
    // A turn's log is pinned since it began.
    if (!wasHolding) this.#core.pin(stored);

    const last = lastReply(ending, live);
    const messages: OwnMessage[] = [...store.messages(stored), ...(last === undefined ? [] : [last])];
    const made = store.effects(stored.ordinal);
    const closed = made.filter((effect) => !isSettled(effect.status)).map((effect) => closeEffect(effect, clock.now()));
    // Most runs ask nobody: the session's approvals, which may be many, are not looked through for them.
    const asked = made.some((effect) => effect.requirement !== undefined) ? store.approvalsOf(before.runId) : [];
    const approvals = asked.map((approval) => closeApproval(approval, ending, clock.now()));
    const effects = made.map((effect) => closed.find((other) => other.step === effect.step && other.position === effect.position) ?? effect);
    const metrics = metricsOf(messages, { ...before, endedAt: clock.now() });
    const state = live?.changedState();
    const session = store.session() as Session;
    const sessionState = state ?? session.state;

    const run: Run = {
      ...before,
      ...fieldsOf(ending),
      ...(live === undefined ? {} : historyOf(live)),
      metrics,
      ...(Object.keys(sessionState).length === 0 ? {} : { sessionState }),
      endedAt: clock.now(),
      updatedAt: clock.now(),
      version: before.version + 1,
    };
    const events = [...eventsBefore(ending), terminalEvent(ending, run, contentOf(messages, effects, run), effects.filter((effect) => closed.includes(effect) || isWaiting(effect)))];
    live?.close();
    const written = this.#core.write(() => stored, events, () => {
      if (last !== undefined) store.addMessage(stored.ordinal, messages.length - 1, last);
      for (const effect of closed) store.saveEffect(stored.ordinal, effect);
      stored.run = run;
      store.saveRun(stored);
      this.#saveSession({ ...session, state: sessionState, metrics: ending.kind === "completed" ? addRun(session, run) : session.metrics });
      outbox.put(`run:${run.runId}`);
      for (const approval of approvals) {
        store.saveApproval(approval);
        outbox.put(`approval:${approval.id}`);
        if (approval.expiresAt !== undefined) alarms.clear(`expiry:${approval.id}`);
      }
      if (wasHolding) alarms.clear("lease");
      if (alarms.at("retention") === undefined) alarms.set("retention", clock.now() + RETENTION_MS);
    });
    const announce = this.#core.holdBack(before);
    if (live !== undefined) this.#live = undefined;
    void this.#tellEnd(stored, async () => {
      await storage.sync();
      await outbox.waitFor([`run:${run.runId}`, "session"], WAIT_FOR_D1_MS);
      announce();
      written.tell();
    });
    this.startNext();
  }

  /**
   * Puts a turn by until people have answered, in one commit: what each call waits for, the approval that goes with it, the
   * status, the event, the lock. With an approval to decide the pause is told once D1 lists it, however long that takes:
   * nobody could decide what nobody can find.
   */
  pause(live: LiveTurn, outcome: Extract<TurnOutcome, { kind: "paused" }>): void {
    const { clock, storage } = this.#core.parts;
    const { store, alarms, outbox } = this.#core;
    const { stored } = live;
    const before = stored.run;
    const state = live.changedState();
    const session = store.session() as Session;
    const sessionState = state ?? session.state;
    const covered = needApproval(outcome.waiting).filter((effect) => effect.requirement?.approvalId === undefined);
    const approval = covered.length === 0 ? undefined : openApproval(before, covered, live.turn.agent, clock.now());
    const waiting = outcome.waiting.map((effect): Effect => (approval === undefined || !covered.includes(effect) ? effect : { ...effect, requirement: { ...(effect.requirement as Requirement), approvalId: approval.id } }));

    const run: Run = {
      ...before,
      status: "paused",
      metrics: metricsOf(store.messages(stored), { firstStep: before.firstStep }),
      ...(Object.keys(sessionState).length === 0 ? {} : { sessionState }),
      updatedAt: clock.now(),
      version: before.version + 1,
    };
    const content = contentOf(store.messages(stored), store.effects(stored.ordinal), before);
    live.close();
    const written = this.#core.write(() => stored, [...outcome.events, { type: "run.paused", content, calls: waiting.map(viewOf) }], () => {
      for (const effect of waiting) store.saveEffect(stored.ordinal, effect);
      stored.run = run;
      store.saveRun(stored);
      if (state !== undefined) this.#saveSession({ ...session, state });
      outbox.put(`run:${run.runId}`);
      if (approval !== undefined) {
        store.saveApproval(approval);
        outbox.put(`approval:${approval.id}`);
        if (approval.expiresAt !== undefined) alarms.set(`expiry:${approval.id}`, approval.expiresAt);
      }
      alarms.clear("lease");
    });
    const announce = this.#core.holdBack(before);
    this.#live = undefined;
    void this.#tellEnd(stored, async () => {
      await storage.sync();
      await outbox.waitFor([`run:${run.runId}`], WAIT_FOR_D1_MS);
      if (approval !== undefined) await this.#untilListed(approval);
      announce();
      written.tell();
    });
    this.startNext();
  }

  /**
   * Call once, before anything is read. A crash may have come while a pause was waiting for D1 to list its approval; what
   * was not told then is not told now.
   */
  restoreUntold(): void {
    const { store, outbox } = this.#core;
    const opened = outbox.waiting().flatMap((entity) => (entity.startsWith(APPROVAL) && outbox.parked(entity as RowEntity) === undefined ? (store.approval(entity.slice(APPROVAL.length)) ?? []) : []));
    for (const approval of opened) {
      const stored = store.run(approval.runId);
      // A change since its making came from someone who was told of it.
      if (stored?.run.status !== "paused" || approval.status !== "pending" || approval.version > 1) continue;
      const announce = this.#core.holdBack({ ...stored.run, status: "running" });
      this.#core.pin(stored);
      const log = this.#core.log(stored);
      const through = log.storedIndex;
      void this.#tellEnd(stored, async () => {
        await this.#untilListed(approval);
        announce();
        log.tell(through, 0);
      });
    }
  }

  /** Resolves when D1 lists an approval, and the object knows that it does: a later instance must not ask itself again. */
  async #untilListed(approval: Approval): Promise<void> {
    const { outbox, parts, store } = this.#core;
    await outbox.waitUntilHeld([`${APPROVAL}${approval.id}`]);
    if (store.session() !== undefined) this.#core.commit(() => {});
    await parts.storage.sync();
  }

  async #tellEnd(stored: StoredRun, tell: () => Promise<void>): Promise<void> {
    await tell();
    this.#core.unpin(stored);
    this.#onEnd(stored);
  }

  /** Runs the engine, un-awaited: a turn outlives the request that began it. */
  #drive(stored: StoredRun, agent: AgentDefinition | undefined, model: Model | undefined, problem: RunError | undefined, state: Record<string, unknown>): void {
    if (agent === undefined || model === undefined) {
      this.end(stored, { kind: "failed", error: problem as RunError, events: [] });
      return;
    }
    const live = new LiveTurn(this.#core, stored, this.#core.log(stored), { agent, model, state });
    this.#live = live;
    void runTurn(live.turn, live)
      .catch((error: unknown): TurnOutcome => {
        if (live.isClosed || error instanceof StaleAttempt) return { kind: "cancelled" };
        return { kind: "failed", error: { type: "agent_error", message: `The agent failed: ${error instanceof Error ? error.message : String(error)}`, retryable: false }, events: [] };
      })
      .then((outcome) => {
        // A cancelled turn's end was written by the cancel itself.
        if (live.isClosed) return;
        const isLiving = this.#core.store.livingAttempt(stored.ordinal) === live.attempt;
        if (isLiving && outcome.kind === "paused") return this.pause(live, outcome);
        if (isLiving && outcome.kind !== "cancelled" && outcome.kind !== "paused") return this.end(stored, outcome);
        // A later attempt has the run; what this one found out is not written.
        live.close();
        this.#live = undefined;
      });
  }

  #definition(run: Run): { agent?: AgentDefinition; model?: Model; problem?: RunError } {
    const { registry, resolveModel, env } = this.#core.parts;
    const agent = registry.find(run.component);
    if (agent === undefined) {
      const message = `Version "${run.component.version}" of the ${run.component.kind} "${run.component.id}" is not registered any more.`;
      return { problem: { type: "version_unavailable", message, retryable: false } };
    }
    try {
      return { agent, model: resolveModel(agent.model, env) };
    } catch (error) {
      return { agent, problem: { type: "model_misconfigured", message: error instanceof Error ? error.message : String(error), retryable: false } };
    }
  }

  #attemptOf(run: Run) {
    const left = Math.max(0, MAX_ATTEMPTS - run.attemptsSinceCheckpoint);
    return { attempt: run.attempt, maxAttempts: run.attempt + left, delayMs: 0, reason: "crash" as const };
  }

  /** Where the deltas begin that belong to no stored reply. Whatever was reserved but never stored comes after them. */
  #startOfUnfinishedReply(stored: StoredRun): number {
    const events = this.#core.events(stored);
    const lastMeaning = events.findLastIndex((event) => event.type === "model.completed" || event.type === "model.started" || event.type === "run.retried");
    const delta = events.slice(lastMeaning + 1).find((event) => event.type === "text.delta" || event.type === "reasoning.delta");
    return delta?.index ?? (events.at(-1)?.index ?? -1) + 1;
  }

  #saveSession(session: Session): void {
    this.#core.store.saveSession({ ...session, updatedAt: this.#core.parts.clock.now(), version: session.version + 1 });
    this.#core.outbox.put("session");
  }
}

function lastReply(ending: Ending, live: LiveTurn | undefined) {
  if (ending.kind === "completed") return ending.reply;
  return ending.kind === "failed" ? (ending.partial ?? live?.partialReply()) : live?.partialReply();
}

/** What the turn was shown of earlier runs, where its agent keeps that. */
function historyOf(live: LiveTurn): Pick<Run, "history"> {
  const { agent, input } = live.turn;
  return agent.storeHistoryMessages === true ? { history: projectHistory(live.pastRuns(), agent, input) } : {};
}

const eventsBefore = (ending: Ending): RunEventBody[] => (ending.kind === "cancelled" ? [] : ending.events);

function fieldsOf(ending: Ending): Partial<Run> & Pick<Run, "status"> {
  switch (ending.kind) {
    case "completed":
      return { status: "completed", finishReason: ending.finishReason };
    case "failed":
      return { status: "failed", error: ending.error };
    case "cancelled":
      return { status: "cancelled", cancelReason: ending.reason };
  }
}

/** `left` are the calls that had no outcome when the end came. */
function terminalEvent(ending: Ending, run: Run, content: string, left: readonly Effect[]): RunEventBody {
  switch (ending.kind) {
    case "completed":
      return { type: "run.completed", content, finishReason: ending.finishReason, metrics: run.metrics, ...(run.metadata === undefined ? {} : { metadata: run.metadata }) };
    case "failed":
      return { type: "run.failed", error: ending.error };
    case "cancelled": {
      const unfinished = left.filter((effect) => effect.status === "unknown").map((effect) => effect.callId);
      return { type: "run.cancelled", reason: ending.reason, ...(unfinished.length === 0 ? {} : { unfinished }) };
    }
  }
}

/** A call that the end of its run overtook: history must have a result for it, and the result must be true. */
function closeEffect(effect: Effect, now: number): Effect {
  if (effect.status === "started") return { ...effect, status: "unknown", result: "cancelled while running; it may have happened", settledAt: now };
  return { ...effect, status: "skipped", result: "Not executed: the run ended before it.", settledAt: now };
}

/** Nobody can decide any more about a run that is over; what was decided stays, with what became of the run. */
function closeApproval(approval: Approval, ending: Ending, now: number): Approval {
  const closed = { ...approval, runStatus: fieldsOf(ending).status, updatedAt: now, version: approval.version + 1 };
  if (approval.status !== "pending") return closed;
  const hasExpired = ending.kind === "cancelled" && ending.approvals === "expired";
  return hasExpired ? { ...closed, status: "expired", resolvedAt: now } : { ...closed, status: "cancelled" };
}

/** What a run's people and readers should know of the code that it goes on with, where it is other code. */
function noteOf(before: Run, now: Run): { note?: string } {
  if (before.model === now.model && before.provider === now.provider) return {};
  return { note: `The model is ${now.provider}:${now.model} now; before the pause it was ${before.provider}:${before.model}.` };
}

function addRun(session: Session, run: Run): Session["metrics"] {
  const { metrics } = session;
  return { usage: addUsage(metrics.usage, run.metrics.usage), durationMs: metrics.durationMs + (run.metrics.durationMs ?? 0), runs: metrics.runs + 1 };
}

