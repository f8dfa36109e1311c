import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { COMPONENT_KINDS } from "../../domain/component.ts";

/**
 * What lists and searches know of a session. The columns are what they filter and sort by; the session itself is the
 * document.
 *
 * Rows are projections that the session's object writes (`apply-projection.ts`). Each index costs a written row when a
 * session is made, and one more at every change where its columns are among those that the change names: only
 * `updated_at` is. Every index ends in the id, so that rows of one instant have an order, and holds what is usually
 * filtered by, so that counting never reads the rows themselves.
 */
export const sessions = sqliteTable(
  "sessions",
  {
    sessionId: text("session_id").primaryKey(),
    userId: text("user_id"),
    componentKind: text("component_kind", { enum: COMPONENT_KINDS }),
    componentId: text("component_id"),
    /** The beginning of what people see as its name. */
    title: text("title").notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    version: integer("version").notNull(),
    document: text("document").notNull(),
  },
  (table) => [
    index("sessions_by_owner").on(table.userId, table.createdAt, table.sessionId, table.componentKind, table.componentId),
    index("sessions_by_component").on(table.componentId, table.createdAt, table.sessionId, table.componentKind),
    index("sessions_by_creation").on(table.createdAt, table.sessionId, table.componentKind),
    index("sessions_by_update").on(table.updatedAt, table.sessionId),
  ],
);

/** The tombstones: up to which version a session's rows are gone. Nothing is written under one. */
export const deletedSessions = sqliteTable("deleted_sessions", {
  sessionId: text("session_id").primaryKey(),
  version: integer("version").notNull(),
});
