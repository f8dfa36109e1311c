import type { ToolDefinition } from "../define/tool.ts";
import type { Approval } from "../domain/approval.ts";
import { ok, refused, type Result } from "../domain/errors.ts";
import { newId } from "../domain/ids.ts";
import { isTerminal, type Run } from "../domain/run.ts";
import { type Effect, isSettled, isWaiting } from "../domain/tool-call.ts";
import { NO_USAGE } from "../domain/usage.ts";
import { decisionOn } from "../engine/requirements.ts";
import { decides, matchAnswers, type Matched } from "./answers.ts";
import { auditApproval, decisionNote } from "./approvals.ts";
import { beginningOf } from "./branch.ts";
import type { ContinuedRun, ContinueRun } from "./commands.ts";
import type { SessionCore } from "./core.ts";
import { RESERVED_AHEAD } from "./event-log.ts";
import { isSame } from "./session-state.ts";
import { lineFor, notStreamed } from "./line.ts";
import type { OwnMessage, StoredRun } from "./store.ts";
import type { Turns } from "./turns.ts";

type Refusal = ReturnType<typeof refused>;

/**
 * How a run goes on after people have answered, or after it has ended. One command, told apart by what the run is: a
 * paused one goes on in place, an ended one has a sibling, one that runs is attached to.
 */
export class Continuations {
  readonly #core: SessionCore;
  readonly #turns: Turns;

  constructor(core: SessionCore, turns: Turns) {
    this.#core = core;
    this.#turns = turns;
  }

  async continueRun(command: ContinueRun): Promise<Result<ContinuedRun>> {
    const stored = this.#core.store.run(command.runId);
    if (stored === undefined) return refused("not_found", "Run not found");
    const before = this.#continuedBefore(stored, command);
    if (before !== undefined) return before;
    const told = this.#core.told(stored).status;
    // Readers may still see a run as it was before its last change; a paused one that was cancelled since can not go on.
    const status = told === "paused" ? stored.run.status : told;
    if (status !== told) await this.#core.parts.storage.sync();
    switch (status) {
      case "cancelled":
      case "regenerated":
        return refused("run_not_continuable", `The run '${command.runId}' was ${status === "cancelled" ? "cancelled" : "replaced"}; it can not be continued.`, { run_id: command.runId });
      case "pending":
      case "running":
        return this.#attach(stored, command);
      case "paused":
        return wantsBranch(command) ? this.#branch(stored, command) : this.#resume(stored, command);
      case "completed":
      case "failed":
        return this.#goOnFrom(stored, command);
    }
  }

  /** What came of this continue when it was asked for before: the answer may have been lost on the way. */
  #continuedBefore(stored: StoredRun, { newRunId, stream }: ContinueRun): Result<ContinuedRun> | undefined {
    const sibling = this.#core.store.run(newRunId);
    const { run } = sibling ?? stored;
    const after = sibling === undefined ? run.continuations?.find(({ id }) => id === newRunId)?.after : -1;
    if (after === undefined) return undefined;
    if (stream && !run.stream) return notStreamed(run.runId);
    return ok({ runId: run.runId, sessionId: run.sessionId, status: this.#core.told(sibling ?? stored).status, after });
  }

  /** Someone's decision lets a paused run go on, whether or not readers have been told that it is paused. */
  async resumePaused(command: ContinueRun): Promise<void> {
    const stored = this.#core.store.run(command.runId);
    if (stored?.run.status === "paused") await this.#resume(stored, command);
  }

  /** A second continue finds the run under way: it is shown what comes. One that wants something else is too late. */
  #attach(stored: StoredRun, command: ContinueRun): Result<ContinuedRun> {
    const { run } = stored;
    const matched = matchAnswers(command.answers ?? [], this.#core.store.effects(stored.ordinal));
    if (!matched.ok) return matched;
    if (wantsBranch(command) || command.input !== undefined || matched.value.size > 0) {
      return refused("run_not_continuable", `The run '${run.runId}' is under way already.`, { run_id: run.runId });
    }
    const after = this.#core.log(stored).toldIndex;
    this.#core.release(stored);
    return ok({ runId: run.runId, sessionId: run.sessionId, status: this.#core.told(stored).status, after });
  }

  /** What is said about calls of an ended run comes too late, unless it only repeats what was decided on the way to something else. */
  #goOnFrom(stored: StoredRun, command: ContinueRun): Promise<Result<ContinuedRun>> | Result<ContinuedRun> {
    const answers = command.answers ?? [];
    const matched = matchAnswers(answers, this.#core.store.effects(stored.ordinal));
    if (!matched.ok) return matched;
    if (answers.some(decides) && command.input === undefined && !wantsBranch(command)) {
      return refused("run_not_continuable", `The run '${command.runId}' has ended, and its calls are decided.`, { run_id: command.runId });
    }
    return this.#branch(stored, command);
  }

  async #resume(stored: StoredRun, command: ContinueRun): Promise<Result<ContinuedRun>> {
    const { store, parts } = this.#core;
    const { run } = stored;
    const agent = parts.registry.find(run.component);
    if (agent === undefined) return versionUnavailable(run);
    const effects = store.effects(stored.ordinal);
    const approvals = store.approvalsOf(run.runId);

    const matched = matchAnswers(command.answers ?? [], effects);
    if (!matched.ok) return matched;
    const blocked = blockedBy(effects, approvals);
    if (blocked !== undefined) return blocked;
    const now = parts.clock.now();
    const answered = effects.map((effect) => withAnswer(effect, matched.value.get(effect), command.by, now));
    const open = answered.filter(isWaiting);
    if (open.length > 0) return stillOpen(open, matched.value);
    const messages = store.messages(stored);
    const misfit = await misfitOf(answered, messages, agent.tools, new Set([...matched.value.keys()].map(({ callId }) => callId)));
    if (misfit !== undefined) return misfit;

    // The tools' schemas were asked in the meantime; a decision, a delete, a cancel or another continue may have come.
    if (!isSame([run, effects, approvals], this.#standOf(run.runId))) return this.continueRun(command);
    const line = lineFor(store, command.onBusy);
    if (!line.ok) return line;

    const decided = answered.filter((effect, index) => effect !== effects[index]);
    const audits = new Map(decided.flatMap((effect) => (effect.requirement?.approvalType === "audit" ? [[effect, auditApproval(run, effect, command.by, now)] as const] : [])));
    const last = approvals.at(-1) ?? [...audits.values()].at(-1);
    const after = this.#core.log(stored).toldIndex;
    const next: Run = {
      ...run,
      status: "pending",
      background: command.background,
      stream: command.stream,
      onDisconnect: command.onDisconnect,
      continuations: [...(run.continuations ?? []), { id: command.newRunId, after }],
      queuedAt: now,
      checkpoint: messages.length + answered.filter((effect) => isSettled(effect.status)).length,
      ...(last === undefined ? {} : { metadata: { ...run.metadata, approval: decisionNote(last) } }),
      updatedAt: now,
      version: run.version + 1,
    };
    const save = (saved: Run): StoredRun => {
      for (const effect of decided) store.saveEffect(stored.ordinal, recordedBy(effect, audits.get(effect)));
      for (const audit of audits.values()) {
        store.saveApproval(audit);
        this.#core.outbox.put(`approval:${audit.id}`);
      }
      if (command.input !== undefined) store.addMessage(stored.ordinal, messages.length, userMessage(command.input, now));
      stored.run = saved;
      stored.priority = command.onBusy === "interrupt" ? 1 : 0;
      store.saveRun(stored);
      return stored;
    };
    this.#take(next, line.value, command, save);
    await parts.storage.sync();
    return ok({ runId: run.runId, sessionId: run.sessionId, status: this.#core.told(stored).status, after });
  }

  /** An ended run is never written again: what goes on from it is a sibling, with the finished calls' rows. */
  async #branch(stored: StoredRun, command: ContinueRun): Promise<Result<ContinuedRun>> {
    const { store, parts } = this.#core;
    const { run } = stored;
    if (parts.registry.find(run.component) === undefined) return versionUnavailable(run);

    const now = parts.clock.now();
    const beginning = beginningOf(store.messages(stored), store.effects(stored.ordinal), command, now);
    if (!beginning.ok) return beginning;
    const line = lineFor(store, command.onBusy);
    if (!line.ok) return line;

    const { messages, effects, index } = beginning.value;
    const [first, ...rest] = messages;
    // The state that the source was sent has had its effect; what came of it since must stay.
    const { sessionState: _sessionState, ...input } = run.input;
    const sibling: Run = {
      runId: command.newRunId,
      sessionId: run.sessionId,
      ...(run.userId === undefined ? {} : { userId: run.userId }),
      component: run.component,
      status: "pending",
      input: { ...input, message: (first as OwnMessage).content },
      background: command.background,
      stream: command.stream,
      onDisconnect: command.onDisconnect,
      attempt: 0,
      attemptsSinceCheckpoint: 0,
      checkpoint: messages.length + effects.filter((effect) => isSettled(effect.status)).length,
      content: "",
      ...(run.metadata === undefined ? {} : { metadata: withoutDecision(run.metadata) }),
      metrics: { usage: NO_USAGE, modelCalls: 0 },
      historyBefore: run.historyBefore ?? stored.ordinal,
      ...(run.schedule === undefined ? {} : { schedule: run.schedule }),
      forkedFromRunId: run.runId,
      forkedFromMessageIndex: index,
      ...(command.regenerate ? { regeneratedFrom: run.runId } : {}),
      firstStep: messages.filter((message) => message.role === "assistant").length,
      queuedAt: now,
      createdAt: now,
      updatedAt: now,
      version: 1,
    };
    let branch!: StoredRun;
    const insert = (saved: Run): StoredRun => {
      branch = store.insertRun(saved, command.onBusy === "interrupt" ? 1 : 0, saved.status === "running" ? RESERVED_AHEAD : 0);
      rest.forEach((message, position) => store.addMessage(branch.ordinal, position + 1, message));
      // A call that is asked about anew keeps the key that it was made with.
      for (const effect of effects) store.saveEffect(branch.ordinal, isWaiting(effect) ? effect : { ...effect, runId: saved.runId });
      if (command.regenerate && command.replaceOriginal) this.#markReplaced(stored);
      return branch;
    };
    this.#take(sibling, line.value, command, insert);
    await parts.storage.sync();
    return ok({ runId: sibling.runId, sessionId: sibling.sessionId, status: this.#core.told(branch).status, after: -1 });
  }

  /** The one mark that an ended run takes. */
  #markReplaced(stored: StoredRun): void {
    if (!isTerminal(stored.run.status)) return;
    stored.run = { ...stored.run, status: "regenerated", version: stored.run.version + 1 };
    this.#core.store.saveRun(stored);
    this.#core.outbox.put(`run:${stored.run.runId}`);
  }

  #standOf(runId: string): unknown {
    const { store } = this.#core;
    const stored = store.run(runId);
    return stored && [stored.run, store.effects(stored.ordinal), store.approvalsOf(runId)];
  }

  /** Begins the run at once, or puts it in the line. */
  #take(run: Run, ahead: StoredRun | undefined, command: ContinueRun, save: (run: Run) => StoredRun): void {
    if (ahead === undefined) {
      this.#turns.begin(run, save);
      return;
    }
    this.#core.commit(() => {
      save(run);
      this.#core.outbox.put(`run:${run.runId}`);
    });
    if (command.onBusy === "interrupt" && ahead.run.status === "running") {
      this.#turns.end(this.#turns.live?.stored ?? ahead, { kind: "cancelled", reason: `Interrupted by the run '${run.runId}'` });
    }
    void this.#core.outbox.kick();
  }
}

const wantsBranch = (command: ContinueRun): boolean => command.fork || command.regenerate || command.continueFrom !== "end";

const versionUnavailable = (run: Run): Refusal =>
  refused("version_unavailable", `Version "${run.component.version}" of the ${run.component.kind} "${run.component.id}" is not registered; the run stays as it is.`, {
    component_id: run.component.id,
    version: run.component.version,
  });

const userMessage = (content: string, createdAt: number): OwnMessage => ({ id: newId(), role: "user", content, createdAt });

const withoutDecision = ({ approval: _approval, ...metadata }: Record<string, unknown>): Record<string, unknown> => metadata;

/** Someone with authority has not decided yet, or what they would decide on is gone. */
function blockedBy(effects: readonly Effect[], approvals: readonly Approval[]): Refusal | undefined {
  for (const { requirement, toolName, status } of effects) {
    if (requirement?.approvalType !== "required" || status !== "planned") continue;
    const approval = approvals.find((candidate) => candidate.id === requirement.approvalId);
    if (approval === undefined) return refused("approval_pending", `The approval of "${toolName}" is gone, so nobody can decide on it; the run can only be cancelled.`);
    if (approval.status === "pending") return refused("approval_pending", `"${toolName}" waits for the approval '${approval.id}'.`, { approval_id: approval.id });
  }
  return undefined;
}

function withAnswer(effect: Effect, matched: Matched | undefined, by: string | undefined, now: number): Effect {
  if (matched?.resolution === undefined || effect.requirement === undefined) return effect;
  return { ...effect, requirement: { ...effect.requirement, resolution: matched.resolution, resolvedAt: now, ...(by === undefined ? {} : { resolvedBy: by }) } };
}

/** A call whose decision only wants to be on record carries the record's name. */
const recordedBy = (effect: Effect, audit: Approval | undefined): Effect =>
  audit === undefined || effect.requirement === undefined ? effect : { ...effect, requirement: { ...effect.requirement, approvalId: audit.id } };

/** Names each call that still lacks an answer, and what its answer lacked. */
function stillOpen(open: readonly Effect[], matched: ReadonlyMap<Effect, Matched>): Refusal {
  return openCalls(
    open.map((effect) => {
      const problems = matched.get(effect)?.problems ?? [];
      return { effect, problems: problems.length > 0 ? problems : [`waits for ${(effect.requirement?.kind ?? "confirmation").replace("_", " ")}`] };
    }),
  );
}

function openCalls(calls: readonly { effect: Effect; problems: string[] }[]): Refusal {
  const named = calls.map(({ effect, problems }) => ({ tool_call_id: effect.callId, tool_name: effect.toolName, kind: effect.requirement?.kind ?? "confirmation", problems }));
  const sentence = named.map((call) => `"${call.tool_name}" (${call.tool_call_id}) ${call.problems.join(", ")}`).join("; ");
  return refused("requirements_open", `The run still waits: ${sentence}.`, { requirements: named });
}

/**
 * A call runs with the tool that carries its name now, if that tool takes what was decided on; else nothing runs. What does
 * not fit may be what was answered just now, in which case it can be answered better; else the code has changed.
 */
async function misfitOf(effects: readonly Effect[], messages: readonly OwnMessage[], tools: readonly ToolDefinition<any>[], answered: ReadonlySet<string>): Promise<Refusal | undefined> {
  const calls = messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls : []));
  for (const effect of effects) {
    const call = calls.find((candidate) => candidate.id === effect.callId);
    if (effect.requirement?.resolution === undefined || hasOutcome(effect) || call === undefined) continue;
    const decision = decisionOn(call, effect);
    if (decision.kind !== "run") continue;
    const tool = tools.find((candidate) => candidate.name === effect.toolName);
    if (tool === undefined) return refused("incompatible_tool", `The tool "${effect.toolName}" is gone; the run stays paused.`, { tool_call_id: effect.callId, tool_name: effect.toolName });
    // What was begun before runs again as it stands in the ledger.
    const parsed = await tool.input.safeParseAsync(structuredClone(effect.argumentsHash === undefined ? decision.arguments : effect.arguments));
    if (parsed.success) continue;
    const [issue] = parsed.error.issues;
    const field = issue?.path.join(".") || "arguments";
    const problem = `${field}: ${issue?.message ?? "invalid"}`;
    if (answered.has(effect.callId) && isAnswered(effect, issue?.path[0])) return openCalls([{ effect, problems: [`can not run with the answer: ${problem}`] }]);
    return refused("incompatible_tool", `The tool "${effect.toolName}" does not take the call's arguments: ${problem}.`, { tool_call_id: effect.callId, tool_name: effect.toolName, field });
  }
  return undefined;
}

/** Whether the person who answered wrote the argument, or could have. */
function isAnswered({ requirement }: Effect, argument: PropertyKey | undefined): boolean {
  const resolution = requirement?.resolution;
  if (resolution?.kind === "user_input") return argument === undefined || Object.hasOwn(resolution.values, argument);
  return resolution?.kind === "confirmation" && resolution.arguments !== undefined;
}

const hasOutcome = (effect: Effect): boolean => isSettled(effect.status) && effect.status !== "unknown";
