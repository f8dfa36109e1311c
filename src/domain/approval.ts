import { z } from "zod";
import { hashOf } from "../lib/hash.ts";
import { ComponentRef } from "./component.ts";
import { RUN_STATUSES } from "./run.ts";
import { Requirement } from "./requirement.ts";

export const APPROVAL_STATUSES = ["pending", "approved", "rejected", "expired", "cancelled"] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** One person's word on an approval that wants several. */
export const Vote = z.object({ by: z.string(), decision: z.enum(["approved", "rejected"]), at: z.number() });
export type Vote = z.infer<typeof Vote>;

/**
 * The record, for people with authority, of what a paused run waits for. One a pause, over all its calls that want
 * approval. The session's object judges; this is what lists and finds.
 */
export const Approval = z.object({
  id: z.string(),
  runId: z.string(),
  sessionId: z.string(),
  /** Who asked for the run. */
  userId: z.string().optional(),
  component: ComponentRef,
  status: z.enum(APPROVAL_STATUSES),
  type: z.enum(["required", "audit"]),
  pauseType: z.enum(["confirmation", "user_input", "external_execution"]),
  /** The first call it covers, as AgentOS shows it. */
  toolName: z.string(),
  toolArguments: z.record(z.string(), z.unknown()),
  toolNames: z.array(z.string()),
  requirements: z.array(Requirement.extend({ callId: z.string(), toolName: z.string(), arguments: z.record(z.string(), z.unknown()) })),
  scheduleId: z.string().optional(),
  scheduleRunId: z.string().optional(),
  resolutionData: z.record(z.string(), z.unknown()).optional(),
  resolvedBy: z.string().optional(),
  resolvedAt: z.number().optional(),
  expiresAt: z.number().optional(),
  /** What happens then. */
  onExpiry: z.enum(["reject", "cancel"]).optional(),
  /** How many different people must approve. */
  approvers: z.number().int(),
  votes: z.array(Vote),
  requesterMayApprove: z.boolean(),
  runStatus: z.enum(RUN_STATUSES).optional(),
  createdAt: z.number(),
  updatedAt: z.number(),
  /** Counts every change, for the projection's guard. */
  version: z.number().int(),
});
export type Approval = z.infer<typeof Approval>;

/** The hash of all that an approval shows: of one call its own, of several the hash of theirs in order. */
export async function shownHashOf(covered: readonly Pick<Requirement, "shownHash">[]): Promise<string | undefined> {
  const hashes = covered.map((requirement) => requirement.shownHash ?? null);
  return hashes.length === 1 ? (hashes[0] ?? undefined) : hashOf(hashes);
}
