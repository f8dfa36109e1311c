import { index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/**
 * Projections that were refused here so often that their session's object set them aside: what the other tables lack, and
 * why. A row goes when what it names has arrived after all, or when its session is deleted.
 */
export const parkedProjections = sqliteTable(
  "parked_projections",
  {
    sessionId: text("session_id").notNull(),
    /** What is missing: `session`, `deleted`, or `run:` and the run's id. */
    entity: text("entity").notNull(),
    reason: text("reason").notNull(),
    /** The release whose tries were refused. Another one tries again. */
    release: text("release").notNull(),
    parkedAt: integer("parked_at").notNull(),
    /** The session's version when this was told: a delete of the session up to a version takes it along. */
    sessionVersion: integer("session_version").notNull(),
  },
  (table) => [primaryKey({ columns: [table.sessionId, table.entity] }), index("parked_projections_by_release").on(table.release)],
);
