import { and, asc, count, desc, eq, type SQL, sql } from "drizzle-orm";
import type { ComponentKind } from "../../domain/component.ts";
import type { Page } from "../../domain/page.ts";
import type { Access } from "../../domain/principal.ts";
import { Session } from "../../domain/session.ts";
import { visibleTo } from "../access.ts";
import { answered } from "../answered.ts";
import type { Database } from "../database.ts";
import { readAll, readDocument } from "../read-document.ts";
import { sessions } from "../schema/sessions.ts";

export const SESSION_SORTS = ["created_at", "updated_at", "session_name"] as const;

export interface ListSessions {
  type?: ComponentKind;
  componentId?: string;
  userId?: string;
  /** A part of the name, in any case. */
  name?: string;
  sortBy: (typeof SESSION_SORTS)[number];
  sortOrder: "asc" | "desc";
  /** From 1. */
  page: number;
  limit: number;
}

export interface SessionRepository {
  /** A page of sessions, without their runs. Rows that can not be read are left out of it, and logged. */
  list(query: ListSessions): Promise<Page<Session>>;
  /**
   * As D1 knows it, which may lag behind the session's object.
   * @throws AppError `record_unreadable`
   */
  find(sessionId: string): Promise<Session | undefined>;
}

const SORT_COLUMNS = { created_at: sessions.createdAt, updated_at: sessions.updatedAt, session_name: sessions.title } as const;

export function makeSessionRepository({ d1 }: Database, access: Access): SessionRepository {
  return {
    async list(query) {
      const matching = and(visibleTo(access, sessions.userId), ...filters(query));
      const direction = query.sortOrder === "asc" ? asc : desc;
      const counting = d1.select({ total: count() }).from(sessions).where(matching);
      const reading = d1
        .select({ sessionId: sessions.sessionId, document: sessions.document })
        .from(sessions)
        .where(matching)
        .orderBy(direction(SORT_COLUMNS[query.sortBy]), direction(sessions.sessionId))
        .limit(query.limit)
        .offset((query.page - 1) * query.limit);
      const [[counted], rows] = await answered(d1.batch([counting, reading]));
      return { items: readAll(rows, readSession), page: query.page, limit: query.limit, total: counted?.total ?? 0 };
    },

    async find(sessionId) {
      const reading = d1
        .select({ sessionId: sessions.sessionId, document: sessions.document })
        .from(sessions)
        .where(and(eq(sessions.sessionId, sessionId), visibleTo(access, sessions.userId)));
      const row = await answered(reading.get());
      return row === undefined ? undefined : readSession(row);
    },
  };
}

/** Reads a session's row. */
export const readSession = (row: { sessionId: string; document: string }): Session =>
  readDocument(Session, row.document, { noun: "session", id: row.sessionId });

function filters({ type, componentId, userId, name }: ListSessions): (SQL | undefined)[] {
  return [
    userId === undefined ? undefined : eq(sessions.userId, userId),
    type === undefined ? undefined : eq(sessions.componentKind, type),
    componentId === undefined ? undefined : eq(sessions.componentId, componentId),
    // Not LIKE, where `%` and `_` would be more than themselves.
    name === undefined || name === "" ? undefined : sql`instr(lower(${sessions.title}), lower(${name})) > 0`,
  ];
}
