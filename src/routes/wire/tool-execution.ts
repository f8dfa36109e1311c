import type { ToolCallView } from "../../domain/run-event.ts";
import { isSettled } from "../../domain/tool-call.ts";
import type { ToolExecution } from "../schemas/run.ts";
import { toSeconds } from "./words.ts";

/** A tool call with every key that clients know, whether it has a value or not. `at` stands in for a time nobody kept. */
export function toolToWire(call: ToolCallView, at: number): ToolExecution {
  const started = call.startedAt;
  const ended = call.settledAt;
  return {
    tool_call_id: call.callId,
    tool_name: call.toolName,
    tool_args: call.arguments,
    // Only a call that is done went well; what became of an unknown one nobody can say.
    tool_call_error: isSettled(call.status) ? call.status !== "done" : null,
    result: call.result ?? null,
    metrics: started === undefined || ended === undefined ? null : { start_time: started / 1000, end_time: ended / 1000, duration: (ended - started) / 1000 },
    child_run_id: null,
    stop_after_tool_call: call.stopAfter ?? false,
    created_at: toSeconds(call.plannedAt ?? started ?? at),
    requires_confirmation: null,
    confirmed: null,
    confirmation_note: null,
    requires_user_input: null,
    user_input_schema: null,
    user_feedback_schema: null,
    answered: null,
    external_execution_required: null,
    external_execution_silent: null,
    approval_type: null,
    approval_id: null,
  };
}
