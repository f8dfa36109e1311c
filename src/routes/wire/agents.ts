import { AGENT_DEFAULTS } from "../../define/agent-defaults.ts";
import type { AgentDefinition } from "../../define/agent.ts";
import type { ToolDefinition } from "../../define/tool.ts";
import type { AgentResponse, AgentSummary } from "../schemas/agent.ts";
import { DB_ID, statusToWire } from "./words.ts";

/** What a definition's model is called, as far as that is known without making one. */
export function modelOf(agent: AgentDefinition, env: object): { id: string; provider: string } | undefined {
  let choice = agent.model;
  if (typeof choice === "function") {
    try {
      choice = choice(env as Cloudflare.Env);
    } catch {
      // A setting that the choice needs is missing. The agent can still be described; a run of it says what is wrong.
      return undefined;
    }
  }
  if (typeof choice !== "string") return { id: choice.id, provider: choice.provider };
  const colon = choice.indexOf(":");
  return colon === -1 ? { id: choice, provider: choice } : { id: choice.slice(colon + 1), provider: choice.slice(0, colon) };
}

/** An agent in a list of what the deployment has. */
export function agentSummaryToWire(agent: AgentDefinition, env: object): AgentSummary {
  return { id: agent.id, name: agent.name, description: agent.description, db_id: DB_ID, model: modelOf(agent, env), metadata: agent.metadata };
}

/** An agent with everything it was told to be, one section a group, defaults filled in. */
export function agentToWire(agent: AgentDefinition, env: object): AgentResponse {
  const model = modelOf(agent, env);
  const options = { ...AGENT_DEFAULTS, ...withoutUndefined(agent) };
  return {
    id: agent.id,
    name: agent.name,
    db_id: DB_ID,
    description: agent.description,
    role: agent.role,
    introduction: agent.introduction,
    is_factory: false,
    is_component: false,
    version: agent.version,
    model: model && { name: model.id, model: model.id, provider: model.provider },
    tools: {
      tools: agent.tools.map((tool) => ({
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
        effect: tool.effect,
        has_side_effects: tool.effect !== "none",
        stop_after_tool_call: tool.stopAfterCall,
        sequential: tool.sequential,
        timeout: tool.timeoutMs / 1000,
        retries: tool.retries,
        ...pauseOf(tool),
        approval_type: tool.approval?.type,
      })),
      tool_call_limit: agent.toolCallLimit,
      tool_choice: agent.toolChoice ?? (agent.tools.length === 0 ? "none" : "auto"),
    },
    sessions: {
      add_history_to_context: options.addHistoryToContext,
      num_history_runs: agent.numHistoryRuns ?? (agent.numHistoryMessages === undefined ? AGENT_DEFAULTS.numHistoryRuns : undefined),
      num_history_messages: agent.numHistoryMessages,
      max_tool_calls_from_history: agent.maxToolCallsFromHistory,
      history_skip_statuses: agent.historySkipStatuses?.map(statusToWire),
      add_session_state_to_context: options.addSessionStateToContext,
      overwrite_db_session_state: options.overwriteSessionState,
    },
    system_message: {
      system_message: agent.systemMessage,
      // Instructions written as a function are made for each run: there is nothing to show before one.
      instructions: typeof agent.instructions === "function" ? undefined : asWritten(agent.instructions),
      expected_output: agent.expectedOutput,
      additional_context: agent.additionalContext,
      markdown: options.markdown,
      add_datetime_to_context: options.addDatetimeToContext,
      timezone_identifier: options.timezone,
      add_dependencies_to_context: options.addDependenciesToContext,
      resolve_in_context: options.resolveInContext,
    },
    response_settings: {
      retries: options.retries,
      delay_between_retries: options.delayBetweenRetries / 1000,
      exponential_backoff: options.exponentialBackoff,
      max_steps: options.maxSteps,
      stall_timeout: options.stallTimeoutMs / 1000,
      max_output_tokens: agent.generation?.maxOutputTokens,
      temperature: agent.generation?.temperature,
      top_p: agent.generation?.topP,
      stop: agent.generation?.stop,
      reasoning_effort: agent.generation?.reasoningEffort,
    },
    storage: {
      store_events: options.storeEvents,
      // Each tool result is a checkpoint: that is no option.
      checkpoint: "tool-batch",
      store_tool_messages: true,
      store_history_messages: agent.storeHistoryMessages ?? false,
    },
    metadata: agent.metadata,
  };
}

/** What the tool's calls wait for. */
function pauseOf({ pause }: ToolDefinition): Partial<AgentResponse["tools"]["tools"][number]> {
  switch (pause?.kind) {
    case "confirmation":
      return { requires_confirmation: true };
    case "user_input":
      return { requires_user_input: true, user_input_fields: pause.fields.map((field) => field.name) };
    case "asked_input":
    case "user_feedback":
      return { requires_user_input: true };
    case "external_execution":
      return { external_execution: true, ...(pause.silent ? { external_execution_silent: true as const } : {}) };
    case undefined:
      return {};
  }
}

function asWritten(instructions: string | readonly string[] | undefined): string | string[] | undefined {
  return instructions === undefined || typeof instructions === "string" ? instructions : [...instructions];
}

/** An option that is written as `undefined` is one that was not given. */
function withoutUndefined(agent: AgentDefinition): AgentDefinition {
  return Object.fromEntries(Object.entries(agent).filter(([, value]) => value !== undefined)) as AgentDefinition;
}
