import type { ToolContext, ToolDefinition } from "../define/tool.ts";
import type { ToolCallView } from "../domain/run-event.ts";
import { type Effect, effectKey, type ToolCall } from "../domain/tool-call.ts";
import { stableStringify } from "../lib/json.ts";
import { wellFormed } from "../lib/text.ts";
import type { Turn, TurnPorts } from "./ports.ts";
import type { TurnContext } from "./prepare-request.ts";

export type ToolOutcome =
  | { kind: "settled" }
  /** The call may have happened and nobody can say. */
  | { kind: "unknown"; effect: Effect }
  | { kind: "cancelled" };

export interface ToolTask {
  turn: Turn;
  context: TurnContext;
  ports: TurnPorts;
  /** Missing when the model named a tool that the agent does not have. */
  tool: ToolDefinition<any> | undefined;
  call: ToolCall;
  /** The call's row in the ledger; it is kept up to date here. */
  effect: Effect;
}

/** One call through the ledger. Whatever goes wrong in the tool is a result that the model is told, never a throw. */
export async function executeTool(task: ToolTask): Promise<ToolOutcome> {
  const { tool, call, effect, ports } = task;
  if (tool === undefined) return settle(task, "failed", unknownTool(task));
  const refusal = call.invalid?.reason ?? limitReached(task) ?? (await invalidArguments(tool, call.arguments));
  if (refusal !== undefined) return settle(task, "failed", refusal);

  const context = toolContext(task, tool);
  const attempt = new CallAttempt(task, tool, context);
  try {
    // Whoever interrupted a call that was under way knows less than its probe does.
    if (effect.status === "started") {
      const found = await attempt.clearUp();
      if (found.kind === "known") return await settle(task, "done", found.result);
      if (found.kind === "unknown") return await leaveUnknown(task);
    }
    const args = effect.status === "started" ? effect.arguments : call.arguments;
    const result = await untilAborted(throughHooks(task, tool, context, (changed) => attempt.run(changed))(args), ports.signal);
    if (result === ABORTED) return leaveBehind(task, attempt);
    // A hook that did not call on has answered in the tool's place.
    return await settle(task, attempt.started ? "done" : "skipped", textOf(result));
  } catch (error) {
    if (ports.signal.aborted) return leaveBehind(task, attempt);
    if (error instanceof OutcomeUnknown) return await leaveUnknown(task);
    if (attempt.ledgerFault !== undefined) throw attempt.ledgerFault;
    return await settle(task, "failed", `The tool failed: ${messageOf(error)}`);
  }
}

/** The call itself, as often as its tool allows, under one key. */
class CallAttempt {
  started: boolean;
  /** The ledger refused a write: this attempt at the turn is over, whatever the tool says. */
  ledgerFault: unknown;
  /** The tool's own promise, which may outlive a cancelled turn. */
  outcome: Promise<unknown> | undefined;
  readonly #task: ToolTask;
  readonly #tool: ToolDefinition<any>;
  readonly #context: ToolContext;

  constructor(task: ToolTask, tool: ToolDefinition<any>, context: ToolContext) {
    this.#task = task;
    this.#tool = tool;
    this.#context = context;
    this.started = task.effect.status === "started";
  }

  async run(args: Record<string, unknown>): Promise<unknown> {
    const { effect, ports, turn } = this.#task;
    const input = await this.#tool.input.parseAsync(args);
    if (effect.status === "planned") {
      Object.assign(effect, { status: "started", arguments: args, argumentsHash: await hashOf(args), startedAt: ports.clock.now() });
      try {
        await ports.startCall(effect, { type: "tool-call.started", call: viewOf(effect) });
      } catch (fault) {
        this.ledgerFault = fault;
        throw fault;
      }
      this.started = true;
    }
    if (ports.signal.aborted) throw new Error(`The run "${turn.runId}" was cancelled.`);

    for (let retry = 0; ; retry += 1) {
      this.outcome = Promise.resolve().then(() => this.#tool.execute(input, this.#context));
      const result = await withTimeout(this.outcome, this.#tool.timeoutMs, this.#task);
      if (result !== TIMED_OUT) return result;
      // The time is up, but the call may still happen: that is no failure, it is not knowing.
      const found = await this.clearUp();
      if (found.kind === "known") return found.result;
      if (found.kind === "unknown") throw new OutcomeUnknown();
      if (retry >= this.#tool.retries) throw new Error(`it took longer than ${this.#tool.timeoutMs} ms.`);
    }
  }

  /** What to do about a call that was under way when nobody was looking any more. */
  async clearUp(): Promise<{ kind: "again" } | { kind: "known"; result: string } | { kind: "unknown" }> {
    if (this.#tool.effect !== "once") return { kind: "again" };
    if (this.#tool.probe === undefined) return { kind: "unknown" };
    try {
      const found = await this.#tool.probe(effectKey(this.#task.effect), this.#context);
      if (found.happened === "unknown") return { kind: "unknown" };
      return found.happened ? { kind: "known", result: textOf(found.result) } : { kind: "again" };
    } catch {
      // A probe that fails has found out nothing, which is what "unknown" says.
      return { kind: "unknown" };
    }
  }
}

async function settle(task: ToolTask, status: "done" | "failed" | "skipped", result: string): Promise<ToolOutcome> {
  const { effect, ports, tool } = task;
  const wasStarted = effect.status === "started";
  const stop = status === "done" && (tool?.stopAfterCall ?? false);
  Object.assign(effect, { status, result, settledAt: ports.clock.now(), ...(stop ? { stopAfter: true } : {}) });
  const call = viewOf(effect);
  const durationMs = wasStarted && effect.startedAt !== undefined ? ports.clock.now() - effect.startedAt : 0;
  await ports.settleCall(
    effect,
    status === "failed" ? { type: "tool-call.failed", call, error: result } : { type: "tool-call.completed", call, durationMs },
  );
  return { kind: "settled" };
}

async function leaveUnknown(task: ToolTask): Promise<ToolOutcome> {
  const { effect, ports } = task;
  const result = "The outcome of this call is unknown: it was interrupted, and it may have happened.";
  Object.assign(effect, { status: "unknown", result, settledAt: ports.clock.now() });
  await ports.settleCall(effect, { type: "tool-call.failed", call: viewOf(effect), error: result });
  return { kind: "unknown", effect };
}

/** The turn was cancelled. A tool that is deaf to its signal goes on; its ledger row may still learn what became of it. */
function leaveBehind(task: ToolTask, attempt: CallAttempt): ToolOutcome {
  const { effect, ports } = task;
  attempt.outcome?.then(
    (result) => ports.reportLateOutcome(effect, { status: "done", result: textOf(result) }),
    (error) => ports.reportLateOutcome(effect, { status: "failed", result: messageOf(error) }),
  );
  return { kind: "cancelled" };
}

function unknownTool(task: ToolTask): string {
  const names = task.turn.agent.tools.map((tool) => tool.name);
  const known = names.length === 0 ? "There are no tools." : `The tools are: ${names.join(", ")}.`;
  return `There is no tool named "${task.call.name}". ${known}`;
}

/** Calls count in the order they were asked for, so that a recovered turn draws the line in the same place. */
function limitReached(task: ToolTask): string | undefined {
  const limit = task.turn.input.toolCallLimit ?? task.turn.agent.toolCallLimit;
  if (limit === undefined) return undefined;
  const { step, position } = task.effect;
  const before = task.turn.effects.filter((other) => other.step < step || (other.step === step && other.position < position)).length;
  return before < limit ? undefined : `The limit of ${limit} tool calls in a run is reached; this call was not executed.`;
}

async function invalidArguments(tool: ToolDefinition<any>, args: Record<string, unknown>): Promise<string | undefined> {
  const parsed = await tool.input.safeParseAsync(args);
  if (parsed.success) return undefined;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join(".") || "arguments"}: ${issue.message}`);
  return `The arguments do not fit the tool "${tool.name}", so it was not executed. ${problems.join("; ")}`;
}

function toolContext({ turn, context, ports, effect }: ToolTask, tool: ToolDefinition<any>): ToolContext {
  return {
    env: ports.env,
    signal: AbortSignal.any([ports.signal, AbortSignal.timeout(tool.timeoutMs)]),
    idempotencyKey: effectKey(effect),
    runId: turn.runId,
    session: { id: turn.sessionId, state: turn.sessionState },
    ...(turn.userId === undefined ? {} : { user: { id: turn.userId } }),
    dependencies: context.dependencies,
    metadata: context.metadata,
    emit: (name, data = {}) => void ports.emit({ type: "custom", callId: effect.callId, name, data }).catch(() => {}),
    progress: (data) => void ports.emit({ type: "tool-call.progress", callId: effect.callId, data }).catch(() => {}),
  };
}

function throughHooks(
  { turn }: ToolTask,
  tool: ToolDefinition<any>,
  context: ToolContext,
  run: (args: Record<string, unknown>) => Promise<unknown>,
): (args: Record<string, unknown>) => Promise<unknown> {
  return (turn.agent.toolHooks ?? []).reduceRight<(args: Record<string, unknown>) => Promise<unknown>>(
    (next, hook) => async (args) => hook({ tool, arguments: args, context }, next),
    run,
  );
}

class OutcomeUnknown extends Error {}

const TIMED_OUT = Symbol("timed out");
const ABORTED = Symbol("aborted");

async function withTimeout(work: Promise<unknown>, ms: number, { ports }: ToolTask): Promise<unknown> {
  const done = new AbortController();
  try {
    return await Promise.race([work, ports.clock.sleep(ms, done.signal).then(() => TIMED_OUT)]);
  } finally {
    done.abort();
    // It may still fail after nobody listens; that is no fault of ours to report.
    work.catch(() => {});
  }
}

function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<unknown> {
  work.catch(() => {});
  if (signal.aborted) return Promise.resolve(ABORTED);
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(ABORTED);
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

export const viewOf = (effect: Effect): ToolCallView => ({
  callId: effect.callId,
  toolName: effect.toolName,
  arguments: effect.arguments,
  status: effect.status,
  plannedAt: effect.plannedAt,
  ...(effect.result === undefined ? {} : { result: effect.result }),
  ...(effect.startedAt === undefined ? {} : { startedAt: effect.startedAt }),
  ...(effect.settledAt === undefined ? {} : { settledAt: effect.settledAt }),
  ...(effect.stopAfter === undefined ? {} : { stopAfter: effect.stopAfter }),
});

/** What a tool returned, as the model is told it. */
function textOf(result: unknown): string {
  if (typeof result === "string") return wellFormed(result);
  if (result === undefined) return "Done.";
  try {
    return wellFormed(JSON.stringify(result) ?? String(result));
  } catch (error) {
    return `The tool returned something that is not JSON: ${messageOf(error)}`;
  }
}

const messageOf = (error: unknown): string => wellFormed(error instanceof Error ? error.message : String(error));

async function hashOf(args: Record<string, unknown>): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(stableStringify(args)));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
