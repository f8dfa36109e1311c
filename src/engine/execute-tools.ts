import type { RunError } from "../domain/run.ts";
import { type Effect, isSettled, type ToolCall } from "../domain/tool-call.ts";
import { executeTool } from "./execute-tool.ts";
import type { Turn, TurnPorts } from "./ports.ts";
import type { TurnContext } from "./prepare-request.ts";

/**
 * Runs the open calls of the newest reply. They run side by side, except that a `sequential` tool waits for the calls before
 * it and holds back those after it. Each result is stored by itself, so that a crash in the middle loses none.
 */
export async function executeTools(turn: Turn, context: TurnContext, ports: TurnPorts): Promise<void> {
  let running: Promise<void>[] = [];
  const settled = async () => {
    await Promise.all(running);
    running = [];
  };

  for (const { call, effect } of openCalls(turn)) {
    const tool = turn.agent.tools.find((candidate) => candidate.name === call.name);
    const alone = tool?.sequential ?? false;
    if (alone) await settled();
    if (ports.signal.aborted) break;
    running.push(executeTool({ turn, context, ports, tool, call, effect }));
    if (alone) await settled();
  }
  await settled();
}

/** The calls of the newest reply that have no outcome yet, with their ledger rows. */
export function openCalls(turn: Turn): { call: ToolCall; effect: Effect }[] {
  const replies = turn.messages.filter((message) => message.role === "assistant");
  const step = replies.length - 1;
  const reply = replies[step];
  if (reply === undefined) return [];
  return reply.toolCalls.flatMap((call, position) => {
    const effect = turn.effects.find((candidate) => candidate.step === step && candidate.position === position);
    return effect === undefined || isSettled(effect.status) ? [] : [{ call, effect }];
  });
}

/** Why the turn can not go on after its newest reply's calls: nobody knows what became of one of them. */
export function unknownOutcome(turn: Turn): RunError | undefined {
  const step = turn.messages.filter((message) => message.role === "assistant").length - 1;
  const effect = turn.effects.find((candidate) => candidate.step === step && candidate.status === "unknown");
  if (effect === undefined) return undefined;
  return {
    type: "tool_outcome_unknown",
    message:
      `The call of "${effect.toolName}" was under way when it was interrupted, and nobody knows whether it happened. ` +
      `It is not repeated, because the tool does not say that repeating is harmless (effect: "none" or "idempotent") and has no probe that could tell.`,
    retryable: false,
  };
}
