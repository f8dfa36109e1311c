import type { ToolCallView } from "../domain/run-event.ts";
import type { Effect } from "../domain/tool-call.ts";

/** A call's ledger row as events show it. */
export const viewOf = (effect: Effect): ToolCallView => ({
  callId: effect.callId,
  toolName: effect.toolName,
  arguments: effect.arguments,
  status: effect.status,
  plannedAt: effect.plannedAt,
  ...(effect.result === undefined ? {} : { result: effect.result }),
  ...(effect.startedAt === undefined ? {} : { startedAt: effect.startedAt }),
  ...(effect.settledAt === undefined ? {} : { settledAt: effect.settledAt }),
  ...(effect.requirement === undefined ? {} : { requirement: effect.requirement }),
  ...(effect.stopAfter === undefined ? {} : { stopAfter: effect.stopAfter }),
});
