import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { APPROVAL_STATUSES } from "../../domain/approval.ts";
import { COMPONENT_KINDS } from "../../domain/component.ts";

/** Whether an approval is pending, as the index has it: SQLite uses a partial index where a query says the same in the same words. */
export const PENDING = sql.raw("status = 'pending'");

/**
 * What sessions' objects told of their approvals: the record that lists and finds; the object is the judge. The columns
 * are what lists filter by, the approval itself is the document.
 *
 * Ids sort by time, so the key is the order of lists, and the indices that lists use end in it. Decided approvals, nearly
 * all of them, cost those who look for pending ones nothing.
 */
export const approvals = sqliteTable(
  "approvals",
  {
    approvalId: text("approval_id").primaryKey(),
    runId: text("run_id").notNull(),
    sessionId: text("session_id").notNull(),
    /** Who asked for the run. */
    userId: text("user_id"),
    componentKind: text("component_kind", { enum: COMPONENT_KINDS }).notNull(),
    componentId: text("component_id").notNull(),
    status: text("status", { enum: APPROVAL_STATUSES }).notNull(),
    type: text("type", { enum: ["required", "audit"] }).notNull(),
    pauseType: text("pause_type", { enum: ["confirmation", "user_input", "external_execution"] }).notNull(),
    scheduleId: text("schedule_id"),
    version: integer("version").notNull(),
    /** The session's version when this was told: a delete of the session up to a version takes it along. */
    sessionVersion: integer("session_version").notNull(),
    document: text("document").notNull(),
  },
  (table) => [
    index("approvals_pending").on(table.userId, table.approvalId).where(PENDING),
    index("approvals_by_owner").on(table.userId, table.approvalId),
    index("approvals_by_run").on(table.runId, table.approvalId),
    index("approvals_by_session").on(table.sessionId),
  ],
);

/** Approvals that were deleted one by one. Ids are never used again, so nothing is ever written under one. */
export const deletedApprovals = sqliteTable("deleted_approvals", { approvalId: text("approval_id").primaryKey() });
