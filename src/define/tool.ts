import { z } from "zod";
import type { InputField } from "../domain/requirement.ts";
import type { ToolEffect } from "../domain/tool-call.ts";
import { type ApprovalOptions, type ApprovalPolicy, approvalPolicy } from "./approval-policy.ts";
import { inputFields } from "./input-fields.ts";

/** What a tool is given beside its arguments. */
export interface ToolContext {
  /** The Worker's bindings, as `wrangler types` declares them. */
  env: Cloudflare.Env;
  /** Aborts when the run is cancelled or the tool's time is up. Pass it to `fetch`. */
  signal: AbortSignal;
  /** The same for every repetition of this call. Pass it on where the other side takes an idempotency key. */
  idempotencyKey: string;
  runId: string;
  session: {
    id: string;
    /** The session's state. Changes to it are stored with the tool's result. */
    state: Record<string, unknown>;
  };
  user?: { id: string };
  /** Values of the run, as the caller and the agent gave them. */
  dependencies: Record<string, unknown>;
  metadata: Record<string, unknown>;
  /** Puts an event of your own into the run's log. */
  emit(name: string, data?: Record<string, unknown>): void;
  /** Tells followers how far a long call is. */
  progress(data: unknown): void;
}

/** What a probe found out about a call whose outcome nobody saw. */
export type ProbeResult = { happened: true; result: unknown } | { happened: false } | { happened: "unknown" };

/** Why a call does not run at once. */
export type ToolPause =
  | { kind: "confirmation" }
  /** A person fills in these arguments. */
  | { kind: "user_input"; fields: readonly InputField[] }
  /** The model names the fields itself; the answers are the result. */
  | { kind: "asked_input" }
  /** The model asks questions with choices; the answers are the result. */
  | { kind: "user_feedback" }
  /** The client makes the call and says what came of it. */
  | { kind: "external_execution"; silent: boolean };

export interface ToolDefinition<Input = unknown> {
  kind: "tool";
  name: string;
  description: string;
  input: z.ZodType<Input>;
  /** JSON Schema of `input`, made once. */
  parameters: Record<string, unknown>;
  effect: ToolEffect;
  timeoutMs: number;
  retries: number;
  sequential: boolean;
  stopAfterCall: boolean;
  /** What its calls wait for before anything happens. */
  pause?: ToolPause;
  approval?: ApprovalPolicy;
  probe?: (key: string, context: ToolContext) => Promise<ProbeResult>;
  execute: (input: Input, context: ToolContext) => unknown;
}

export interface ToolOptions<Schema extends z.ZodType> {
  /** Letters, digits, `_` and `-`, at most 64: what providers take. */
  name: string;
  description: string;
  /** Schema of the arguments; its root must be an object. Default: no arguments. */
  input?: Schema;
  /**
   * What calling it again does to the world: `"none"` (it only reads), `"idempotent"` (harmless with the same key) or
   * `"once"` (nobody has promised anything). Default `"once"`. A call that was under way in a crash is repeated only for
   * the first two.
   */
  effect?: ToolEffect;
  /** Milliseconds a call may take. A call that takes longer has an unknown outcome, not a failed one. Default 60 000. */
  timeoutMs?: number;
  /** How often a `none` or `idempotent` call is made again after it timed out. Default 0. */
  retries?: number;
  /** Calls of one reply run side by side; with `true` this tool's calls wait for the ones before them. Default `false`. */
  sequential?: boolean;
  /** End the run after this call; its result is the answer. Default `false`. */
  stopAfterCall?: boolean;
  /** The call waits until a person says yes; with anything else it does not run. Default `false`. */
  requiresConfirmation?: boolean;
  /** A person fills in these arguments before the call runs; `true` or an empty list: all of them. */
  requiresUserInput?: boolean | readonly string[];
  /** The client makes the call, and its result is what the model is told. `"silent"`: it is not shown to people. */
  externalExecution?: boolean | "silent";
  /**
   * `"required"`: someone with `approvals:write` decides before the call may run; without a pause option of its own the
   * tool then needs confirmation. `"audit"`: what was decided is recorded afterwards, and blocks nothing.
   */
  approval?: ApprovalOptions;
  /** Asked after a crash or a timeout what became of a `once` call. */
  probe?: (key: string, context: ToolContext) => Promise<ProbeResult>;
  /** Runs the tool. What it returns is told to the model: text as it is, anything else as JSON. A throw is an error result. */
  execute: (input: z.output<Schema>, context: ToolContext) => unknown;
}

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/;
const DEFAULT_TOOL_TIMEOUT_MS = 60_000;

/**
 * Defines a tool. Plain data, checked and frozen; nothing runs until a model calls it.
 * @throws RangeError when the name or the input schema is one that providers refuse, or options contradict each other.
 */
export function defineTool<Schema extends z.ZodType = z.ZodObject<Record<never, never>>>(options: ToolOptions<Schema>): ToolDefinition<z.output<Schema>> {
  if (!TOOL_NAME.test(options.name)) {
    throw new RangeError(`Tool name "${options.name}" must be 1 to 64 letters, digits, "_" or "-": providers refuse anything else.`);
  }
  const input = (options.input ?? z.object({})) as z.ZodType<z.output<Schema>>;
  const parameters = z.toJSONSchema(input, { io: "input" }) as Record<string, unknown>;
  if (parameters.type !== "object") {
    throw new RangeError(`Tool "${options.name}": the root of its input schema must be an object, as providers require.`);
  }
  delete parameters.$schema;
  const approval = approvalPolicy(options.name, options.approval);
  const pause = pauseOf(options, parameters) ?? (approval?.type === "required" ? { kind: "confirmation" as const } : undefined);
  if (approval?.type === "audit" && pause === undefined) {
    throw new RangeError(`Tool "${options.name}": approval "audit" records what people decide, so the tool needs confirmation, user input or external execution.`);
  }
  for (const option of ["timeoutMs", "retries"] as const) {
    const value = options[option];
    if (value !== undefined && !(value >= 0)) throw new RangeError(`Tool "${options.name}": ${option} must be a number from 0 on.`);
  }
  return Object.freeze({
    kind: "tool" as const,
    name: options.name,
    description: options.description,
    input,
    parameters,
    effect: options.effect ?? "once",
    timeoutMs: options.timeoutMs ?? DEFAULT_TOOL_TIMEOUT_MS,
    retries: options.retries ?? 0,
    sequential: options.sequential ?? false,
    stopAfterCall: options.stopAfterCall ?? false,
    ...(pause === undefined ? {} : { pause }),
    ...(approval === undefined ? {} : { approval }),
    ...(options.probe === undefined ? {} : { probe: options.probe }),
    execute: options.execute,
  });
}

/** @throws RangeError when more than one pause is asked for, or a field that the input does not have. */
function pauseOf(options: Pick<ToolOptions<z.ZodType>, "name" | "requiresConfirmation" | "requiresUserInput" | "externalExecution">, parameters: Record<string, unknown>): ToolPause | undefined {
  const { name, requiresConfirmation = false, requiresUserInput = false, externalExecution = false } = options;
  const asked = [requiresConfirmation, requiresUserInput !== false, externalExecution !== false].filter(Boolean).length;
  if (asked > 1) throw new RangeError(`Tool "${name}": only one of requiresConfirmation, requiresUserInput and externalExecution can be set.`);
  if (requiresConfirmation) return { kind: "confirmation" };
  if (externalExecution !== false) return { kind: "external_execution", silent: externalExecution === "silent" };
  if (requiresUserInput === false) return undefined;
  return { kind: "user_input", fields: inputFields(name, parameters, requiresUserInput === true ? [] : requiresUserInput) };
}
