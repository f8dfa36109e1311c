import { type Effect, isSettled, type ToolCall } from "../domain/tool-call.ts";
import type { RunError } from "../domain/run.ts";
import { executeTool, type ToolOutcome } from "./execute-tool.ts";
import type { Turn, TurnPorts } from "./ports.ts";
import type { TurnContext } from "./prepare-request.ts";

/** What a batch of calls leaves the turn with. */
export type BatchOutcome =
  | { kind: "continue" }
  | { kind: "failed"; error: RunError }
  | { kind: "cancelled" };

/**
 * Runs the open calls of the newest reply. They run side by side, except that a `sequential` tool waits for the calls before
 * it and holds back those after it. Each result is stored by itself, so that a crash in the middle loses none.
 */
export async function executeTools(turn: Turn, context: TurnContext, ports: TurnPorts): Promise<BatchOutcome> {
  const open = openCalls(turn);
  const outcomes: ToolOutcome[] = [];
  let batch: Promise<ToolOutcome>[] = [];
  const settleBatch = async () => {
    outcomes.push(...(await Promise.all(batch)));
    batch = [];
  };

  for (const { call, effect } of open) {
    if (ports.signal.aborted) break;
    const tool = turn.agent.tools.find((candidate) => candidate.name === call.name);
    const alone = tool?.sequential ?? false;
    if (alone) await settleBatch();
    if (ports.signal.aborted) break;
    batch.push(executeTool({ turn, context, ports, tool, call, effect }));
    if (alone) await settleBatch();
  }
  await settleBatch();

  if (ports.signal.aborted) return { kind: "cancelled" };
  const unknown = outcomes.find((outcome) => outcome.kind === "unknown");
  return unknown === undefined ? { kind: "continue" } : { kind: "failed", error: unknownOutcome(unknown.effect) };
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

const unknownOutcome = (effect: Effect): RunError => ({
  type: "tool_outcome_unknown",
  message:
    `The call of "${effect.toolName}" was under way when it was interrupted, and nobody knows whether it happened. ` +
    `It is not repeated, because the tool does not say that repeating is harmless (effect: "none" or "idempotent") and has no probe that could tell.`,
  retryable: false,
});
