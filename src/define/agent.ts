import type { RunStatus } from "../domain/run.ts";
import type { GenerationOptions, Model, ToolChoice } from "../models/model.ts";
import type { ToolContext, ToolDefinition } from "./tool.ts";

/** What instructions written as a function, and dependencies written as functions, are given. */
export interface RunContext {
  env: Cloudflare.Env;
  runId: string;
  sessionId: string;
  userId?: string;
  sessionState: Record<string, unknown>;
  dependencies: Record<string, unknown>;
  metadata: Record<string, unknown>;
}

export type Instructions = string | readonly string[] | ((context: RunContext) => string | readonly string[] | Promise<string | readonly string[]>);

/** One call on its way through the hooks. */
export interface ToolHookCall {
  tool: ToolDefinition;
  arguments: Record<string, unknown>;
  context: ToolContext;
}

/**
 * Middleware around every tool call. Call `next` with the arguments that should run and return what the model should be
 * told; not calling `next` means the tool does not run. A throw is an error result.
 */
export type ToolHook = (call: ToolHookCall, next: (args: Record<string, unknown>) => Promise<unknown>) => unknown;

export type ModelChoice = Model | string | ((env: Cloudflare.Env) => Model | string);

export interface AgentOptions {
  /** Names the agent in routes and scopes. */
  id: string;
  /** What people see. Default: the id. */
  name?: string;
  description?: string;
  role?: string;
  /** First line of a conversation, for clients that show one. */
  introduction?: string;
  /** A model, `"provider:id"`, or a function that picks one of these from the Worker's settings when a turn begins. */
  model: ModelChoice;
  /** The author's version of this definition; a run keeps to it. Default `"1"`. */
  version?: string;

  instructions?: Instructions;
  expectedOutput?: string;
  additionalContext?: string;
  /** Replaces the whole system message that the options above would make. */
  systemMessage?: string;
  /** Ask for Markdown. Default `false`. */
  markdown?: boolean;
  addDatetimeToContext?: boolean;
  /** IANA zone of that date. Default `UTC`. */
  timezone?: string;
  /** Replace `{name}` in instructions by values of session state, dependencies and metadata. Default `true`. */
  resolveInContext?: boolean;

  tools?: readonly ToolDefinition<never>[] | readonly ToolDefinition<any>[];
  /** Whether and which tool the model must call. A choice that forces a call holds until the first one is made. */
  toolChoice?: ToolChoice;
  /** How many tool calls a run may make; calls beyond it are answered with an error. */
  toolCallLimit?: number;
  toolHooks?: readonly ToolHook[];
  /**
   * What to do about a call whose outcome nobody knows: pause and let a person say (`"ask"`, the default), run it again,
   * leave it and tell the model (`"skip"`), or end the run with it (`"fail"`), where nobody is there to be asked.
   */
  onUnknown?: "ask" | "run" | "skip" | "fail";
  /** How many model requests a run may make before it ends as `failed`. Default 50. */
  maxSteps?: number;

  /** Show earlier runs of the session to the model. Default `false`. */
  addHistoryToContext?: boolean;
  /** How many earlier runs. Default 3, unless `numHistoryMessages` is set. */
  numHistoryRuns?: number;
  numHistoryMessages?: number;
  maxToolCallsFromHistory?: number;
  /** Keep with each run what it was shown of earlier ones. A session then grows with the square of its runs. Default `false`. */
  storeHistoryMessages?: boolean;
  /** Runs in these statuses are left out of history. Default: all but completed ones. */
  historySkipStatuses?: readonly RunStatus[];

  /** State a new session starts with. */
  sessionState?: Record<string, unknown>;
  addSessionStateToContext?: boolean;
  /** A run's `session_state` replaces the stored one instead of being merged into it. Default `false`. */
  overwriteSessionState?: boolean;
  /** Values for tools and instructions; a function is called once a run. The caller's win over these. */
  dependencies?: Record<string, unknown>;
  addDependenciesToContext?: boolean;
  /** Stored with each run. Wins over the caller's. */
  metadata?: Record<string, unknown>;

  generation?: GenerationOptions;
  /** How often a failed model request is made again, where that can help. Default 0. */
  retries?: number;
  /** Milliseconds before the first of them. Default 1 000. */
  delayBetweenRetries?: number;
  /** Double the delay each time. Default `false`. */
  exponentialBackoff?: boolean;
  /** Milliseconds of silence from the provider that count as a failure. Default 120 000. */
  stallTimeoutMs?: number;
  /** Keep the events on the run that clients read. Default `true`. */
  storeEvents?: boolean;
}

/** An agent, checked and frozen. */
export type AgentDefinition = Readonly<AgentOptions & { kind: "agent"; name: string; version: string; tools: readonly ToolDefinition<any>[] }>;

/**
 * Defines an agent. Plain data: it runs in global scope, where Workers allow no I/O.
 * @throws RangeError when an option can not work, with the option's name.
 */
export function defineAgent(options: AgentOptions): AgentDefinition {
  if (options.id.length === 0 || options.id.includes("/")) throw new RangeError(`Agent id "${options.id}" must be a name without "/".`);
  const tools = (options.tools ?? []) as readonly ToolDefinition<any>[];
  const seen = new Set<string>();
  for (const tool of tools) {
    if (seen.has(tool.name)) throw new RangeError(`Agent "${options.id}" has two tools named "${tool.name}".`);
    seen.add(tool.name);
  }
  for (const option of ["retries", "delayBetweenRetries", "toolCallLimit", "maxSteps", "stallTimeoutMs"] as const) {
    const value = options[option];
    if (value !== undefined && !(value >= 0)) throw new RangeError(`Agent "${options.id}": ${option} must not be negative.`);
  }
  if (!["ask", "run", "skip", "fail", undefined].includes(options.onUnknown)) throw new RangeError(`Agent "${options.id}": onUnknown must be "ask", "run", "skip" or "fail", not "${String(options.onUnknown)}".`);
  return Object.freeze({ ...options, kind: "agent" as const, name: options.name ?? options.id, version: options.version ?? "1", tools: Object.freeze([...tools]) });
}
