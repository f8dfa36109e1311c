import { z } from "zod";
import { ComponentRef } from "./component.ts";
import { Usage } from "./usage.ts";

/** Figures summed over a session's completed runs. */
export const SessionMetrics = z.object({ usage: Usage, durationMs: z.number(), runs: z.number().int() });
export type SessionMetrics = z.infer<typeof SessionMetrics>;

/** One conversation: its owner, its state, and what it is called. Its runs are rows of their own. */
export const Session = z.object({
  sessionId: z.string(),
  /** Nobody owns a session that was made without a user; the first identified user to run on it does from then on. */
  userId: z.string().optional(),
  /** What was named when the session was made, or what ran first on it. */
  component: ComponentRef.pick({ kind: true, id: true }).optional(),
  /** The name someone gave it. Without one, lists show the first thing the user said: `firstInput`. */
  name: z.string().optional(),
  firstInput: z.string().optional(),
  state: z.record(z.string(), z.unknown()),
  metadata: z.record(z.string(), z.unknown()).optional(),
  summary: z.record(z.string(), z.unknown()).optional(),
  metrics: SessionMetrics,
  createdAt: z.number(),
  updatedAt: z.number(),
  /** Counts every change, so that an old projection never covers a newer one; goes on after a delete. */
  version: z.number().int(),
});
export type Session = z.infer<typeof Session>;

/** What people see as the session's name. */
export const sessionTitle = (session: Pick<Session, "name" | "firstInput">): string => session.name ?? session.firstInput ?? "";
