import { expect } from "vitest";
import { type AgentDefinition, type AgentOptions, defineAgent } from "../../../src/define/agent.ts";
import type { AssistantMessage, Message, UserMessage } from "../../../src/domain/message.ts";
import { isDelta, isTerminalEvent, type RunEvent, type RunEventBody } from "../../../src/domain/run-event.ts";
import type { RunInput } from "../../../src/domain/run.ts";
import type { Requirement, Resolution } from "../../../src/domain/requirement.ts";
import { type Effect, effectKey, isSettled, isWaiting } from "../../../src/domain/tool-call.ts";
import { viewOf } from "../../../src/engine/call-view.ts";
import { withToolResults } from "../../../src/engine/history.ts";
import type { PastRun, Turn, TurnOutcome, TurnPorts } from "../../../src/engine/ports.ts";
import { runTurn } from "../../../src/engine/run-turn.ts";
import type { Clock } from "../../../src/lib/clock.ts";
import { toMessagesRequest } from "../../../src/models/anthropic/request.ts";
import type { Model, ModelContext, ModelPart, ModelRequest } from "../../../src/models/model.ts";
import { toChatRequest } from "../../../src/models/openai/chat-request.ts";
import { toResponsesRequest } from "../../../src/models/openai/responses-request.ts";
import { applyChanges, snapshot } from "../../../src/session/session-state.ts";
import { contentOf } from "../../../src/session/transcript.ts";
import { historyProblems } from "../../fakes/valid-history.ts";

/** Hashes under way: they are made on another thread, and nothing else here leaves the event loop. */
let hashes = 0;
const digest = crypto.subtle.digest.bind(crypto.subtle);
crypto.subtle.digest = (...args) => {
  hashes += 1;
  return digest(...args).finally(() => (hashes -= 1));
};

/** Lets everything run that can run without time going on. */
export async function settle(): Promise<void> {
  for (let idle = 0; idle < 10; idle = hashes > 0 ? 0 : idle + 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A promise and the hands that settle it. */
export function deferred<T>() {
  return Promise.withResolvers<T>();
}

/** Time that only goes on when a test says so. */
export class HeldClock implements Clock {
  #now = 1_000_000;
  #sleepers: { at: number; wake: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const sleeper = { at: this.#now + ms, wake: () => this.#leave(sleeper, resolve) };
      this.#sleepers.push(sleeper);
      signal?.addEventListener("abort", sleeper.wake, { once: true });
    });
  }

  get sleepers(): number {
    return this.#sleepers.length;
  }

  /** Milliseconds until the next sleeper wakes. */
  get nextMs(): number | undefined {
    return this.#sleepers.length === 0 ? undefined : Math.min(...this.#sleepers.map((sleeper) => sleeper.at)) - this.#now;
  }

  /** Once somebody sleeps and nothing else moves, time goes on by so much. */
  async pass(ms: number): Promise<void> {
    await settle();
    const end = this.#now + ms;
    for (let next = this.#due(end); next !== undefined; next = this.#due(end)) {
      this.#now = next.at;
      next.wake();
      await settle();
    }
    this.#now = end;
  }

  #due(end: number): { at: number; wake: () => void } | undefined {
    return this.#sleepers.filter((sleeper) => sleeper.at <= end).sort((a, b) => a.at - b.at)[0];
  }

  #leave(sleeper: { at: number; wake: () => void }, resolve: () => void): void {
    this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
    resolve();
  }
}

/** Random numbers that are the same every time. */
export function seeded(seed: number): { next: () => number; below: (limit: number) => number; pick: <T>(list: readonly T[]) => T } {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  return { next, below, pick: (list) => list[below(list.length)]! };
}

/** An agent with what a test says about it. The lab gives it its model. */
export const agentOf = (options: Partial<AgentOptions> = {}): AgentDefinition => defineAgent({ id: "a1", model: "scripted:unused", ...options });

/** A model made of its parts: one list a request, the last one again where there are more requests. */
export function partsModel(...replies: readonly (readonly ModelPart[] | ((context: ModelContext) => AsyncIterable<ModelPart>))[]): Model & { requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  return {
    provider: "parts",
    id: "parts-1",
    requests,
    async *stream(request, context) {
      requests.push({ ...request, messages: structuredClone(request.messages) });
      const reply = replies[Math.min(requests.length, replies.length) - 1]!;
      yield* typeof reply === "function" ? reply(context) : reply;
    },
  };
}

export const finish = (reason: Extract<ModelPart, { type: "finish" }>["reason"] = "stop"): ModelPart => ({ type: "finish", reason });

/** The attempt is not the living one any more. */
export class Refused extends Error {}

/** Where an attempt dies: at the commit with this number (from 1), before or after storage has it. */
export interface CrashPoint {
  commit: number;
  when: "before" | "after";
}

export interface LabOptions {
  agent: AgentDefinition;
  model: Model;
  input?: Partial<RunInput>;
  past?: readonly PastRun[];
  state?: Record<string, unknown>;
  userId?: string;
  env?: Record<string, unknown>;
  clock?: HeldClock;
  /** What it goes on from: another run's messages and ledger rows. */
  from?: { messages: (UserMessage | AssistantMessage)[]; effects: Effect[] };
}

interface Attempt {
  alive: boolean;
  closed: boolean;
  controller: AbortController;
  turn: Turn;
  stateBefore: Record<string, unknown>;
  text: string;
}

export type End =
  | { status: "crashed" }
  | { status: "completed"; content: string; finishReason: string }
  | { status: "failed"; error: Extract<TurnOutcome, { kind: "failed" }>["error"]; content: string }
  | { status: "cancelled"; content: string }
  | { status: "paused"; waiting: string[] };

/**
 * A session in memory around one run: it stores what the engine commits as JSON, tells events, and loses everything else in a
 * crash. What `session/` does around the engine is done here in as few words as possible.
 */
export class Lab {
  readonly clock: HeldClock;
  readonly agent: AgentDefinition;
  readonly model: Model;
  readonly input: RunInput;
  /** Rows as they lie in storage. */
  readonly messages: string[] = [];
  readonly effectRows = new Map<string, string>();
  readonly events: RunEvent[] = [];
  state: string;
  /** Events as someone saw them who was there all the time. */
  readonly told: RunEvent[] = [];
  /** What each commit was about. */
  readonly commits: string[] = [];
  /** Outcomes of calls that nobody waited for. */
  readonly late: { key: string; status: string; result: string }[] = [];
  readonly #options: LabOptions;
  #pending: RunEvent[] = [];
  #next = 0;
  #attempts = 0;
  #crash: CrashPoint | undefined;
  #died = deferred<void>();
  #current: Attempt | undefined;
  end: End | undefined;
  /** A commit whose name begins so fails, as when another attempt has taken over. */
  refuses: string | undefined;

  constructor(options: LabOptions) {
    this.#options = options;
    this.agent = options.agent;
    this.model = options.model;
    this.clock = options.clock ?? new HeldClock();
    this.input = { message: "Do it.", ...options.input };
    this.state = JSON.stringify(options.state ?? {});
    for (const message of options.from?.messages.slice(1) ?? []) this.messages.push(JSON.stringify(message));
    for (const effect of options.from?.effects ?? []) this.#saveEffect(effect);
    this.#write([{ type: "run.started" }], "start");
  }

  get firstStep(): number {
    return this.#options.from?.messages.filter((message) => message.role === "assistant").length ?? 0;
  }

  get attempts(): number {
    return this.#attempts;
  }

  get effects(): Effect[] {
    return [...this.effectRows.values()].map((row) => JSON.parse(row) as Effect).sort((a, b) => a.step - b.step || a.position - b.position);
  }

  get ownMessages(): (UserMessage | AssistantMessage)[] {
    const asked: UserMessage = { id: "input", role: "user", content: this.input.message, createdAt: 0 };
    return [asked, ...this.messages.map((row) => JSON.parse(row) as AssistantMessage)];
  }

  get sessionState(): Record<string, unknown> {
    return JSON.parse(this.state) as Record<string, unknown>;
  }

  /** The run as a model would be shown it later. */
  get history(): Message[] {
    return withToolResults(this.ownMessages, this.effects);
  }

  effect(callId: string): Effect {
    const found = this.effects.find((effect) => effect.callId === callId);
    if (found === undefined) throw new Error(`The ledger has no call "${callId}".`);
    return found;
  }

  eventsOf<Type extends RunEvent["type"]>(type: Type): Extract<RunEvent, { type: Type }>[] {
    return this.told.filter((event): event is Extract<RunEvent, { type: Type }> => event.type === type);
  }

  /** One attempt from what is stored, to its end or to its crash. */
  async attempt(crash?: CrashPoint): Promise<End> {
    this.#crash = crash;
    this.#died = deferred<void>();
    this.#attempts += 1;
    if (this.#attempts > 1) this.#resume();
    const attempt: Attempt = {
      alive: true,
      closed: false,
      controller: new AbortController(),
      turn: {
        runId: "run-1",
        sessionId: "session-1",
        ...(this.#options.userId === undefined ? {} : { userId: this.#options.userId }),
        agent: this.agent,
        model: this.model,
        input: this.input,
        messages: this.ownMessages,
        effects: this.effects,
        firstStep: this.firstStep,
        sessionState: this.sessionState,
      },
      stateBefore: this.sessionState,
      text: "",
    };
    this.#current = attempt;
    const outcome = await Promise.race([
      this.#died.promise.then(() => "crashed" as const),
      runTurn(attempt.turn, this.#ports(attempt)).catch((error: unknown): TurnOutcome => {
        // After a cancel every write is refused, and that is how a turn may find out.
        if (error instanceof Refused && attempt.closed) return { kind: "cancelled" };
        throw error;
      }),
    ]);
    if (outcome === "crashed") return { status: "crashed" };
    if (outcome.kind === "cancelled") return this.end ?? { status: "cancelled", content: "" };
    return this.#finish(attempt, outcome);
  }

  /** What a person says about a call that waits: stored at once, as the session does it with the continue that follows. */
  answer(callId: string, resolution: Resolution): void {
    const effect = this.effect(callId);
    if (!isWaiting(effect)) throw new Error(`The call "${callId}" does not wait.`);
    this.#saveEffect({ ...effect, requirement: { ...(effect.requirement as Requirement), resolution, resolvedAt: this.clock.now() } });
  }

  /** What each waiting call waits for, by call id. */
  get open(): Record<string, string> {
    return Object.fromEntries(this.effects.filter(isWaiting).map((effect) => [effect.callId, (effect.requirement as Requirement).kind]));
  }

  /** Attempts until one comes to an end. */
  async run(): Promise<End> {
    const end = await this.attempt();
    expect(end.status).not.toBe("crashed");
    return end;
  }

  /** What the session does when someone cancels: the end is written first, then the work is stopped. */
  cancel(): void {
    const attempt = this.#current as Attempt;
    attempt.closed = true;
    const partial = attempt.text === "" ? undefined : this.#partial(attempt);
    attempt.controller.abort();
    this.#end(attempt, partial, [{ type: "run.cancelled", reason: "by the test" }]);
    this.end = { status: "cancelled", content: contentOf(this.ownMessages, this.effects, this) };
  }

  #ports(attempt: Attempt): TurnPorts {
    const commit = async (events: RunEventBody[], what: string, change: () => void): Promise<void> => {
      if (!attempt.alive) return new Promise(() => {});
      if (attempt.closed) throw new Refused("This attempt is over.");
      if (this.refuses !== undefined && what.startsWith(this.refuses)) throw new Refused("Another attempt has taken over.");
      if (this.#dies("before")) return this.#die(attempt);
      change();
      for (const event of events) if (event.type === "run.retried") attempt.text = "";
      this.#write(events, what);
      if (this.#dies("after", -1)) return this.#die(attempt);
      // As long as the disk takes.
      await Promise.resolve();
    };
    return {
      env: (this.#options.env ?? {}) as unknown as Cloudflare.Env,
      clock: {
        now: () => this.clock.now(),
        sleep: async (ms, signal) => {
          await this.clock.sleep(ms, signal);
          // Nothing wakes up in a process that is gone.
          if (!attempt.alive) await new Promise(() => {});
        },
      },
      signal: attempt.controller.signal,
      pastRuns: () => this.#options.past ?? [],
      nextIndex: () => this.#next,
      emit: async (...events) => {
        if (events.every(isDelta)) {
          if (attempt.closed) throw new Refused("This attempt is over.");
          if (!attempt.alive) return;
          for (const event of events) {
            if (event.type === "text.delta") attempt.text += event.text;
            const delta = this.#append(event);
            this.#pending.push(delta);
            this.told.push(delta);
          }
          return;
        }
        await commit(events, events.map((event) => event.type).join("+"), () => {});
      },
      saveReply: (message, calls, events) =>
        commit(events, "reply", () => {
          attempt.text = "";
          this.messages.push(JSON.stringify(message));
          for (const call of calls) this.#saveEffect(call);
        }),
      startCall: (effect, event) => commit([event], `start ${effectKey(effect)}`, () => this.#saveEffect({ ...effect, attempt: this.#attempts })),
      settleCall: (effect, event) =>
        commit(event === undefined ? [] : [event], `settle ${effectKey(effect)}`, () => {
          this.#saveEffect(effect);
          this.#saveState(attempt);
        }),
      reportLateOutcome: (effect, outcome) => {
        if (!attempt.alive) return;
        this.late.push({ key: effectKey(effect), ...outcome });
        const row = this.effects.find((other) => effectKey(other) === effectKey(effect));
        if (row?.status !== "unknown" || row.lateOutcome !== undefined) return;
        this.#saveEffect({ ...row, lateOutcome: { ...outcome, at: this.clock.now() } });
      },
    };
  }

  #finish(attempt: Attempt, outcome: Exclude<TurnOutcome, { kind: "cancelled" }>): End {
    if (this.#dies("before")) return this.#dead(attempt);
    if (outcome.kind === "paused") return this.#pause(attempt, outcome);
    const reply = outcome.kind === "completed" ? outcome.reply : outcome.partial;
    const terminal: RunEventBody =
      outcome.kind === "completed"
        ? { type: "run.completed", content: "", metrics: { usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }, modelCalls: 0 } }
        : { type: "run.failed", error: outcome.error };
    attempt.closed = true;
    this.#end(attempt, reply, [...outcome.events, terminal]);
    attempt.controller.abort();
    if (this.#dies("after", -1)) return this.#dead(attempt);
    const content = contentOf(this.ownMessages, this.effects, this);
    this.end = outcome.kind === "completed" ? { status: "completed", content, finishReason: outcome.finishReason } : { status: "failed", error: outcome.error, content };
    return this.end;
  }

  #pause(attempt: Attempt, { waiting, events }: Extract<TurnOutcome, { kind: "paused" }>): End {
    attempt.closed = true;
    for (const effect of waiting) this.#saveEffect(effect);
    this.#saveState(attempt);
    this.#write([...events, { type: "run.paused", content: contentOf(this.ownMessages, this.effects, this), calls: waiting.map(viewOf) }], "pause");
    attempt.controller.abort();
    if (this.#dies("after", -1)) return this.#dead(attempt);
    return { status: "paused", waiting: waiting.map(({ callId }) => callId) };
  }

  #end(attempt: Attempt, reply: AssistantMessage | undefined, events: RunEventBody[]): void {
    if (reply !== undefined) this.messages.push(JSON.stringify(reply));
    for (const effect of this.effects.filter((candidate) => !isSettled(candidate.status))) {
      const closed = effect.status === "started" ? { status: "unknown" as const, result: "cancelled while running; it may have happened" } : { status: "skipped" as const, result: "Not executed: the run ended before it." };
      this.#saveEffect({ ...effect, ...closed, settledAt: this.clock.now() });
    }
    this.#saveState(attempt);
    this.#write(events, "end");
  }

  #partial(attempt: Attempt): AssistantMessage {
    return { id: "partial", role: "assistant", createdAt: this.clock.now(), content: attempt.text, toolCalls: [], provider: this.model.provider, model: this.model.id, finishReason: "other:interrupted", partial: true };
  }

  /** What a new attempt says first: that a paused run goes on, or which of the events that were told do not count. */
  #resume(): void {
    if (this.events.at(-1)?.type === "run.paused") return this.#write([{ type: "run.continued" }], "continue");
    const lastMeaning = this.events.findLastIndex((event) => event.type === "model.completed" || event.type === "model.started" || event.type === "run.retried");
    const delta = this.events.slice(lastMeaning + 1).find(isDelta);
    const from = delta?.index ?? (this.events.at(-1)?.index ?? -1) + 1;
    this.#write([{ type: "run.retried", attempt: this.#attempts, maxAttempts: 3, delayMs: 0, reason: "crash", discarded: { from, to: this.#next - 1 } }], "resume");
  }

  #append(event: RunEventBody): RunEvent {
    const appended: RunEvent = { index: this.#next, at: this.clock.now(), ...event };
    this.#next += 1;
    return appended;
  }

  #write(events: RunEventBody[], what: string): void {
    // Written down as the log writes it: what is not JSON would fail the commit, and with it the session.
    const written = events.map((event) => JSON.parse(JSON.stringify(this.#append(event))) as RunEvent);
    this.events.push(...this.#pending, ...written);
    this.told.push(...written);
    this.#pending = [];
    this.commits.push(what);
  }

  #saveEffect(effect: Effect): void {
    this.effectRows.set(effectKey(effect), JSON.stringify(effect));
  }

  #saveState(attempt: Attempt): void {
    const next = applyChanges(this.sessionState, attempt.stateBefore, attempt.turn.sessionState);
    attempt.stateBefore = snapshot(attempt.turn.sessionState);
    this.state = JSON.stringify(next);
  }

  #dies(when: CrashPoint["when"], offset = 0): boolean {
    return this.#crash?.when === when && this.#crash.commit === this.commits.length + 1 + offset;
  }

  #die(attempt: Attempt): Promise<never> {
    attempt.alive = false;
    this.#pending = [];
    this.#died.resolve();
    return new Promise(() => {});
  }

  #dead(attempt: Attempt): End {
    void this.#die(attempt);
    return { status: "crashed" };
  }
}

/** Text that a client shows which drops what the log says does not count. */
export function shownText(events: readonly RunEvent[]): string {
  let shown: { index: number; text: string }[] = [];
  for (const event of events) {
    if (event.type === "text.delta") shown.push({ index: event.index, text: event.text });
    if (event.type === "run.retried" && event.discarded !== undefined) {
      const { from, to } = event.discarded;
      shown = shown.filter(({ index }) => index < from || index > to);
    }
  }
  return shown.map(({ text }) => text).join("");
}

/** What the log of a run must be that waits: no index missing or twice, no terminal event, and the pause last. */
export function expectSoundPause(lab: Lab): void {
  expect(lab.told.map((event) => event.index)).toEqual(lab.told.map((_, position) => position));
  expect(lab.told.filter((event) => isTerminalEvent(event))).toEqual([]);
  expect(lab.told.at(-1)).toMatchObject({ type: "run.paused", calls: Object.keys(lab.open).map((callId) => ({ callId })) });
}

/** What every log must be: no index missing or twice, one terminal event, and that one last. */
export function expectSoundLog(lab: Lab): void {
  expect(lab.told.map((event) => event.index)).toEqual(lab.told.map((_, position) => position));
  const terminal = lab.told.filter((event) => isTerminalEvent(event));
  expect(terminal).toHaveLength(1);
  expect(lab.told.at(-1)).toBe(terminal[0]);
}

/** Each call has one result, directly after its reply and in the order of the calls; no result stands alone. */
export function pairingProblems(messages: readonly Message[]): string[] {
  const problems: string[] = [];
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      if (open[0] !== message.toolCallId) problems.push(`The result of ${message.toolCallId} answers nothing that is due.`);
      open = open.slice(1);
      continue;
    }
    if (open.length > 0) problems.push(`The calls ${open.join(", ")} have no result.`);
    open = message.role === "assistant" ? message.toolCalls.map((call) => call.id) : [];
  }
  if (open.length > 0) problems.push(`The calls ${open.join(", ")} have no result.`);
  return problems;
}

/** Everything that is wrong with a request: as the engine made it, and on the wire of each provider. */
export function requestProblems(request: ModelRequest): string[] {
  return [
    ...pairingProblems(request.messages),
    ...historyProblems("anthropic", toMessagesRequest(request, "claude-x") as unknown as Record<string, unknown>),
    ...historyProblems("chat", toChatRequest(request, "gpt-x", { ownServer: true }) as unknown as Record<string, unknown>),
    ...historyProblems("responses", toResponsesRequest(request, "gpt-x") as unknown as Record<string, unknown>),
  ];
}
