import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Access } from "../../../src/domain/principal.ts";
import type { Projection } from "../../../src/domain/projection.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { MIGRATIONS, pendingMigrations } from "../../../src/storage/migrations-applied.ts";
import { makeRepositories } from "../../../src/storage/repositories/index.ts";
import type { ListSessions } from "../../../src/storage/repositories/sessions.ts";
import { restoreSession } from "../../../src/storage/restore-session.ts";
import { aRun, aSession, EVENTS, finished, metered, runTold, sessionTold } from "./rows.ts";

const ALL: Access = { rows: "all" };
const user = (userId: string): Access => ({ rows: "user", userId });

const bindings = { DB: env.DB, MEDIA: env.MEDIA };
const see = (access: Access) => makeRepositories(bindings, access);
const apply = (...entries: Projection[]) => applyProjections(env.DB, env.MEDIA, entries);

const page = (query: Partial<ListSessions> = {}): ListSessions => ({ sortBy: "created_at", sortOrder: "desc", page: 1, limit: 20, ...query });

afterEach(() => vi.restoreAllMocks());

describe("sessions", () => {
  const ids = async (access: Access, query: Partial<ListSessions> = {}) => (await see(access).sessions.list(page(query))).items.map((session) => session.sessionId);

  it("are listed and found for their owner, and for who may see all", async () => {
    await apply(
      sessionTold(aSession({ sessionId: "o1", userId: "olga" })),
      sessionTold(aSession({ sessionId: "o2", userId: "otto" })),
      sessionTold(aSession({ sessionId: "o3", userId: undefined })),
    );
    expect(await ids(user("olga"))).toEqual(["o1"]);
    // Asking for someone else's adds a condition, and takes none away.
    expect(await ids(user("olga"), { userId: "otto" })).toEqual([]);
    expect(await ids(ALL, { userId: "otto" })).toEqual(["o2"]);
    expect(await ids(ALL)).toEqual(expect.arrayContaining(["o1", "o2", "o3"]));

    expect(await see(user("olga")).sessions.find("o1")).toMatchObject({ userId: "olga" });
    expect(await see(user("olga")).sessions.find("o2")).toBeUndefined();
    expect(await see(user("olga")).sessions.find("o3")).toBeUndefined();
    expect(await see(ALL).sessions.find("o3")).toMatchObject({ sessionId: "o3" });
  });

  it("C119 are ordered by instant and then by id, whatever the direction, and paged without a gap", async () => {
    const times = [5_000, 1_000, 9_000, 5_000, 5_000, 2_000];
    const names = ["b", "a", "f", "e", "d", "c"];
    await apply(...times.map((createdAt, i) => sessionTold(aSession({ sessionId: `p${i}`, userId: "paula", name: names[i], createdAt, updatedAt: 10_000 - createdAt }))));

    const newestFirst = ["p2", "p4", "p3", "p0", "p5", "p1"];
    expect(await ids(user("paula"))).toEqual(newestFirst);
    expect(await ids(user("paula"), { sortOrder: "asc" })).toEqual(newestFirst.toReversed());
    expect(await ids(user("paula"), { sortBy: "updated_at" })).toEqual(["p1", "p5", "p4", "p3", "p0", "p2"]);
    expect(await ids(user("paula"), { sortBy: "session_name", sortOrder: "asc" })).toEqual(["p1", "p0", "p5", "p4", "p3", "p2"]);

    const paged = [...(await ids(user("paula"), { limit: 4 })), ...(await ids(user("paula"), { limit: 4, page: 2 }))];
    expect(paged).toEqual(newestFirst);
    expect(await see(user("paula")).sessions.list(page({ limit: 4, page: 2 }))).toMatchObject({ page: 2, limit: 4, total: 6 });
    expect(await see(user("paula")).sessions.list(page({ page: 7 }))).toMatchObject({ items: [], total: 6 });
  });

  it("are filtered by component and by a part of the name, taken literally", async () => {
    await apply(
      sessionTold(aSession({ sessionId: "f1", userId: "fred", component: { kind: "agent", id: "a1" }, name: "100% sure" })),
      sessionTold(aSession({ sessionId: "f2", userId: "fred", component: { kind: "agent", id: "a2" }, firstInput: "Are you SURE?" })),
      sessionTold(aSession({ sessionId: "f3", userId: "fred", component: undefined, name: "1000 ways" })),
    );
    const fred = user("fred");
    expect(await ids(fred, { type: "agent" })).toEqual(["f2", "f1"]);
    expect(await ids(fred, { type: "team" })).toEqual([]);
    expect(await ids(fred, { componentId: "a2" })).toEqual(["f2"]);
    expect(await ids(fred, { name: "sure" })).toEqual(["f2", "f1"]);
    expect(await ids(fred, { name: "100%" })).toEqual(["f1"]);
    expect(await ids(fred, { name: "_" })).toEqual([]);
    expect(await ids(fred, { name: "" })).toHaveLength(3);
  });

  it("that can not be read are left out of lists and logged by id; read alone they are named", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    await apply(sessionTold(aSession({ sessionId: "u1", userId: "ugo" })), sessionTold(aSession({ sessionId: "u2", userId: "ugo" })), sessionTold(aSession({ sessionId: "u3", userId: "ugo" })));
    await env.DB.prepare("UPDATE sessions SET document = 'not json' WHERE session_id = 'u1'").run();
    await env.DB.prepare("UPDATE sessions SET document = json_set(document, '$.state', 'newer') WHERE session_id = 'u2'").run();

    expect(await ids(user("ugo"))).toEqual(["u3"]);
    expect(log.mock.calls.flat().join("\n")).toContain("u1");
    expect(log.mock.calls.flat().join("\n")).toContain("state");
    await expect(see(user("ugo")).sessions.find("u2")).rejects.toMatchObject({ code: "record_unreadable", details: { session_id: "u2" } });
    await expect(restoreSession(bindings, "u2")).rejects.toMatchObject({ code: "record_unreadable" });
  });

  it("C117 list of 1,000 sessions of 20 runs reads a page of rows and counts in the index, and no run", { timeout: 120_000 }, async () => {
    const long = "x".repeat(20_000);
    for (let group = 0; group < 50; group++) {
      const entries: Projection[] = [];
      for (let i = 0; i < 20; i++) {
        const sessionId = `many-${group * 20 + i}`;
        entries.push(sessionTold(aSession({ sessionId, userId: "mary", component: { kind: "agent", id: `m${i % 2}` }, createdAt: group * 20 + i })));
        for (let ordinal = 1; ordinal <= 20; ordinal++) {
          entries.push(runTold(finished(aRun({ sessionId, userId: "mary" }), { content: i === 0 && ordinal === 1 ? long : "short" }), ordinal));
        }
      }
      await apply(...entries);
    }

    const lists: [string, Access, Partial<ListSessions>, number][] = [
      ["the owner's", user("mary"), {}, 1_000],
      ["the owner's of a component", user("mary"), { type: "agent", componentId: "m1" }, 500],
      ["everyone's", ALL, { userId: "mary" }, 1_000],
      ["a component's", ALL, { componentId: "m1", type: "agent" }, 500],
    ];
    for (const [name, access, query, total] of lists) {
      const { db, cost } = metered(env.DB);
      const listed = await makeRepositories({ DB: db }, access).sessions.list(page(query));
      expect(listed, name).toMatchObject({ total });
      expect(listed.items, name).toHaveLength(20);
      // The count walks index entries of the filter; the page reads its own rows and those that the filter passes over.
      expect(cost.read, name).toBeLessThanOrEqual(1_000 + 2 * 20);
    }

    // None of it touches the runs' table, nor, to count, the sessions' rows.
    const plan = async (sql: string) => (await env.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>()).results.map((row) => row.detail).join("; ");
    expect(await plan("SELECT count(*) FROM sessions WHERE user_id = 'mary'")).toContain("COVERING INDEX");
    expect(await plan("SELECT count(*) FROM sessions WHERE user_id = 'mary' AND component_kind = 'agent' AND component_id = 'm1'")).toContain("COVERING INDEX");
    expect(await plan("SELECT document FROM sessions WHERE user_id = 'mary' ORDER BY created_at DESC, session_id DESC LIMIT 20")).not.toContain("TEMP B-TREE");
    expect(await plan("SELECT document FROM sessions ORDER BY updated_at DESC, session_id DESC LIMIT 20")).not.toContain("TEMP B-TREE");
  });
});

describe("runs", () => {
  it("are their session's: seen by whoever may see that", async () => {
    const session = aSession({ userId: undefined, version: 1 });
    const run = finished(aRun({ sessionId: session.sessionId, userId: undefined }));
    await apply(sessionTold(session), runTold(run, 1, 1, EVENTS));
    expect(await see(user("rita")).runs.find(run.runId)).toBeUndefined();
    expect(await see(user("rita")).runs.sessionOf(run.runId)).toBeUndefined();
    expect(await see(ALL).runs.sessionOf(run.runId)).toEqual({ sessionId: session.sessionId, userId: undefined });

    await apply(sessionTold({ ...session, userId: "rita", version: 2 }));
    expect(await see(user("rita")).runs.find(run.runId)).toEqual({ sessionId: session.sessionId, ordinal: 1, record: run, events: EVENTS });
    expect(await see(user("rita")).runs.sessionOf(run.runId)).toEqual({ sessionId: session.sessionId, userId: "rita" });
    expect(await see(user("rita")).runs.ofSession(session.sessionId)).toHaveLength(1);
    for (const other of [user("rosa"), user("")]) {
      expect(await see(other).runs.find(run.runId)).toBeUndefined();
      expect(await see(other).runs.sessionOf(run.runId)).toBeUndefined();
      expect(await see(other).runs.ofSession(session.sessionId)).toEqual([]);
    }
    expect(await see(ALL).runs.find("nothing")).toBeUndefined();
  });

  it("of a session come in the order they were accepted, finished ones only; a restore has them all", async () => {
    const session = aSession();
    const told = Array.from({ length: 45 }, (_, i) => {
      const run = aRun({ sessionId: session.sessionId, createdAt: 45 - i });
      return runTold(i === 44 ? run : finished(run), i + 1, 1, i === 44 ? undefined : EVENTS);
    });
    await apply(sessionTold(session), ...told.toReversed());

    const listed = await see(user("alice")).runs.ofSession(session.sessionId);
    expect(listed.map((run) => run.ordinal)).toEqual(Array.from({ length: 44 }, (_, i) => i + 1));

    const stored = await restoreSession(bindings, session.sessionId);
    expect(stored).toMatchObject({ session, deletedVersion: undefined });
    const restored = [];
    for await (const run of stored!.runs) restored.push(run);
    expect(restored.map((run) => [run.ordinal, run.record.status])).toEqual(Array.from({ length: 45 }, (_, i) => [i + 1, i === 44 ? "running" : "completed"]));
    expect(await restoreSession(bindings, "never-heard-of")).toBeUndefined();
  });

  it("that can not be read are named, and never fill an object with a hole", async () => {
    const session = aSession();
    const run = finished(aRun({ sessionId: session.sessionId }));
    await apply(sessionTold(session), runTold(run, 1, 1, EVENTS));
    await env.DB.prepare("UPDATE runs SET document = json_set(document, '$.record.status', 'levitating') WHERE run_id = ?").bind(run.runId).run();
    const unreadable = { code: "record_unreadable", details: { run_id: run.runId } };
    await expect(see(ALL).runs.find(run.runId)).rejects.toMatchObject(unreadable);
    await expect(see(ALL).runs.ofSession(session.sessionId)).rejects.toMatchObject(unreadable);
    const stored = await restoreSession(bindings, session.sessionId);
    await expect(stored!.runs[Symbol.asyncIterator]().next()).rejects.toMatchObject(unreadable);
  });
});

describe("migrations", () => {
  it("C120 that are not applied are named", async () => {
    expect(await pendingMigrations(env.DB)).toEqual([]);
    await env.DB.prepare("DELETE FROM d1_migrations WHERE name = ?").bind(MIGRATIONS[0]).run();
    expect(await pendingMigrations(env.DB)).toEqual([MIGRATIONS[0]]);
    await env.DB.prepare("DROP TABLE d1_migrations").run();
    expect(await pendingMigrations(env.DB)).toEqual([...MIGRATIONS]);
  });
});
