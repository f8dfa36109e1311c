import { z } from "@hono/zod-openapi";
import { REQUIREMENT_KINDS } from "../../domain/requirement.ts";

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

const UserInputField = z.object({ name: z.string(), field_type: z.string(), description: z.string().nullable(), value: z.unknown() }).openapi("UserInputField");

const UserFeedbackQuestion = z
  .object({
    question: z.string(),
    header: z.string().nullable(),
    multi_select: z.boolean(),
    selected_options: z.array(z.string()).nullable(),
    options: z.array(z.object({ label: z.string(), description: z.string().nullable(), selected: z.boolean() })),
  })
  .openapi("UserFeedbackQuestion");

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
    user_input_schema: z.array(UserInputField).nullable(),
    user_feedback_schema: z.array(UserFeedbackQuestion).nullable(),
    answered: z.boolean().nullable(),
    external_execution_required: z.boolean().nullable(),
    external_execution_silent: z.boolean().nullable(),
    approval_type: z.string().nullable(),
    approval_id: z.string().nullable(),
    shown_hash: z.string().optional().openapi({ description: "Hash of what is shown: send it along with a decision, and a decision on anything else is refused." }),
    edited_args: json.optional().openapi({ description: "What a person approved in place of `tool_args`." }),
    requirement_kind: z.literal("unknown_outcome").optional().openapi({ description: "Nobody saw what became of the call: answer with `outcome`." }),
    outcome: z.enum(["happened", "run", "skip"]).nullable().optional(),
  })
  .openapi("ToolExecution");
export type ToolExecution = z.infer<typeof ToolExecution>;

export const RunRequirement = z
  .object({
    id: z.string(),
    created_at: z.iso.datetime(),
    kind: z.enum(REQUIREMENT_KINDS),
    tool_execution: ToolExecution,
    confirmation: z.boolean().optional(),
    confirmation_note: z.string().optional(),
    user_input_schema: z.array(UserInputField).optional(),
    user_feedback_schema: z.array(UserFeedbackQuestion).optional(),
    external_execution_result: z.string().optional(),
  })
  .openapi("RunRequirement");
export type RunRequirement = z.infer<typeof RunRequirement>;

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
  forked_from_session_id: z.string(),
  regenerated_from: z.string(),
  last_checkpoint_at_message_index: z.number().int(),
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
    requirements: z.array(RunRequirement).optional().openapi({ description: "What the run waits for, and what it has waited for." }),
    session_state: json.optional(),
    metadata: json.optional(),
    events: z.array(json).optional().openapi({ description: "What happened, without the pieces of the text. The whole log is at …/events." }),
    status: RunStatusWord,
    error_type: z.string().optional(),
    created_at: z.number().int(),
    forked_from_run_id: lineage.forked_from_run_id.optional(),
    forked_from_message_index: lineage.forked_from_message_index.optional(),
    forked_from_session_id: lineage.forked_from_session_id.optional(),
    regenerated_from: lineage.regenerated_from.optional(),
    last_checkpoint_at_message_index: lineage.last_checkpoint_at_message_index.optional(),
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
    forked_from_session_id: lineage.forked_from_session_id.nullable(),
    regenerated_from: lineage.regenerated_from.nullable(),
    last_checkpoint_at_message_index: lineage.last_checkpoint_at_message_index.nullable(),
  })
  .openapi("RunSchema");
export type RunSchema = z.infer<typeof RunSchema>;

export const StartedRunBody = z.object({ run_id: z.string(), session_id: z.string(), status: RunStatusWord }).openapi("StartedRun");

export const PolledEventsBody = z
  .object({ run_id: z.string(), status: RunStatusWord, events: z.array(json), ended: z.boolean().openapi({ description: "Nothing will come after these." }) })
  .openapi("PolledEvents");

export const CheckpointSummary = z
  .object({
    checkpoint_id: z.string().openapi({ description: "The message index, as text." }),
    run_id: z.string(),
    session_id: z.string(),
    message_index: z.number().int().openapi({ description: "How many of the run's own messages it keeps." }),
    continue_from: z.number().int().openapi({ description: "What to send as `continue_from` to go on from here." }),
    status: RunStatusWord,
    reason: z.enum(["checkpoint", "end", "snapshot"]),
    created_at: z.number().int().optional(),
    message_id: z.string().optional(),
    message_role: z.string().optional(),
    message_preview: z.string().optional(),
    is_latest: z.boolean(),
  })
  .openapi("CheckpointSummary");
export type CheckpointSummary = z.infer<typeof CheckpointSummary>;

export const CheckpointList = z.object({ run_id: z.string(), session_id: z.string(), checkpoints: z.array(CheckpointSummary) }).openapi("CheckpointList");

export const CheckpointSnapshot = z
  .object({
    checkpoint: CheckpointSummary,
    snapshot: RunOutput.openapi({ description: "The run as far as it is kept: `last_checkpoint_at_message_index` is where it is really cut, since a reply is not parted from its calls' results." }),
  })
  .openapi("CheckpointSnapshot");

export const ForkedSession = z.object({ session_id: z.string(), forked_from_session_id: z.string() }).openapi("ForkedSession");
