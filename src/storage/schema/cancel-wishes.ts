import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Cancels that came before their run was known here. Each asker has a wish of their own, so nobody can overwrite another's. */
export const cancelWishes = sqliteTable(
  "cancel_wishes",
  {
    runId: text("run_id").notNull(),
    /** `all`, or `user:` and the user's id. */
    wisher: text("wisher").notNull(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.runId, table.wisher] }), index("cancel_wishes_by_expiry").on(table.expiresAt)],
);
