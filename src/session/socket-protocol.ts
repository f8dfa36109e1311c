import { z } from "zod";

/** What a client may say on a session's socket. Field names are those of the HTTP routes. */
export const SocketMessage = z.discriminatedUnion("action", [
  z.object({
    action: z.literal("start"),
    agent_id: z.string(),
    message: z.string().min(1),
    session_state: z.record(z.string(), z.unknown()).optional(),
    dependencies: z.record(z.string(), z.unknown()).optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    background: z.boolean().default(false),
    on_busy: z.enum(["reject", "enqueue", "interrupt"]).default("reject"),
    /** Seconds, or `keep`. */
    on_disconnect: z.union([z.number().min(0), z.literal("keep")]).default(120),
    /** Comes back with the answer, so that a client can tell its answers apart. */
    ref: z.string().max(200).optional(),
  }),
  z.object({ action: z.literal("follow"), run_id: z.string(), after: z.number().int().min(-1).default(-1), ref: z.string().max(200).optional() }),
  z.object({ action: z.literal("unfollow"), run_id: z.string(), ref: z.string().max(200).optional() }),
  z.object({ action: z.literal("cancel"), run_id: z.string(), ref: z.string().max(200).optional() }),
  z.object({ action: z.literal("ping"), ref: z.string().max(200).optional() }),
]);
export type SocketMessage = z.infer<typeof SocketMessage>;

/** The exact text that the platform answers by itself, without waking the object. */
export const PING = '{"action":"ping"}';
export const PONG = '{"event":"pong"}';
