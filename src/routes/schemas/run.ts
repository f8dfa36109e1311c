import { z } from "@hono/zod-openapi";

const json = z.record(z.string(), z.unknown());
const tokens = z.object({
  input_tokens: z.number().optional(),
  output_tokens: z.number().optional(),
  total_tokens: z.number().optional(),
  cache_read_tokens: z.number().optional(),
  cache_write_tokens: z.number().optional(),
  reasoning_tokens: z.number().optional(),
});

export const RunStatusWord = z.enum(["PENDING", "RUNNING", "PAUSED", "COMPLETED", "ERROR", "CANCELLED", "REGENERATED"]).openapi("RunStatus");

export const ToolExecution = z
  .object({
    tool_call_id: z.string(),
    tool_name: z.string(),
    tool_args: json,
    tool_call_error: z.boolean().nullable().openapi({ description: "Null while the call is not over." }),
    result: z.string().nullable(),
    metrics: z.object({ start_time: z.number(), end_time: z.number(), duration: z.number() }).nullable(),
    child_run_id: z.string().nullable(),
    stop_after_tool_call: z.boolean(),
    created_at: z.number().int(),
    requires_confirmation: z.boolean().nullable(),
    confirmed: z.boolean().nullable(),
    confirmation_note: z.string().nullable(),
    requires_user_input: z.boolean().nullable(),
    user_input_schema: z.array(json).nullable(),
    user_feedback_schema: z.array(json).nullable(),
    answered: z.boolean().nullable(),
    external_execution_required: z.boolean().nullable(),
    external_execution_silent: z.boolean().nullable(),
    approval_type: z.string().nullable(),
    approval_id: z.string().nullable(),
  })
  .openapi("ToolExecution");
export type ToolExecution = z.infer<typeof ToolExecution>;

export const WireMessage = z
  .object({
    id: z.string(),
    role: z.enum(["system", "user", "assistant", "tool"]),
    content: z.string(),
    from_history: z.boolean(),
    stop_after_tool_call: z.boolean(),
    tool_call_id: z.string().optional(),
    tool_name: z.string().optional(),
    tool_args: json.optional(),
    tool_call_error: z.boolean().optional(),
    tool_calls: z
      .array(z.object({ id: z.string(), type: z.literal("function"), function: z.object({ name: z.string(), arguments: z.string() }) }))
      .optional(),
    reasoning_content: z.string().optional(),
    metrics: tokens.optional(),
    created_at: z.number().int(),
  })
  .openapi("Message");
export type WireMessage = z.infer<typeof WireMessage>;

const Metrics = tokens
  .extend({
    time_to_first_token: z.number().optional().openapi({ description: "Seconds." }),
    duration: z.number().optional().openapi({ description: "Seconds." }),
    details: z.object({ model: z.array(tokens.extend({ id: z.string(), provider: z.string() })) }).optional(),
  })
  .openapi("RunMetrics");

const lineage = {
  forked_from_run_id: z.string(),
  forked_from_message_index: z.number().int(),
  regenerated_from: z.string(),
};

export const RunOutput = z
  .object({
    run_id: z.string(),
    agent_id: z.string(),
    agent_name: z.string(),
    session_id: z.string(),
    parent_run_id: z.string().optional(),
    user_id: z.string().optional(),
    input: z.object({ input_content: z.string() }),
    content: z.string().optional(),
    content_type: z.string(),
    reasoning_content: z.string().optional(),
    model: z.string().optional(),
    model_provider: z.string().optional(),
    messages: z.array(WireMessage),
    metrics: Metrics,
    tools: z.array(ToolExecution).optional(),
    session_state: json.optional(),
    metadata: json.optional(),
    events: z.array(json).optional().openapi({ description: "What happened, without the pieces of the text. The whole log is at …/events." }),
    status: RunStatusWord,
    error_type: z.string().optional(),
    created_at: z.number().int(),
    forked_from_run_id: lineage.forked_from_run_id.optional(),
    forked_from_message_index: lineage.forked_from_message_index.optional(),
    regenerated_from: lineage.regenerated_from.optional(),
  })
  .openapi("RunOutput");
export type RunOutput = z.infer<typeof RunOutput>;

export const RunSchema = z
  .object({
    run_id: z.string(),
    parent_run_id: z.string(),
    agent_id: z.string(),
    user_id: z.string(),
    status: RunStatusWord,
    run_input: z.string(),
    content: z.string(),
    run_response_format: z.enum(["text", "json"]),
    reasoning_content: z.string(),
    reasoning_steps: z.array(json),
    metrics: Metrics,
    messages: z.array(WireMessage).nullable(),
    tools: z.array(ToolExecution).nullable(),
    events: z.array(json).nullable(),
    created_at: z.iso.datetime(),
    references: z.array(json),
    citations: json.nullable(),
    reasoning_messages: z.array(json),
    session_state: json.nullable(),
    images: z.array(json),
    videos: z.array(json),
    audio: z.array(json),
    files: z.array(json),
    response_audio: json.nullable(),
    input_media: z.object({ images: z.array(json), videos: z.array(json), audios: z.array(json), files: z.array(json) }),
    followups: z.array(z.string()).nullable(),
    forked_from_run_id: lineage.forked_from_run_id.nullable(),
    forked_from_message_index: lineage.forked_from_message_index.nullable(),
    forked_from_session_id: z.string().nullable(),
    regenerated_from: lineage.regenerated_from.nullable(),
    last_checkpoint_at_message_index: z.number().int().nullable(),
  })
  .openapi("RunSchema");
export type RunSchema = z.infer<typeof RunSchema>;

export const StartedRunBody = z.object({ run_id: z.string(), session_id: z.string(), status: RunStatusWord }).openapi("StartedRun");

export const PolledEventsBody = z
  .object({ run_id: z.string(), status: RunStatusWord, events: z.array(json), ended: z.boolean().openapi({ description: "Nothing will come after these." }) })
  .openapi("PolledEvents");
