import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { COMPONENT_KINDS } from "../../domain/component.ts";
import { RUN_STATUSES } from "../../domain/run.ts";

/** Whether a run is unfinished, as the index has it: SQLite uses a partial index where a query says the same in the same words. */
export const UNFINISHED = sql.raw("status IN ('pending', 'running')");

/**
 * A session's runs, as its object last told of them. Only readers that want a run's messages and events select
 * `document`. It is the last column, so that SQLite reaches the others without reading the pages it overflows to.
 */
export const runs = sqliteTable(
  "runs",
  {
    runId: text("run_id").primaryKey(),
    sessionId: text("session_id").notNull(),
    /** Its place among the session's runs, from 1. */
    ordinal: integer("ordinal").notNull(),
    parentRunId: text("parent_run_id"),
    userId: text("user_id"),
    componentKind: text("component_kind", { enum: COMPONENT_KINDS }).notNull(),
    componentId: text("component_id").notNull(),
    status: text("status", { enum: RUN_STATUSES }).notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
    version: integer("version").notNull(),
    /** The session's version when this was told: a delete of the session up to a version takes the runs up to it along. */
    sessionVersion: integer("session_version").notNull(),
    /** The R2 key of a document that is too long for a row. */
    archiveKey: text("archive_key"),
    /** The run with its messages, effects and events (`run-document.ts`). Null where it is archived. */
    document: text("document"),
  },
  (table) => [
    index("runs_by_session").on(table.sessionId, table.ordinal),
    // What the minute's sweep looks for. Finished runs, nearly all of them, cost it nothing.
    index("runs_unfinished").on(table.updatedAt).where(UNFINISHED),
  ],
);
