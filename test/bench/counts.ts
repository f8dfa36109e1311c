import type { Counts } from "./worker/counting.ts";

export type SessionCounts = Counts & { databaseSize: number };

/** What a session on a counting server has written so far. */
export async function countsOf(url: string, sessionId: string): Promise<SessionCounts> {
  const answer = await fetch(`${url}/bench/counts?session_id=${encodeURIComponent(sessionId)}`);
  if (!answer.ok) throw new Error(`The session's counts were answered with ${answer.status}: ${await answer.text()}`);
  return (await answer.json()) as SessionCounts;
}

/** What was written between two looks. */
export function written(before: Counts, after: Counts): Counts {
  const byStatement: Record<string, number> = {};
  for (const [name, rows] of Object.entries(after.byStatement)) {
    const more = rows - (before.byStatement[name] ?? 0);
    if (more > 0) byStatement[name] = more;
  }
  return {
    rows: after.rows - before.rows,
    byStatement,
    bytes: after.bytes - before.bytes,
    transactions: after.transactions - before.transactions,
    syncs: after.syncs - before.syncs,
    d1Rows: after.d1Rows - before.d1Rows,
    d1Bytes: after.d1Bytes - before.d1Bytes,
    d1Batches: after.d1Batches - before.d1Batches,
  };
}

/** Rows that a turn of a session's object may write. */
export const objectRowBudget = ({ seconds = 0, toolCalls = 0 }: { seconds?: number; toolCalls?: number }): number => 18 + 4 * seconds + 6 * toolCalls;
/** Rows that a turn may write in D1, those of its indexes counted. */
export const D1_ROW_BUDGET = 16;
