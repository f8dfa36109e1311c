import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Which run a client's Idempotency-Key stands for: what is asked again under it is that run. */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    /** Whose key it is: `all` where nobody is known, or `user:` and the user's id. */
    owner: text("owner").notNull(),
    /** What was asked of: an agent, a run that goes on, a schedule. The same key on another one is another key. */
    target: text("target").notNull(),
    key: text("key").notNull(),
    /** A hash of what was asked. */
    fingerprint: text("fingerprint").notNull(),
    /** Minted with the key. Null once the run was deleted with its session. */
    runId: text("run_id"),
    sessionId: text("session_id").notNull(),
    /** How many requests came with it and were not refused: at 0 nothing came of it, and the key is free again. */
    askers: integer("askers").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.owner, table.target, table.key] }),
    index("idempotency_keys_by_session").on(table.sessionId),
    index("idempotency_keys_by_creation").on(table.createdAt),
  ],
);
