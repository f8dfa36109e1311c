import { createExecutionContext, createScheduledController, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { sweep } from "../../../src/background/cron.ts";
import { isTerminal, type Run } from "../../../src/domain/run.ts";
import type { PlatformEnv } from "../../../src/env.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { releaseGate } from "../../../src/models/scripted.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { VERSION } from "../../../src/version.ts";
import { os } from "../entry.ts";
import { callWith } from "../http.ts";
import { ask, background, crash, expectValidLog, fireAlarm, getRun, inObject, newSessionId, readLog, request, rowsIn, untilStatus } from "../session/harness.ts";
import { aRun, aSession, runTold, sessionTold } from "../storage/rows.ts";

const platform = env as unknown as PlatformEnv;

/** One minute's tick, as the platform gives it. */
async function tick(bindings: object = env): Promise<void> {
  const context = createExecutionContext();
  await os.scheduled(createScheduledController(), bindings);
  await waitOnExecutionContext(context);
}

const rowOf = (runId: string) => env.DB.prepare("SELECT status, version, updated_at FROM runs WHERE run_id = ?").bind(runId).first<{ status: string; version: number; updated_at: number }>();
const untilTold = (runId: string, status: string) => vi.waitFor(async () => expect(await rowOf(runId)).toMatchObject({ status }), { timeout: 5_000, interval: 10 });

/** Makes D1 one that has not heard of a run for an hour. */
const forget = (runId: string) => env.DB.prepare("UPDATE runs SET updated_at = ? WHERE run_id = ?").bind(Date.now() - 3_600_000, runId).run();

/** What six failures in a row leave of an object: it will not wake by itself. */
async function loseAlarm(sessionId: string): Promise<void> {
  await inObject(sessionId, async (state) => {
    state.storage.sql.exec("DELETE FROM timers");
    await state.storage.deleteAlarm();
  });
}

afterEach(() => vi.restoreAllMocks());

describe("the minute's sweep", () => {
  it("S364 takes up a turn whose object was given up, and D1 hears of its end", async () => {
    const session = newSessionId();
    const run = await background(session, "one /gate:swept two");
    await untilTold(run, "running");
    await loseAlarm(session);
    await crash();
    await forget(run);
    releaseGate("swept");

    await tick();
    // Nothing but the sweep has touched the object.
    await untilTold(run, "completed");
    const log = await readLog(session, run);
    expectValidLog(log);
    expect(log.filter(({ event }) => event === "RunRetry")).toMatchObject([{ attempt: 2, reason: "crash" }]);
  });

  it("S364 only hears anew of a turn that is alive", async () => {
    const session = newSessionId();
    const run = await background(session, "one /gate:alive two");
    const waiting = await background(session, "three", { on_busy: "enqueue" });
    for (const [runId, status] of [[run, "running"], [waiting, "pending"]] as const) {
      await untilTold(runId, status);
      await forget(runId);
    }
    const before = Date.now();
    await tick();
    for (const [runId, status] of [[run, "running"], [waiting, "pending"]] as const) {
      const row = await rowOf(runId);
      expect(row).toMatchObject({ status });
      expect(row!.updated_at).toBeGreaterThanOrEqual(before);
    }
    releaseGate("alive");
    await untilStatus(session, waiting, "COMPLETED");
    await untilTold(run, "completed");
    const log = await readLog(session, run);
    expectValidLog(log);
    expect(log.map(({ event }) => event)).not.toContain("RunRetry");
  });

  it("leaves alone what D1 has heard of", async () => {
    const session = newSessionId();
    const run = await background(session, "one /gate:heard two");
    await untilTold(run, "running");
    const before = await rowOf(run);
    await tick();
    expect(await rowOf(run)).toEqual(before);
    releaseGate("heard");
    await untilStatus(session, run, "COMPLETED");
  });

  it("tells D1 of an end that it missed, and arms the alarm anew", async () => {
    const session = newSessionId();
    const { run_id: run } = await ask(session, "hello");
    const before = await rowOf(run);
    await env.DB.prepare("UPDATE runs SET status = 'running', version = version - 1 WHERE run_id = ?").bind(run).run();
    await forget(run);
    await inObject(session, (state) => state.storage.deleteAlarm());
    await tick();
    expect(await rowOf(run)).toEqual(before);
    expect(await inObject(session, (state) => state.storage.getAlarm())).not.toBeNull();
  });

  it("S7 tells D1 that a run is lost whose object holds nothing, so that it is not asked for ever", async () => {
    const session = aSession({ userId: undefined });
    const lost = aRun({ sessionId: session.sessionId, userId: undefined, updatedAt: 1 });
    await applyProjections(env.DB, env.MEDIA, [sessionTold(session), runTold(lost)]);
    await tick();
    expect(await rowOf(lost.runId)).toMatchObject({ status: "failed" });
    expect((await (await request(`/sessions/${session.sessionId}/runs`)).json()) as object[]).toMatchObject([{ run_id: lost.runId, status: "ERROR" }]);
  });

  it("makes no database for a session that D1 does not know either", async () => {
    const orphan = aRun({ updatedAt: 1 });
    await applyProjections(env.DB, env.MEDIA, [runTold(orphan)]);
    await tick();
    expect(await inObject(orphan.sessionId, (state) => state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray())).toEqual([]);
    await env.DB.prepare("DELETE FROM runs WHERE run_id = ?").bind(orphan.runId).run();
  });

  it("goes on with the others where one can not be poked", async () => {
    const errors = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const sessions = Array.from({ length: 12 }, newSessionId);
    const runs: string[] = [];
    for (const session of sessions) runs.push(await background(session, "one /gate:others two"));
    for (const run of runs) await untilTold(run, "running");
    const [broken] = sessions;
    await inObject(broken!, (state) => void state.storage.sql.exec("UPDATE meta SET value = '99' WHERE key = 'schema'"));
    await crash();
    // The broken one is the one that was unheard of for longest.
    for (const run of runs.toReversed()) await env.DB.prepare("UPDATE runs SET updated_at = ? WHERE run_id = ?").bind(Date.now() - 3_600_000 - runs.length + runs.indexOf(run), run).run();
    for (const _ of sessions) releaseGate("others");
    await tick();
    for (const run of runs.slice(1)) await untilTold(run, "completed");
    expect(await rowOf(runs[0]!)).toMatchObject({ status: "running" });
    const lines = errors.mock.calls.map((line) => JSON.parse(String(line[0])));
    expect(lines).toContainEqual({ level: "error", error: "poke_failed", session_id: broken, message: expect.stringContaining("newer release") });
    await env.DB.prepare("DELETE FROM runs WHERE run_id = ?").bind(runs[0]).run();
  });

  it("drops the cancel wishes whose day is over", async () => {
    const keep = (runId: string, expiresAt: number) => env.DB.prepare("INSERT INTO cancel_wishes (run_id, wisher, expires_at) VALUES (?, 'all', ?)").bind(runId, expiresAt).run();
    await keep("over", Date.now() - 1);
    await keep("open", Date.now() + 60_000);
    await tick();
    expect((await env.DB.prepare("SELECT run_id FROM cancel_wishes").all()).results).toEqual([{ run_id: "open" }]);
  });

  it("fails as a tick when D1 can not be asked, and has nothing to do where bindings are missing", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const lost = () => Promise.reject(new Error("D1_ERROR: Network connection lost."));
    const statement: object = { bind: () => statement, all: lost, raw: lost, run: lost, first: lost };
    await expect(tick({ ...env, DB: { prepare: () => statement, batch: lost } })).rejects.toMatchObject({ code: "unavailable" });
    await tick({ ...env, SESSIONS: undefined });
  });
});

describe("what D1 refused", () => {
  /** D1 will not take a run's end. A trigger says so in the words of any constraint. */
  const refuse = (runId: string) =>
    env.DB.exec(`CREATE TRIGGER refuses_${runId.replaceAll("-", "_")} BEFORE UPDATE ON runs WHEN NEW.run_id = '${runId}' AND NEW.status = 'completed' BEGIN SELECT RAISE(ABORT, 'This run can not be held.'); END`);
  const relent = (runId: string) => env.DB.exec(`DROP TRIGGER refuses_${runId.replaceAll("-", "_")}`);
  const entryOf = async (sessionId: string, runId: string) => (await rowsIn(sessionId, "outbox")).find(({ entity }) => entity === `run:${runId}`);
  const parkedIn = async (sessionId: string) => ((await (await request("/projections/parked?limit=100")).json()) as any).data.filter((row: any) => row.session_id === sessionId);

  it("P9 is tried five times, then listed, while the session goes on; the next release delivers it", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const session = newSessionId();
    const run = await background(session, "one /gate:refused two");
    await untilTold(run, "running");
    await refuse(run);
    releaseGate("refused");
    // Its end is told all the same: the session's own rows are the truth.
    await untilStatus(session, run, "COMPLETED");
    await vi.waitFor(async () => expect(await entryOf(session, run)).toMatchObject({ tries: 1 }), { timeout: 5_000, interval: 10 });
    for (let tries = 2; tries <= 5; tries += 1) {
      expect(await parkedIn(session)).toEqual([]);
      await fireAlarm(session);
    }
    const [listed] = await vi.waitFor(async () => {
      const rows = await parkedIn(session);
      expect(rows).toHaveLength(1);
      return rows;
    });
    expect(listed).toEqual({ session_id: session, entity: `run:${run}`, reason: expect.stringContaining("This run can not be held."), release: VERSION, parked_at: expect.stringMatching(/Z$/) });
    expect(await (await request("/health")).json()).toMatchObject({ status: "ok", parked_projections: 1 });

    // The others go on, and the sweep does not ask after what is parked.
    const next = await ask(session, "and now?");
    expect(await rowOf(next.run_id)).toMatchObject({ status: "completed" });
    await forget(run);
    await tick();
    expect(await rowOf(run)).toMatchObject({ status: "running" });
    await crash();
    await getRun(session, run);
    expect(await entryOf(session, run)).toMatchObject({ tries: 5 });

    // A release that can not hold it either leaves it listed, under its own name.
    const sweepAs = async (release: string) => {
      await inObject(session, (state) => void state.storage.sql.exec("UPDATE outbox SET release = 'before'"));
      await env.DB.prepare("UPDATE parked_projections SET release = 'before'").run();
      await crash();
      await sweep(platform, systemClock, release);
    };
    await sweepAs(VERSION);
    expect(await entryOf(session, run)).toMatchObject({ tries: 1, parked: expect.any(String) });
    for (let tries = 2; tries <= 5; tries += 1) await fireAlarm(session);
    await vi.waitFor(async () => expect(await parkedIn(session)).toMatchObject([{ release: VERSION }]));

    // One that can has it delivered, without anyone who comes for the session.
    await relent(run);
    await sweepAs(VERSION);
    await untilTold(run, "completed");
    await vi.waitFor(async () => expect(await parkedIn(session)).toEqual([]));
    expect(await (await request("/health")).json()).toEqual({ status: "ok", instantiated_at: expect.any(String) });
    await fireAlarm(session);
    expect(await rowsIn(session, "outbox")).toEqual([]);
  });

  it("makes nothing unavailable where D1 does not say how much of it there is", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const lost = () => Promise.reject(new Error("D1_ERROR: Network connection lost."));
    const statement: object = { bind: () => statement, all: lost, raw: lost, run: lost, first: lost };
    const DB = { prepare: (sql: string) => (sql.includes("d1_migrations") ? env.DB.prepare(sql) : statement) };
    const answer = await callWith({ DB }, "/health");
    expect([answer.status, await answer.json()]).toMatchObject([200, { status: "ok", parked_projections: null }]);
  });

  it("a list that shows what has arrived is put right by the sweep of the next release", async () => {
    const session = newSessionId();
    const { run_id: run } = await ask(session, "hello");
    await applyProjections(env.DB, env.MEDIA, [{ kind: "parked", sessionId: session, sessionVersion: 1, entity: `run:${run}`, reason: "Late.", release: VERSION, at: 1 }]);
    await tick();
    expect(await parkedIn(session)).toHaveLength(1);
    // The same package, deployed anew, is another release.
    await tick({ ...env, CF_VERSION_METADATA: { id: "next", tag: "", timestamp: "" } });
    expect(await parkedIn(session)).toEqual([]);
    expect(isTerminal((await rowOf(run))!.status as Run["status"])).toBe(true);
  });

  it("a session whose row is too long answers at once, is listed, and leaves the list when it is shorter, or is deleted", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const [shortened, deleted] = [newSessionId(), newSessionId()];
    const patch = (session: string, body: object) => request(`/sessions/${session}`, { method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    const long = "x".repeat(990_000);
    for (const session of [shortened, deleted]) {
      await ask(session, "hello");
      expect((await patch(session, { session_state: { long } })).status).toBe(200);
      const before = Date.now();
      expect((await patch(session, { metadata: { long } })).status).toBe(200);
      expect(Date.now() - before).toBeLessThan(900);
      for (let tries = 2; tries <= 5; tries += 1) await fireAlarm(session);
      await vi.waitFor(async () => expect(await parkedIn(session)).toMatchObject([{ entity: "session", reason: expect.stringContaining("too long") }]));
    }
    expect((await patch(shortened, { session_state: {}, session_name: "Short" })).status).toBe(200);
    expect(await env.DB.prepare("SELECT title FROM sessions WHERE session_id = ?").bind(shortened).first("title")).toBe("Short");
    await vi.waitFor(async () => expect(await parkedIn(shortened)).toEqual([]));

    expect((await request(`/sessions/${deleted}`, { method: "DELETE" })).status).toBe(204);
    expect(await parkedIn(deleted)).toEqual([]);
    expect(await inObject(deleted, (state) => state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray())).toEqual([]);
  });
});
