import { z } from "@hono/zod-openapi";

const json = z.record(z.string(), z.unknown());

const ModelName = z.object({ id: z.string(), provider: z.string() });

export const AgentSummary = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string().optional(),
    db_id: z.string(),
    model: ModelName.optional(),
    metadata: json.optional(),
  })
  .openapi("AgentSummary");
export type AgentSummary = z.infer<typeof AgentSummary>;

const AgentTool = z
  .object({
    name: z.string(),
    description: z.string(),
    parameters: json.openapi({ description: "JSON Schema of the arguments." }),
    effect: z.enum(["none", "idempotent", "once"]).openapi({ description: "What calling it again does to the world." }),
    has_side_effects: z.boolean(),
    stop_after_tool_call: z.boolean(),
    sequential: z.boolean(),
    timeout: z.number().openapi({ description: "Seconds." }),
    retries: z.number().int(),
    requires_confirmation: z.literal(true).optional().openapi({ description: "Its calls wait until a person says yes." }),
    requires_user_input: z.literal(true).optional().openapi({ description: "Its calls wait for values or answers." }),
    user_input_fields: z.array(z.string()).optional(),
    external_execution: z.literal(true).optional().openapi({ description: "Its calls are made by the client." }),
    external_execution_silent: z.literal(true).optional(),
    approval_type: z.enum(["required", "audit"]).optional(),
  })
  .openapi("AgentTool");

export const AgentResponse = z
  .object({
    id: z.string(),
    name: z.string(),
    db_id: z.string(),
    description: z.string().optional(),
    role: z.string().optional(),
    introduction: z.string().optional(),
    is_factory: z.boolean(),
    is_component: z.boolean(),
    version: z.string(),
    model: z.object({ name: z.string(), model: z.string(), provider: z.string() }).optional(),
    tools: z.object({
      tools: z.array(AgentTool),
      tool_call_limit: z.number().int().optional(),
      tool_choice: z.union([z.string(), z.object({ name: z.string() })]),
    }),
    sessions: z.object({
      add_history_to_context: z.boolean(),
      num_history_runs: z.number().int().optional(),
      num_history_messages: z.number().int().optional(),
      max_tool_calls_from_history: z.number().int().optional(),
      history_skip_statuses: z.array(z.string()).optional(),
      add_session_state_to_context: z.boolean(),
      overwrite_db_session_state: z.boolean(),
    }),
    system_message: z.object({
      system_message: z.string().optional(),
      instructions: z.union([z.string(), z.array(z.string())]).optional(),
      expected_output: z.string().optional(),
      additional_context: z.string().optional(),
      markdown: z.boolean(),
      add_datetime_to_context: z.boolean(),
      timezone_identifier: z.string(),
      add_dependencies_to_context: z.boolean(),
      resolve_in_context: z.boolean(),
    }),
    response_settings: z.object({
      retries: z.number().int(),
      delay_between_retries: z.number().openapi({ description: "Seconds." }),
      exponential_backoff: z.boolean(),
      max_steps: z.number().int(),
      stall_timeout: z.number().openapi({ description: "Seconds." }),
      max_output_tokens: z.number().optional(),
      temperature: z.number().optional(),
      top_p: z.number().optional(),
      stop: z.array(z.string()).optional(),
      reasoning_effort: z.string().optional(),
    }),
    storage: z.object({
      store_events: z.boolean(),
      checkpoint: z.string(),
      store_tool_messages: z.boolean(),
      store_history_messages: z.boolean(),
    }),
    metadata: json.optional(),
  })
  .openapi("AgentResponse");
export type AgentResponse = z.infer<typeof AgentResponse>;
