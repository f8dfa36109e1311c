import { and, count, desc, eq, exists, sql } from "drizzle-orm";
import type { Page } from "../../domain/page.ts";
import type { Access } from "../../domain/principal.ts";
import { visibleTo } from "../access.ts";
import { answered } from "../answered.ts";
import type { Database } from "../database.ts";
import { parkedProjections } from "../schema/parked-projections.ts";
import { sessions } from "../schema/sessions.ts";

/** What D1 refused to hold, and what its session's object set aside for that. */
export interface ParkedProjection {
  sessionId: string;
  /** What is missing: `session`, `deleted`, or `run:` and the run's id. */
  entity: string;
  reason: string;
  /** The release whose tries were refused. */
  release: string;
  parkedAt: number;
}

export interface ParkedProjectionRepository {
  /** Newest first. */
  list(query: { page: number; limit: number }): Promise<Page<ParkedProjection>>;
}

export function makeParkedProjectionRepository({ d1 }: Database, access: Access): ParkedProjectionRepository {
  const owned = d1
    .select({ sessionId: sessions.sessionId })
    .from(sessions)
    .where(and(eq(sessions.sessionId, parkedProjections.sessionId), visibleTo(access, sessions.userId)));
  // The session's own row may be what is missing: then nobody but who sees everything can be shown that.
  const visible = access.rows === "all" ? undefined : exists(owned);

  return {
    async list({ page, limit }) {
      const counting = d1.select({ total: count() }).from(parkedProjections).where(visible);
      const reading = d1
        .select({
          sessionId: parkedProjections.sessionId,
          entity: parkedProjections.entity,
          reason: parkedProjections.reason,
          release: parkedProjections.release,
          parkedAt: parkedProjections.parkedAt,
        })
        .from(parkedProjections)
        .where(visible)
        .orderBy(desc(parkedProjections.parkedAt), desc(parkedProjections.sessionId), desc(parkedProjections.entity))
        .limit(limit)
        .offset((page - 1) * limit);
      const [[counted], items] = await answered(d1.batch([counting, reading]));
      return { items, page, limit, total: counted?.total ?? 0 };
    },
  };
}

/** Anyone may ask how many there are, so asking must stay cheap however many they become. */
const COUNTED = 1_000;

/** How many projections are parked, up to a thousand. */
export async function countParked({ d1 }: Database): Promise<number> {
  const some = d1.select({ one: sql`1`.as("one") }).from(parkedProjections).limit(COUNTED).as("some");
  const [counted] = await answered(d1.select({ total: count() }).from(some));
  return counted?.total ?? 0;
}
