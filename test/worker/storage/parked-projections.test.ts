import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import type { Access } from "../../../src/domain/principal.ts";
import type { Projection } from "../../../src/domain/projection.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { openDatabase } from "../../../src/storage/database.ts";
import { findParkedElsewhere } from "../../../src/storage/parked-elsewhere.ts";
import { makeRepositories } from "../../../src/storage/repositories/index.ts";
import { countParked } from "../../../src/storage/repositories/parked-projections.ts";
import { aSession, sessionTold } from "./rows.ts";

const ALL: Access = { rows: "all" };

const apply = (...entries: Projection[]) => applyProjections(env.DB, env.MEDIA, entries);
const list = (access: Access, query = { page: 1, limit: 20 }) => makeRepositories(env, access).parkedProjections.list(query);
const parked = (given: Partial<Extract<Projection, { kind: "parked" }>> = {}): Projection => ({
  kind: "parked",
  sessionId: "s",
  sessionVersion: 1,
  entity: "run:1",
  reason: "It is too long.",
  release: "1",
  at: 1_000,
  ...given,
});
const arrived = (given: Partial<Extract<Projection, { kind: "parked" }>> = {}): Projection => {
  const { reason: _reason, ...rest } = parked(given) as Extract<Projection, { kind: "parked" }>;
  return rest;
};

beforeEach(() => env.DB.batch(["parked_projections", "sessions", "deleted_sessions"].map((table) => env.DB.prepare(`DELETE FROM ${table}`))));

it("a parked projection is listed until it has arrived, with the newest word of it", async () => {
  await apply(parked(), parked({ entity: "session", at: 500 }));
  await apply(parked({ reason: "Still too long.", release: "2", at: 2_000 }));
  await apply(parked());
  expect(await list(ALL)).toEqual({
    items: [
      { sessionId: "s", entity: "run:1", reason: "Still too long.", release: "2", parkedAt: 2_000 },
      { sessionId: "s", entity: "session", reason: "It is too long.", release: "1", parkedAt: 500 },
    ],
    page: 1,
    limit: 20,
    total: 2,
  });
  expect((await list(ALL, { page: 2, limit: 1 })).items).toMatchObject([{ entity: "session" }]);

  // An older word that comes late takes nothing away.
  await apply(arrived({ at: 1_500 }));
  expect((await list(ALL)).total).toBe(2);
  await apply(arrived({ at: 3_000 }), arrived({ at: 3_000 }));
  expect((await list(ALL)).items).toMatchObject([{ entity: "session" }]);
});

it("goes with its session, and what comes late does not come back", async () => {
  await apply(parked({ sessionVersion: 4 }), parked({ entity: "session", sessionVersion: 6 }));
  await apply({ kind: "session-deleted", sessionId: "s", version: 5, at: 0 });
  // What the id's next life parked is not the first one's.
  expect((await list(ALL)).items).toMatchObject([{ entity: "session" }]);
  await apply(parked({ entity: "run:2", sessionVersion: 5 }));
  expect((await list(ALL)).total).toBe(1);
});

it("is a user's where the session is, as far as D1 knows that", async () => {
  await apply(sessionTold(aSession({ sessionId: "s", userId: "alice" })), parked(), parked({ sessionId: "unknown" }));
  expect((await list({ rows: "user", userId: "alice" })).items).toMatchObject([{ sessionId: "s" }]);
  expect(await list({ rows: "user", userId: "bob" })).toMatchObject({ items: [], total: 0 });
  expect((await list(ALL)).total).toBe(2);
});

it("is counted, and found by other releases than its own through the index", async () => {
  expect(await countParked(openDatabase(env))).toBe(0);
  await apply(parked({ release: "1" }), parked({ release: "2", entity: "session" }), parked({ release: "3", sessionId: "t" }));
  expect(await countParked(openDatabase(env))).toBe(3);
  const found = await findParkedElsewhere(env, { release: "2", limit: 10 });
  expect(found.sort((a, b) => a.sessionId.localeCompare(b.sessionId))).toEqual([
    { sessionId: "s", entities: ["run:1"] },
    { sessionId: "t", entities: ["run:1"] },
  ]);
  expect(await findParkedElsewhere(env, { release: "2", limit: 1 })).toHaveLength(1);
  const { results } = await env.DB.prepare("EXPLAIN QUERY PLAN SELECT session_id FROM parked_projections WHERE release < '2' OR release > '2' LIMIT 10").all<{ detail: string }>();
  expect(results.map(({ detail }) => detail).join("; ")).toContain("parked_projections_by_release");
});
