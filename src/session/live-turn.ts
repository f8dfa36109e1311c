import type { AgentDefinition } from "../define/agent.ts";
import { newId } from "../domain/ids.ts";
import type { AssistantMessage } from "../domain/message.ts";
import { isDelta, type RunEventBody } from "../domain/run-event.ts";
import type { Effect } from "../domain/tool-call.ts";
import type { PastRun, Turn, TurnPorts } from "../engine/ports.ts";
import { asModelsSee, isHistory } from "../engine/history.ts";
import type { Model } from "../models/model.ts";
import type { SessionCore } from "./core.ts";
import type { EventLog } from "./event-log.ts";
import { applyChanges, isSame, snapshot } from "./session-state.ts";
import type { StoredRun } from "./store.ts";

/** This attempt is not the living one any more; what it still wants to write is refused. */
export class StaleAttempt extends Error {}

/**
 * One attempt at a turn, while this instance runs it. It is the engine's hands: every write goes through here, and none
 * does once the turn has ended or a later attempt has begun.
 */
export class LiveTurn implements TurnPorts {
  readonly stored: StoredRun;
  readonly log: EventLog;
  readonly attempt: number;
  readonly turn: Turn;
  readonly env: Cloudflare.Env;
  readonly clock: TurnPorts["clock"];
  readonly #core: SessionCore;
  readonly #controller = new AbortController();
  /** The session's state as this turn last read or wrote it. */
  #stateBefore: Record<string, unknown>;
  /** What the reply in progress has told so far: kept if the turn is cut off. */
  #text = "";
  #reasoning = "";
  #closed = false;

  constructor(core: SessionCore, stored: StoredRun, log: EventLog, given: { agent: AgentDefinition; model: Model; state: Record<string, unknown> }) {
    const { run } = stored;
    this.#core = core;
    this.stored = stored;
    this.log = log;
    this.attempt = run.attempt;
    this.env = core.parts.env;
    this.clock = core.parts.clock;
    this.#stateBefore = structuredClone(given.state);
    this.turn = {
      runId: run.runId,
      sessionId: run.sessionId,
      ...(run.userId === undefined ? {} : { userId: run.userId }),
      agent: given.agent,
      model: given.model,
      input: run.input,
      messages: core.store.messages(stored),
      effects: core.store.effects(stored.ordinal),
      ...(run.firstStep === undefined ? {} : { firstStep: run.firstStep }),
      sessionState: given.state,
    };
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  /** From here on nothing of this attempt is written. Aborting stops the provider's request and the tools. */
  close(): void {
    this.#closed = true;
    this.#controller.abort();
  }

  /** What was told of a reply that will not be finished. */
  partialReply(): AssistantMessage | undefined {
    if (this.#text === "") return undefined;
    return {
      id: newId(),
      role: "assistant",
      createdAt: this.clock.now(),
      content: this.#text,
      ...(this.#reasoning === "" ? {} : { reasoning: [{ text: this.#reasoning }] }),
      toolCalls: [],
      provider: this.turn.model.provider,
      model: this.turn.model.id,
      finishReason: "other:interrupted",
      partial: true,
    };
  }

  /** The session's state with what this turn changed; `undefined` when it changed nothing. */
  changedState(): Record<string, unknown> | undefined {
    const stored = this.#core.store.session()?.state ?? {};
    const next = applyChanges(stored, this.#stateBefore, this.turn.sessionState);
    this.#stateBefore = snapshot(this.turn.sessionState);
    return isSame(next, stored) ? undefined : next;
  }

  *pastRuns(): Generator<PastRun> {
    const lines = new Set([this.#core.store.lineOf(this.stored.run)]);
    // A branch stands in history where its source stood: what came after the source is another line's.
    for (const { stored, messages, effects } of this.#core.store.runsBefore(this.stored.run.historyBefore ?? this.stored.ordinal)) {
      const { run } = stored;
      // Branches of one run hold the same messages. The newest of them is where the conversation stands.
      const line = this.#core.store.lineOf(run);
      if (lines.has(line)) continue;
      if (isHistory(run.status, this.turn.agent)) lines.add(line);
      yield {
        runId: run.runId,
        status: run.status,
        componentId: run.component.id,
        ...(run.parentRunId === undefined ? {} : { parentRunId: run.parentRunId }),
        messages: () => asModelsSee(messages(), effects()),
      };
    }
  }

  nextIndex(): number {
    return this.log.nextIndex;
  }

  async emit(...events: RunEventBody[]): Promise<void> {
    const deltasOnly = events.every(isDelta);
    // Storage is asked before a commit, not before each delta: a delta of a stale attempt can not be stored anyway.
    if (this.#closed || !deltasOnly) this.#refuseIfStale();
    for (const event of events) this.#follow(event);
    if (!deltasOnly) return this.#core.record(this.stored, events);
    for (const event of events) this.log.tellDelta(event);
  }

  async saveReply(message: AssistantMessage, calls: Effect[], events: RunEventBody[]): Promise<void> {
    this.#refuseIfStale();
    await this.#core.record(this.stored, events, () => {
      this.#core.store.addMessage(this.stored.ordinal, this.turn.messages.length, message);
      for (const call of calls) this.#core.store.saveEffect(this.stored.ordinal, call);
      this.#forgetReply();
    });
  }

  async startCall(effect: Effect, event: RunEventBody): Promise<void> {
    this.#refuseIfStale();
    await this.#core.record(this.stored, [event], () => this.#core.store.saveEffect(this.stored.ordinal, { ...effect, attempt: this.attempt }));
  }

  async settleCall(effect: Effect, event: RunEventBody | undefined): Promise<void> {
    this.#refuseIfStale();
    const state = this.changedState();
    await this.#core.record(this.stored, event === undefined ? [] : [event], () => {
      this.#core.store.saveEffect(this.stored.ordinal, { ...effect, attempt: this.attempt });
      const session = this.#core.store.session();
      if (state !== undefined && session !== undefined) this.#core.store.saveSession({ ...session, state, updatedAt: this.clock.now(), version: session.version + 1 });
    });
  }

  reportLateOutcome(effect: Effect, outcome: { status: "done" | "failed"; result: string }): void {
    const row = this.#core.store.effects(this.stored.ordinal).find((other) => other.step === effect.step && other.position === effect.position);
    // The session may be deleted by now, and a row takes a late outcome once.
    if (row === undefined || row.status !== "unknown" || row.lateOutcome !== undefined) return;
    this.#core.commit(() => this.#core.store.saveEffect(this.stored.ordinal, { ...row, lateOutcome: { ...outcome, at: this.clock.now() } }));
  }

  #follow(event: RunEventBody): void {
    if (event.type === "text.delta") this.#text += event.text;
    else if (event.type === "reasoning.delta") this.#reasoning += event.text;
    else if (event.type === "run.retried") this.#forgetReply();
  }

  #forgetReply(): void {
    this.#text = "";
    this.#reasoning = "";
  }

  /** An instance that was replaced can not reach storage; within this one, a turn is stale once it is closed or outnumbered. */
  #refuseIfStale(): void {
    if (this.#closed || this.#core.store.livingAttempt(this.stored.ordinal) !== this.attempt) {
      throw new StaleAttempt(`Attempt ${this.attempt} of the run "${this.stored.run.runId}" is over.`);
    }
  }
}
