import { and, count, desc, eq, type SQL } from "drizzle-orm";
import { Approval, type ApprovalStatus } from "../../domain/approval.ts";
import type { ComponentKind } from "../../domain/component.ts";
import type { Page } from "../../domain/page.ts";
import type { Access } from "../../domain/principal.ts";
import { visibleTo } from "../access.ts";
import { answered } from "../answered.ts";
import type { Database } from "../database.ts";
import { readAll, readDocument } from "../read-document.ts";
import { approvals, PENDING } from "../schema/approvals.ts";

export interface ListApprovals {
  status?: ApprovalStatus;
  /** Which kind of component asks. */
  sourceType?: ComponentKind;
  type?: Approval["type"];
  pauseType?: Approval["pauseType"];
  /** One component. Approvals of two different ones there are none. */
  components?: readonly { kind: ComponentKind; id: string }[];
  userId?: string;
  scheduleId?: string;
  runId?: string;
  /** From 1. */
  page: number;
  limit: number;
}

/** Approvals as D1 was told of them. An approval is the requester's: others see it if they may see all. */
export interface ApprovalRepository {
  /** Newest first. Rows that can not be read are left out, and logged. */
  list(query: ListApprovals): Promise<Page<Approval>>;
  /** How many wait for a decision: of one requester, or of all. */
  countPending(userId?: string): Promise<number>;
  /** @throws AppError `record_unreadable` */
  find(approvalId: string): Promise<Approval | undefined>;
}

export function makeApprovalRepository({ d1 }: Database, access: Access): ApprovalRepository {
  const visible = visibleTo(access, approvals.userId);

  return {
    async list(query) {
      const matching = and(visible, ...filters(query));
      const counting = d1.select({ total: count() }).from(approvals).where(matching);
      const reading = d1
        .select({ approvalId: approvals.approvalId, document: approvals.document })
        .from(approvals)
        .where(matching)
        // Ids sort by time.
        .orderBy(desc(approvals.approvalId))
        .limit(query.limit)
        .offset((query.page - 1) * query.limit);
      const [[counted], rows] = await answered(d1.batch([counting, reading]));
      return { items: readAll(rows, readApproval), page: query.page, limit: query.limit, total: counted?.total ?? 0 };
    },

    async countPending(userId) {
      const ofUser = userId === undefined ? undefined : eq(approvals.userId, userId);
      const [counted] = await answered(d1.select({ total: count() }).from(approvals).where(and(PENDING, visible, ofUser)));
      return counted?.total ?? 0;
    },

    async find(approvalId) {
      const reading = d1
        .select({ approvalId: approvals.approvalId, document: approvals.document })
        .from(approvals)
        .where(and(eq(approvals.approvalId, approvalId), visible));
      const row = await answered(reading.get());
      return row === undefined ? undefined : readApproval(row);
    },
  };
}

/** Reads an approval's row. */
export const readApproval = (row: { approvalId: string; document: string }): Approval =>
  readDocument(Approval, row.document, { noun: "approval", id: row.approvalId });

function filters({ status, sourceType, type, pauseType, components = [], userId, scheduleId, runId }: ListApprovals): (SQL | undefined)[] {
  return [
    // In the words of the index, which holds pending ones alone.
    status === undefined ? undefined : status === "pending" ? PENDING : eq(approvals.status, status),
    sourceType === undefined ? undefined : eq(approvals.componentKind, sourceType),
    type === undefined ? undefined : eq(approvals.type, type),
    pauseType === undefined ? undefined : eq(approvals.pauseType, pauseType),
    ...components.map(({ kind, id }) => and(eq(approvals.componentKind, kind), eq(approvals.componentId, id))),
    userId === undefined ? undefined : eq(approvals.userId, userId),
    scheduleId === undefined ? undefined : eq(approvals.scheduleId, scheduleId),
    runId === undefined ? undefined : eq(approvals.runId, runId),
  ];
}
