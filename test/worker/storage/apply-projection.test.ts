import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { Access } from "../../../src/domain/principal.ts";
import type { Projection } from "../../../src/domain/projection.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { isRefusal, ProjectionRefused } from "../../../src/storage/refusal.ts";
import { makeRepositories } from "../../../src/storage/repositories/index.ts";
import { restoreSession } from "../../../src/storage/restore-session.ts";
import { anApproval, approvalTold, aRun, aSession, decided, EVENTS, finished, metered, runTold, sessionTold } from "./rows.ts";

const ALL: Access = { rows: "all" };
const alice: Access = { rows: "user", userId: "alice" };
const bob: Access = { rows: "user", userId: "bob" };

const bindings = { DB: env.DB, MEDIA: env.MEDIA };
const see = (access: Access) => makeRepositories(bindings, access);
const apply = (...entries: Projection[]) => applyProjections(env.DB, env.MEDIA, entries);

/** All rows of one session, as they stand. */
async function rowsOf(sessionId: string): Promise<unknown> {
  const results = await env.DB.batch([
    env.DB.prepare("SELECT * FROM sessions WHERE session_id = ?").bind(sessionId),
    env.DB.prepare("SELECT * FROM runs WHERE session_id = ? ORDER BY run_id").bind(sessionId),
    env.DB.prepare("SELECT * FROM deleted_sessions WHERE session_id = ?").bind(sessionId),
    env.DB.prepare("SELECT * FROM approvals WHERE session_id = ? ORDER BY approval_id").bind(sessionId),
  ]);
  return results.map((result) => result.results);
}

/** The same on every run of the suite: a failing order can be had again. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

describe("projections", () => {
  /** A session's life: made, run on, given an owner, paused, deleted, made again, deleted again, made again, run on, paused. */
  function life(sessionId: string): Projection[] {
    const first = aSession({ sessionId, userId: undefined, component: undefined, version: 1 });
    const owned = aSession({ sessionId, version: 2, name: "Named" });
    const between = aRun({ sessionId, userId: "bob" });
    const again = aSession({ sessionId, userId: "bob", component: { kind: "agent", id: "other" }, createdAt: 5_000, version: 9 });
    const before = aRun({ sessionId });
    const lost = aRun({ sessionId });
    const after = aRun({ sessionId, userId: "bob" });
    const [asked, askedBetween, askedAfter, askedAgain] = [before, between, after, after].map(({ runId, userId }) => anApproval({ sessionId, runId, userId }));
    return [
      sessionTold(first),
      runTold(before, 1, 1),
      sessionTold(owned),
      runTold(finished(before), 1, 2, EVENTS),
      approvalTold(asked!, 2),
      sessionTold({ ...owned, version: 3, updatedAt: 2_000 }),
      approvalTold(decided(asked!), 3),
      runTold(lost, 2, 3),
      { kind: "session-deleted", sessionId, version: 5, at: 0 },
      sessionTold({ ...again, createdAt: 3_000, version: 6 }),
      runTold(between, 1, 6),
      approvalTold(askedBetween!, 7),
      { kind: "session-deleted", sessionId, version: 8, at: 0 },
      sessionTold(again),
      runTold(after, 1, 9),
      approvalTold(askedAfter!, 9),
      approvalTold(askedAgain!, 9),
      { kind: "approval-deleted", sessionId, approvalId: askedAgain!.id },
      sessionTold({ ...again, version: 10, updatedAt: 6_000 }),
      approvalTold(decided(askedAfter!, "rejected"), 10),
      runTold(finished(after), 1, 10, EVENTS),
    ];
  }

  it("end in the same rows in whatever order, grouping and number they arrive", { timeout: 240_000 }, async () => {
    const straight = life("straight");
    for (const entry of straight) await apply(entry);
    const expected = JSON.stringify(await rowsOf("straight"));
    expect(JSON.parse(expected)).toMatchObject([[{ user_id: "bob", component_id: "other", version: 10, created_at: 5_000 }], [{ status: "completed", version: 2 }], [{ version: 8 }], [{ status: "rejected", version: 2, session_version: 10 }]]);

    const roll = dice(20_261_129);
    for (let round = 0; round < 60; round++) {
      const sessionId = `shuffled-${round}`;
      const renamed: Projection[] = JSON.parse(JSON.stringify(straight).replaceAll('"straight"', JSON.stringify(sessionId)));
      const deliveries = [...renamed, ...renamed.filter(() => roll(2) === 0)];
      for (let last = deliveries.length - 1; last > 0; last--) {
        const other = roll(last + 1);
        [deliveries[last], deliveries[other]] = [deliveries[other]!, deliveries[last]!];
      }
      // Runs and approvals keep their ids, so the last round's make way.
      await env.DB.batch(["runs", "approvals", "deleted_approvals"].map((table) => env.DB.prepare(`DELETE FROM ${table}`)));
      while (deliveries.length > 0) await apply(...deliveries.splice(0, 1 + roll(4)));
      expect(JSON.stringify(await rowsOf(sessionId)).replaceAll(sessionId, "straight"), `round ${round}`).toBe(expected);
    }
  });

  it("never write under the tombstone of a version up to it, and count on above it", async () => {
    const session = aSession({ version: 4 });
    const run = finished(aRun({ sessionId: session.sessionId }));
    await apply(sessionTold(session), runTold(run, 1, 4, EVENTS));
    await apply({ kind: "session-deleted", sessionId: session.sessionId, version: 5, at: 0 });

    expect(await see(ALL).sessions.find(session.sessionId)).toBeUndefined();
    expect(await see(ALL).runs.find(run.runId)).toBeUndefined();

    await apply(sessionTold({ ...session, version: 5 }), runTold({ ...run, version: 9 }, 1, 5), runTold(aRun({ sessionId: session.sessionId }), 2, 5));
    await apply(approvalTold(anApproval({ sessionId: session.sessionId, version: 9 }), 5));
    expect(await rowsOf(session.sessionId)).toEqual([[], [], [{ session_id: session.sessionId, version: 5 }], []]);
    expect(await restoreSession(bindings, session.sessionId)).toMatchObject({ session: undefined, deletedVersion: 5 });

    await apply(sessionTold({ ...session, version: 6 }));
    expect(await restoreSession(bindings, session.sessionId)).toMatchObject({ session: { version: 6 }, deletedVersion: 5 });
  });

  it("are all written or none", async () => {
    const session = aSession();
    const broken = { ...aRun({ sessionId: session.sessionId }), createdAt: null as unknown as number };
    const failure: unknown = await apply(sessionTold(session), runTold(broken)).then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(isRefusal(failure)).toBe(true);
    expect(await see(ALL).sessions.find(session.sessionId)).toBeUndefined();
  });

  it("of nothing ask D1 nothing", async () => {
    const { db, cost } = metered(env.DB);
    expect(await applyProjections(db, env.MEDIA, [])).toEqual({ cancelWishes: [] });
    expect(cost.statements).toBe(0);
  });

  it("cost at most 16 written rows a turn, index rows counted, and no more on a long session than on a new one", async () => {
    const { db, cost } = metered(env.DB);
    const sessionId = aSession().sessionId;
    const turns: number[] = [];
    for (let turn = 1; turn <= 30; turn++) {
      const before = cost.written;
      const run = aRun({ sessionId });
      const started = aSession({ sessionId, version: 2 * turn - 1, updatedAt: 2 * turn });
      await applyProjections(db, env.MEDIA, [sessionTold(started), runTold(run, turn, started.version)]);
      const ended = { ...started, version: 2 * turn, updatedAt: 2 * turn + 1 };
      await applyProjections(db, env.MEDIA, [sessionTold(ended), runTold(finished(run), turn, ended.version, EVENTS)]);
      turns.push(cost.written - before);
    }
    expect(turns[0]).toBe(13);
    expect(new Set(turns.slice(1))).toEqual(new Set([9]));

    // A turn that gives the session its first owner writes the indices that hold one anew.
    const before = cost.written;
    const run = aRun({ sessionId });
    const started = aSession({ sessionId, userId: "carol", version: 61, updatedAt: 61 });
    await applyProjections(db, env.MEDIA, [sessionTold(started), runTold(run, 31, 61)]);
    await applyProjections(db, env.MEDIA, [sessionTold({ ...started, version: 62, updatedAt: 62 }), runTold(finished(run), 31, 62, EVENTS)]);
    expect(cost.written - before).toBeLessThanOrEqual(16);
  });
});

describe("archives", () => {
  const long = (megabytes: number) => "€".repeat(Math.ceil((megabytes * 1_000_000) / 3));
  const archived = async () => (await env.MEDIA.list()).objects.map((object) => object.key).sort();

  it("take a run that is too long for a row, and give it back", async () => {
    const session = aSession({ sessionId: "a/b ü" });
    const run = finished(aRun({ sessionId: session.sessionId }), { content: long(2.5) });
    await apply(sessionTold(session), runTold(run, 1, 1, EVENTS));

    const key = `sessions/a%2Fb%20%C3%BC/runs/${run.runId}/2.json`;
    expect(await archived()).toContain(key);
    expect(await env.DB.prepare("SELECT archive_key, document FROM runs WHERE run_id = ?").bind(run.runId).first()).toEqual({ archive_key: key, document: null });
    expect(await see(alice).runs.find(run.runId)).toEqual({ sessionId: session.sessionId, ordinal: 1, record: run, events: EVENTS });
    expect(await see(alice).runs.ofSession(session.sessionId)).toEqual([{ ordinal: 1, record: run, events: EVENTS }]);

    // The one that went before it arrives late.
    await apply(runTold({ ...run, version: 1 }, 1, 1, EVENTS));
    expect((await archived()).filter((other) => other.includes(run.runId))).toEqual([key]);
    // Delivered once more.
    await apply(runTold(run, 1, 1, EVENTS));
    expect(await see(alice).runs.find(run.runId)).toMatchObject({ record: { content: run.content } });

    // What remains of the id's next life is not touched by a delete that comes again.
    const deleted: Projection = { kind: "session-deleted", sessionId: session.sessionId, version: 2, at: 0 };
    const next = finished(aRun({ sessionId: session.sessionId }), { content: run.content });
    await apply(deleted);
    await apply(sessionTold({ ...session, version: 3 }), runTold(next, 1, 3, EVENTS));
    await apply(deleted, runTold(run, 1, 1, EVENTS));
    expect((await archived()).filter((other) => other.startsWith("sessions/a%2Fb"))).toEqual([`sessions/a%2Fb%20%C3%BC/runs/${next.runId}/2.json`]);
    expect(await see(alice).runs.find(next.runId)).toMatchObject({ record: { content: run.content } });
  });

  it("are not needed up to what a row takes; above it a run without a bucket is refused", async () => {
    const session = aSession();
    const inRow = finished(aRun({ sessionId: session.sessionId }), { content: long(1.5) });
    await applyProjections(env.DB, undefined, [sessionTold(session), runTold(inRow, 1, 1, EVENTS)]);
    expect(await makeRepositories({ DB: env.DB }, alice).runs.find(inRow.runId)).toMatchObject({ record: { content: inRow.content } });

    const tooLong = finished(aRun({ sessionId: session.sessionId }), { content: long(1.95) });
    const failure: unknown = await applyProjections(env.DB, undefined, [sessionTold(session), runTold(tooLong, 2, 1)]).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ProjectionRefused);
    expect(isRefusal(failure)).toBe(true);

    const stuffed = aSession({ state: { text: long(2) } });
    await expect(apply(sessionTold(stuffed))).rejects.toBeInstanceOf(ProjectionRefused);
  });

  it("a run whose archive is gone is unreadable, not half a run", async () => {
    const session = aSession();
    const run = finished(aRun({ sessionId: session.sessionId }), { content: long(1.2) });
    await apply(sessionTold(session), runTold(run, 1, 1, EVENTS));
    await env.MEDIA.delete(`sessions/${session.sessionId}/runs/${run.runId}/2.json`);
    await expect(see(alice).runs.find(run.runId)).rejects.toMatchObject({ code: "record_unreadable" });
  });
});

describe("cancel wishes", () => {
  it("are told with the first projection of their run to whoever may see it", async () => {
    const session = aSession();
    const [mine, theirs, anyones, unwished] = [1, 2, 3, 4].map(() => aRun({ sessionId: session.sessionId }));
    await see(alice).cancelWishes.keep(mine!.runId);
    await see(bob).cancelWishes.keep(theirs!.runId);
    await see(ALL).cancelWishes.keep(anyones!.runId);

    const told = await apply(sessionTold(session), runTold(mine!, 1), runTold(theirs!, 2), runTold(anyones!, 3), runTold(unwished!, 4));
    expect(told.cancelWishes.sort()).toEqual([mine!.runId, anyones!.runId].sort());

    // Delivered again before the object could act: told again. Terminal: nothing is left to wish.
    expect(await apply(runTold(mine!, 1))).toEqual({ cancelWishes: [mine!.runId] });
    expect(await apply(runTold(finished(mine!), 1))).toEqual({ cancelWishes: [] });
  });

  it("of one asker are not covered by another's, and a user can not pass for everyone", async () => {
    const session = aSession();
    const run = aRun({ sessionId: session.sessionId });
    await see({ rows: "user", userId: "all" }).cancelWishes.keep(run.runId);
    expect(await apply(sessionTold(session), runTold(run))).toEqual({ cancelWishes: [] });
    await see(alice).cancelWishes.keep(run.runId);
    await see(bob).cancelWishes.keep(run.runId);
    expect(await apply(runTold(run))).toEqual({ cancelWishes: [run.runId] });
  });

  it("are kept for a day", async () => {
    const session = aSession();
    const run = aRun({ sessionId: session.sessionId });
    await see(alice).cancelWishes.keep(run.runId);
    const later = Date.now() + 25 * 60 * 60 * 1000;
    expect(await applyProjections(env.DB, env.MEDIA, [sessionTold(session), runTold(run)], later)).toEqual({ cancelWishes: [] });

    await env.DB.prepare("UPDATE cancel_wishes SET expires_at = 1 WHERE run_id = ?").bind(run.runId).run();
    await see(bob).cancelWishes.keep("another");
    expect(await env.DB.prepare("SELECT count(*) AS kept FROM cancel_wishes WHERE run_id = ?").bind(run.runId).first()).toEqual({ kept: 0 });
  });
});
