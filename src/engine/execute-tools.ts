import type { RunError } from "../domain/run.ts";
import { type Effect, isSettled, isWaiting, type ToolCall } from "../domain/tool-call.ts";
import { executeTool, refusalOf, type ToolTask } from "./execute-tool.ts";
import type { Turn, TurnPorts } from "./ports.ts";
import type { TurnContext } from "./prepare-request.ts";
import { requirementFor } from "./requirements.ts";

/**
 * Runs the open calls of the newest reply. They run side by side, except that a `sequential` tool waits for the calls before
 * it and holds back those after it. A call that must wait for a person holds back none of its siblings. Each result is
 * stored by itself, so that a crash in the middle loses none.
 */
export async function executeTools(turn: Turn, context: TurnContext, ports: TurnPorts): Promise<void> {
  let running: Promise<void>[] = [];
  const settled = async () => {
    await Promise.all(running);
    running = [];
  };

  for (const { call, effect } of openCalls(turn)) {
    const tool = turn.agent.tools.find((candidate) => candidate.name === call.name);
    const task: ToolTask = { turn, context, ports, tool, call, effect };
    if (await mustWait(task)) continue;
    const alone = tool?.sequential ?? false;
    if (alone) await settled();
    if (ports.signal.aborted) break;
    running.push(executeTool(task));
    if (alone) await settled();
  }
  await settled();
}

/** Whether a person has to be asked first. What is asked is noted on the call's row, which is stored with the pause. */
async function mustWait(task: ToolTask): Promise<boolean> {
  const { tool, call, effect, ports } = task;
  if (effect.requirement !== undefined || effect.status !== "planned") return isWaiting(effect);
  // A call that can not run anyway is refused, and nobody is asked about it.
  if (tool?.pause === undefined || (await refusalOf(task)) !== undefined) return false;
  const requirement = await requirementFor(tool, call, ports.clock.now());
  if (requirement !== undefined) effect.requirement = requirement;
  return requirement !== undefined;
}

/** The calls of the newest reply that can not go on without a person. */
export const waitingCalls = (turn: Turn): Effect[] => {
  const step = turn.messages.filter((message) => message.role === "assistant").length - 1;
  return turn.effects.filter((effect) => effect.step === step && isWaiting(effect));
};

/** The calls of the newest reply that have no outcome yet, with their ledger rows. */
export function openCalls(turn: Turn): { call: ToolCall; effect: Effect }[] {
  const replies = turn.messages.filter((message) => message.role === "assistant");
  const step = replies.length - 1;
  const reply = replies[step];
  if (reply === undefined) return [];
  return reply.toolCalls.flatMap((call, position) => {
    const effect = turn.effects.find((candidate) => candidate.step === step && candidate.position === position);
    return effect === undefined || !isOpen(effect) ? [] : [{ call, effect }];
  });
}

/** An unknown outcome is an end only until someone has said what to do about it. */
const isOpen = (effect: Effect): boolean => !isSettled(effect.status) || (effect.status === "unknown" && effect.requirement?.kind === "unknown_outcome");

/** Why the turn ends with its newest reply's calls: nobody knows what became of one of them, and nobody is to be asked. */
export function unknownOutcome(turn: Turn): RunError | undefined {
  if (turn.agent.onUnknown !== "fail") return undefined;
  const step = turn.messages.filter((message) => message.role === "assistant").length - 1;
  const effect = turn.effects.find((candidate) => candidate.step === step && candidate.status === "unknown" && candidate.requirement === undefined);
  if (effect === undefined) return undefined;
  return {
    type: "tool_outcome_unknown",
    message:
      `The call of "${effect.toolName}" was under way when it was interrupted, and nobody knows whether it happened. ` +
      `It is not repeated, because the tool does not say that repeating is harmless (effect: "none" or "idempotent") and has no probe that could tell.`,
    retryable: false,
  };
}
