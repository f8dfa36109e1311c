import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import type { Projection } from "../../../src/domain/projection.ts";
import { RUN_STATUSES, isUnfinished } from "../../../src/domain/run.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { findStaleRuns } from "../../../src/storage/stale-runs.ts";
import { aRun, runTold } from "./rows.ts";

const apply = (...entries: Projection[]) => applyProjections(env.DB, env.MEDIA, entries);
const find = (query: { heardBefore: number; limit: number }) => findStaleRuns(env, query);

beforeEach(() => env.DB.prepare("DELETE FROM runs").run());

it("unfinished runs that D1 has not heard of for long are found by their sessions, the longest first", async () => {
  await apply(
    ...RUN_STATUSES.map((status, index) => runTold(aRun({ runId: status, sessionId: "each", status, updatedAt: 1_000 + index }))),
    runTold(aRun({ runId: "oldest", sessionId: "other", status: "pending", updatedAt: 1 })),
    runTold(aRun({ runId: "later", sessionId: "other", updatedAt: 4_999 })),
    runTold(aRun({ runId: "heard", sessionId: "each", updatedAt: 5_000 })),
  );
  const unfinished = RUN_STATUSES.filter(isUnfinished);
  expect(await find({ heardBefore: 5_000, limit: 10 })).toEqual([
    { sessionId: "other", runIds: ["oldest", "later"] },
    { sessionId: "each", runIds: unfinished },
  ]);
  expect(await find({ heardBefore: 5_000, limit: 2 })).toEqual([
    { sessionId: "other", runIds: ["oldest"] },
    { sessionId: "each", runIds: unfinished.slice(0, 1) },
  ]);
  expect(await find({ heardBefore: 1, limit: 10 })).toEqual([]);
});

it("a run whose end is parked is not asked after: its object has said what it can", async () => {
  await apply(runTold(aRun({ runId: "long", sessionId: "s", updatedAt: 1 })), runTold(aRun({ runId: "short", sessionId: "s", updatedAt: 2 })));
  await apply({ kind: "parked", sessionId: "s", sessionVersion: 1, entity: "run:long", reason: "It is too long.", release: "1", at: 3 });
  expect(await find({ heardBefore: 5_000, limit: 10 })).toEqual([{ sessionId: "s", runIds: ["short"] }]);
});

it("looking for them reads the unfinished runs alone, however many there are of others", async () => {
  await apply(...Array.from({ length: 50 }, (_, index) => runTold(aRun({ sessionId: "s", status: "completed", updatedAt: index }))));
  const asked: string[] = [];
  const DB = new Proxy(env.DB, {
    get: (target, property) => (property === "prepare" ? (sql: string) => (asked.push(sql), target.prepare(sql)) : Reflect.get(target, property)),
  });
  await findStaleRuns({ DB }, { heardBefore: 5_000, limit: 10 });
  const { results } = await env.DB.prepare(`EXPLAIN QUERY PLAN ${asked[0]}`).bind(5_000, 10).all<{ detail: string }>();
  const plan = results.map(({ detail }) => detail).join("; ");
  expect(plan).toContain("runs USING INDEX runs_unfinished (updated_at<?)");
  expect(plan).not.toContain("TEMP B-TREE");
});
