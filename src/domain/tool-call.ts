import { z } from "zod";
import { isOpen, Requirement } from "./requirement.ts";

/** A call the model asked for, as it stands in the assistant's message. */
export const ToolCall = z.object({
  /** The provider's id, made unique within the run. Carried to the model and to clients; the ledger has a key of its own. */
  id: z.string(),
  name: z.string(),
  /** Always an object: what providers accept when the message is replayed. */
  arguments: z.record(z.string(), z.unknown()),
  /** Why the call can not run as it was written (not JSON, cut off by the token limit); the raw text stays here, outside what models see. */
  invalid: z.object({ reason: z.string(), text: z.string() }).optional(),
});
export type ToolCall = z.infer<typeof ToolCall>;

/** What a call does to the world when it is made again. See design §5. */
export const TOOL_EFFECTS = ["none", "idempotent", "once"] as const;
export type ToolEffect = (typeof TOOL_EFFECTS)[number];

/** Where a call stands in the effect ledger. */
export const EFFECT_STATUSES = ["planned", "started", "done", "failed", "unknown", "rejected", "skipped"] as const;
export type EffectStatus = (typeof EFFECT_STATUSES)[number];

/** Nothing more will happen with the call: it answers from its row. */
export const isSettled = (status: EffectStatus): boolean => status !== "planned" && status !== "started";

/** One row of the effect ledger: a tool call, what really ran, and what became of it. */
export const Effect = z.object({
  runId: z.string(),
  /** Which model reply of the run asked for it, from 0. */
  step: z.number().int(),
  /** Its place in that reply, from 0. */
  position: z.number().int(),
  callId: z.string(),
  toolName: z.string(),
  status: z.enum(EFFECT_STATUSES),
  /** The arguments that really ran: tool hooks and people may have changed what the model asked for. */
  arguments: z.record(z.string(), z.unknown()),
  /** What a person put in place of the arguments that the model wrote. The model is shown these. */
  edited: z.record(z.string(), z.unknown()).optional(),
  /** Hash of `arguments`, set when the call starts. */
  argumentsHash: z.string().optional(),
  /** What the model is told. Set once settled. */
  result: z.string().optional(),
  attempt: z.number().int(),
  plannedAt: z.number(),
  startedAt: z.number().optional(),
  settledAt: z.number().optional(),
  /** What the call waits for, or has waited for: who decided what. */
  requirement: Requirement.optional(),
  /** The run ends after this call instead of asking the model again. */
  stopAfter: z.boolean().optional(),
  /** What became of a call that nobody waited for any more. The story above keeps what was told; this is for people. */
  lateOutcome: z.object({ status: z.enum(["done", "failed"]), result: z.string(), at: z.number() }).optional(),
});
export type Effect = z.infer<typeof Effect>;

/** The call waits for a person. One whose outcome is unknown waits as well, though nothing of it runs any more. */
export const isWaiting = (effect: Pick<Effect, "status" | "requirement">): boolean =>
  effect.requirement !== undefined && isOpen(effect.requirement) && (effect.status === "planned" || effect.status === "unknown");

/** The stable key of a call, handed to the tool as its idempotency key. */
export const effectKey = (effect: Pick<Effect, "runId" | "step" | "position">): string => `${effect.runId}:${effect.step}:${effect.position}`;
