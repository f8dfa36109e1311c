import type { z } from "zod";
import type { ToolContext, ToolDefinition } from "../define/tool.ts";
import type { Requirement } from "../domain/requirement.ts";
import { type Effect, effectKey, type ToolCall } from "../domain/tool-call.ts";
import { isJsonObject, jsonCopy } from "../lib/json.ts";
import { viewOf } from "./call-view.ts";
import { CallRefused, MadeCall } from "./made-call.ts";
import type { Turn, TurnPorts } from "./ports.ts";
import type { TurnContext } from "./prepare-request.ts";
import { decisionOn, unknownRequirement } from "./requirements.ts";
import { errorText, eventData, misfitText, resultText } from "./tool-words.ts";

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

/**
 * One call through the ledger, to where its row is settled or the turn was cancelled. Whatever goes wrong in the tool is a
 * result that the model is told, never a throw.
 */
export async function executeTool(task: ToolTask): Promise<void> {
  const { tool, effect, ports } = task;
  const decision = decisionOn(task.call, effect);
  if (decision.kind === "answered") return settle(task, "done", resultText(decision.result));
  if (decision.kind !== "run") return settle(task, decision.kind, resultText(decision.result));
  if (decision.isEdited) effect.edited = decision.arguments;
  // Someone has said that it did not happen, or does no harm twice: it begins anew, under the same key.
  if (effect.status === "unknown") Object.assign(effect, { status: "planned", result: undefined, settledAt: undefined });
  const made = tool && new MadeCall(tool, effect, toolContext(task), ports);
  try {
    if (made === undefined) {
      // What was under way may have happened, also where the tool is gone since: "not executed" could be a lie.
      if (effect.status === "started") await leaveUnknown(task);
      else await settle(task, "failed", unknownTool(task));
      return;
    }
    const answer = await untilAborted(() => answerTo(task, made, decision.arguments), ports.signal);
    if (answer === ABORTED) return hearOfLate(task, made);
    if (made.ledgerFault !== undefined) throw made.ledgerFault;
    if (made.isUnknown) {
      // Hooks may have caught it and answered something else; nobody knows any better for that.
      await leaveUnknown(task);
      hearOfLate(task, made);
    } else {
      await settle(task, answer.status, answer.result);
    }
  } catch (fault) {
    // Only the ledger throws here, and after a cancel it refuses everything.
    if (!ports.signal.aborted) throw fault;
    hearOfLate(task, made);
  }
}

interface Answer {
  status: "done" | "failed" | "skipped" | "rejected";
  result: string;
}

/** What the model is told of the call, and whether it was made. Never throws. */
async function answerTo(task: ToolTask, made: MadeCall, args: Record<string, unknown>): Promise<Answer> {
  try {
    if (task.effect.status === "started") {
      const found = await made.findOut();
      if (found !== undefined) return { status: "done", result: found.result };
    } else {
      const refusal = task.call.invalid?.reason ?? limitReached(task) ?? (await misfit(task, made.tool, args));
      if (refusal !== undefined) return { status: "failed", result: refusal };
    }
    const result = await throughHooks(task, made)(jsonCopy(args) as Record<string, unknown>);
    // A hook that did not call on has answered in the tool's place.
    return { status: made.isStarted ? "done" : "skipped", result: resultText(result) };
  } catch (error) {
    return { status: "failed", result: error instanceof CallRefused ? error.message : `The tool failed: ${errorText(error)}` };
  }
}

async function settle(task: ToolTask, status: Answer["status"], result: string): Promise<void> {
  const { effect, ports, tool } = task;
  const wasStarted = effect.status === "started";
  const stop = status === "done" && (tool?.stopAfterCall ?? false);
  Object.assign(effect, { status, result, settledAt: ports.clock.now(), ...(stop ? { stopAfter: true } : {}) });
  const call = viewOf(effect);
  const durationMs = wasStarted && effect.startedAt !== undefined ? ports.clock.now() - effect.startedAt : 0;
  await ports.settleCall(
    effect,
    status === "failed" || status === "rejected" ? { type: "tool-call.failed", call, error: result } : { type: "tool-call.completed", call, durationMs },
  );
}

/** Nobody knows what became of the call. Unless the agent has said beforehand what to do then, a person will. */
async function leaveUnknown(task: ToolTask): Promise<void> {
  const { effect, ports, turn } = task;
  const result = "The outcome of this call is unknown: it was interrupted, and it may have happened.";
  Object.assign(effect, { status: "unknown", result, settledAt: ports.clock.now(), requirement: await askAfter(effect, turn, ports) });
  await ports.settleCall(effect, { type: "tool-call.failed", call: viewOf(effect), error: result });
}

/** What a person is asked about it; nothing where the run ends with it. */
async function askAfter(effect: Effect, { agent }: Turn, ports: TurnPorts): Promise<Requirement | undefined> {
  if (agent.onUnknown === "fail") return undefined;
  const requirement = await unknownRequirement(effect, ports.clock.now());
  // Said beforehand it counts once: a call that gets lost again and again is not run again for ever.
  const isAsked = agent.onUnknown === undefined || agent.onUnknown === "ask" || effect.requirement?.kind === "unknown_outcome";
  return isAsked ? requirement : { ...requirement, resolution: { kind: "unknown_outcome", decision: agent.onUnknown as "run" | "skip" } };
}

/** A tool that is deaf to its signal goes on after the turn has; its ledger row may still learn what became of it. */
function hearOfLate({ effect, ports }: ToolTask, made: MadeCall | undefined): void {
  made?.outcome
    ?.then(
      (result) => ports.reportLateOutcome(effect, { status: "done", result: resultText(result) }),
      (error: unknown) => ports.reportLateOutcome(effect, { status: "failed", result: errorText(error) }),
    )
    // Nobody waits for it any more, so nobody is there to be told that it could not be kept.
    .catch(() => {});
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
  const own = task.turn.effects.filter((other) => other.step >= (task.turn.firstStep ?? 0));
  const before = own.filter((other) => other.step < step || (other.step === step && other.position < position)).length;
  return before < limit ? undefined : `The limit of ${limit} tool calls in a run is reached; this call was not executed.`;
}

/** Hooks are only shown arguments that fit. Without hooks the call itself finds out, and the schema is asked once. */
async function misfit({ turn }: ToolTask, tool: ToolDefinition<any>, args: Record<string, unknown>): Promise<string | undefined> {
  return (turn.agent.toolHooks ?? []).length === 0 ? undefined : misfitOf(tool, args);
}

async function misfitOf(tool: ToolDefinition<any>, args: Record<string, unknown>, leftToPeople: readonly string[] = []): Promise<string | undefined> {
  const parsed = await tool.input.safeParseAsync(jsonCopy(args));
  if (parsed.success) return undefined;
  const isLeft = ({ path, code }: z.core.$ZodIssue) => (path.length === 0 ? code === "custom" && leftToPeople.length > 0 : leftToPeople.includes(String(path[0])));
  const issues = parsed.error.issues.filter((issue) => !isLeft(issue));
  return issues.length === 0 ? undefined : misfitText(tool, issues);
}

/** Why a call could not run, whatever a person says. Arguments that a person is still to fill in are no reason. */
export async function refusalOf(task: ToolTask): Promise<string | undefined> {
  const { tool, call } = task;
  const refusal = call.invalid?.reason ?? limitReached(task);
  if (refusal !== undefined || tool === undefined) return refusal;
  return misfitOf(tool, call.arguments, tool.pause?.kind === "user_input" ? tool.pause.fields.map(({ name }) => name) : []);
}

function toolContext({ turn, context, ports, effect }: ToolTask): ToolContext {
  return {
    env: ports.env,
    signal: ports.signal,
    idempotencyKey: effectKey(effect),
    runId: turn.runId,
    session: {
      id: turn.sessionId,
      get state() {
        return turn.sessionState;
      },
      // A tool that assigns a new state means the session's, not its own copy of the context.
      set state(next) {
        if (!isJsonObject(next)) throw new TypeError("The session's state must be an object.");
        turn.sessionState = next;
      },
    },
    ...(turn.userId === undefined ? {} : { user: { id: turn.userId } }),
    dependencies: context.dependencies,
    metadata: context.metadata,
    // Not awaited: a tool need not wait for our disk. The log refuses them once the turn is over.
    emit: (name, data = {}) => void ports.emit({ type: "custom", callId: effect.callId, name: String(name), data: eventData(data) as Record<string, unknown> }).catch(() => {}),
    progress: (data) => void ports.emit({ type: "tool-call.progress", callId: effect.callId, data: eventData(data) }).catch(() => {}),
  };
}

type Next = (args: Record<string, unknown>) => Promise<unknown>;

function throughHooks({ turn }: ToolTask, made: MadeCall): Next {
  const call: Next = (args) => made.run(args);
  return (turn.agent.toolHooks ?? []).reduceRight<Next>((next, hook) => async (args) => hook({ tool: made.tool, arguments: args, context: made.context }, next), call);
}

const ABORTED = Symbol("aborted");

function untilAborted<T>(begin: () => Promise<T>, signal: AbortSignal): Promise<T | typeof ABORTED> {
  if (signal.aborted) return Promise.resolve(ABORTED);
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(ABORTED);
    signal.addEventListener("abort", onAbort, { once: true });
    begin()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", onAbort));
  });
}
