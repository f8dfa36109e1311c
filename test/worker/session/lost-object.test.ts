import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { sessionClient } from "../../../src/session/client.ts";
import type { PlatformEnv } from "../../../src/env.ts";
import { wordsModel } from "./agents.ts";
import { ask, crash, fireAlarm, inObject, newSessionId, request, start } from "./harness.ts";

/** The object's storage is gone, and its memory with it. */
async function lose(sessionId: string): Promise<void> {
  await inObject(sessionId, async (state) => {
    await state.storage.deleteAlarm();
    await state.storage.deleteAll();
  });
  await crash();
}

const tablesOf = (sessionId: string) =>
  inObject(sessionId, (state) => state.storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray().map(({ name }) => name));
const countIn = (table: string, sessionId: string) => env.DB.prepare(`SELECT count(*) AS n FROM ${table} WHERE session_id = ?`).bind(sessionId).first<number>("n");
const send = (method: string, path: string, body: object) => request(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
const object = (sessionId: string) => sessionClient((env as unknown as PlatformEnv).SESSIONS, sessionId);

afterEach(() => vi.restoreAllMocks());

describe("an object that lost its storage", () => {
  it("S7 takes a change, with all that D1 knows of the session", async () => {
    const session = newSessionId();
    const first = await ask(session, "remember the milk", { session_state: '{"plan":"pro"}' });
    await lose(session);

    const patched = await send("PATCH", `/sessions/${session}`, { metadata: { found: true } });
    expect([patched.status, await patched.json()]).toMatchObject([200, { metadata: { found: true }, session_state: { plan: "pro" }, chat_history: [{ content: "remember the milk" }, {}] }]);
    expect(JSON.parse((await env.DB.prepare("SELECT document FROM sessions WHERE session_id = ?").bind(session).first<string>("document"))!)).toMatchObject({ metadata: { found: true } });

    await lose(session);
    const renamed = await send("POST", `/sessions/${session}/rename`, { session_name: "Found" });
    expect([renamed.status, await renamed.json()]).toMatchObject([200, { session_name: "Found", metadata: { found: true } }]);

    await ask(session, "what?");
    expect(wordsModel.requests.at(-1)!.messages.map(({ content }) => content)).toEqual(expect.arrayContaining(["remember the milk", "what?"]));
    const runs = (await (await request(`/sessions/${session}/runs`)).json()) as { run_id: string }[];
    expect(runs).toHaveLength(2);
    expect(runs[0]).toMatchObject({ run_id: first.run_id, content: first.content });
  });

  it("is deleted with its rows, and the id's next life begins above it", async () => {
    const session = newSessionId();
    await ask(session, "hello");
    await ask(session, "hello again");
    // The session's row has fallen behind its runs, as where D1 refused it.
    await env.DB.prepare("UPDATE sessions SET version = 1, document = json_set(document, '$.version', 1) WHERE session_id = ?").bind(session).run();
    await lose(session);
    expect((await request(`/sessions/${session}`, { method: "DELETE" })).status).toBe(204);
    expect([await countIn("sessions", session), await countIn("runs", session), await countIn("deleted_sessions", session)]).toEqual([0, 0, 1]);
    expect((await request(`/sessions/${session}`)).status).toBe(404);
    // D1 has it, so the object keeps nothing.
    expect(await tablesOf(session)).toEqual([]);

    expect((await ask(session, "second life")).status).toBe("COMPLETED");
    expect(await countIn("runs", session)).toBe(1);
    expect(wordsModel.requests.at(-1)!.messages.map(({ content }) => content)).toEqual(["second life"]);
  });

  it("is nobody else's to change or to delete", async () => {
    const session = newSessionId();
    const access = { rows: "user", userId: "alice" } as const;
    await object(session).createSession({ sessionId: session, sessionIsNew: true, access, userId: "alice", name: "Mine" });
    await lose(session);
    const mallory = { rows: "user", userId: "mallory" } as const;
    await expect(object(session).patchSession({ access: mallory, name: "Yours" })).rejects.toMatchObject({ code: "not_found" });
    await lose(session);
    await object(session).deleteSession({ access: mallory });
    expect(await env.DB.prepare("SELECT title FROM sessions WHERE session_id = ?").bind(session).first("title")).toBe("Mine");
    expect(await object(session).readSession({ access })).toMatchObject({ name: "Mine", userId: "alice" });
    expect(await object(session).patchSession({ access, name: "Still mine" })).toMatchObject({ name: "Still mine" });
  });

  it("is read as D1 knows it, and reading makes no tables", async () => {
    const session = newSessionId();
    const { run_id: run } = await ask(session, "hello");
    await lose(session);
    for (const path of [`/sessions/${session}`, `/sessions/${session}/runs`, `/sessions/${session}/runs/${run}`, `/agents/words/runs/${run}?session_id=${session}`, `/agents/words/runs?session_id=${session}`]) {
      expect((await request(path)).status, path).toBe(200);
    }
    await expect(object(session).readSession({ access: { rows: "all" } })).rejects.toMatchObject({ code: "not_found", details: { empty: true } });
    await expect(object(session).readRuns({ access: { rows: "all" } })).rejects.toMatchObject({ code: "not_found", details: { empty: true } });
    expect(await tablesOf(session)).toEqual([]);
  });

  it("changes nothing while D1 can not be asked what it lost", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const session = newSessionId();
    await ask(session, "hello");
    await lose(session);
    await env.DB.exec("ALTER TABLE sessions RENAME TO sessions_away");
    const asked = [
      () => send("PATCH", `/sessions/${session}`, { session_name: "Now" }),
      () => send("POST", `/sessions/${session}/rename`, { session_name: "Now" }),
      () => request(`/sessions/${session}`, { method: "DELETE" }),
      () => start(session, "again"),
    ];
    for (const ask of asked) {
      const answer = await ask();
      expect([answer.status, await answer.json()]).toMatchObject([503, { error_type: "unavailable" }]);
    }
    expect(await tablesOf(session)).toEqual([]);
    await env.DB.exec("ALTER TABLE sessions_away RENAME TO sessions");
    expect((await send("PATCH", `/sessions/${session}`, { session_name: "Now" })).status).toBe(200);
  });

  it("fills once for all who ask at the same time, and nobody brings back what another deleted", async () => {
    const session = newSessionId();
    await ask(session, "hello");
    await lose(session);
    const statuses = await Promise.all([
      ...Array.from({ length: 5 }, (_, index) => send("PATCH", `/sessions/${session}`, { session_name: `Name ${index}` }).then(({ status }) => status)),
      request(`/sessions/${session}`, { method: "DELETE" }).then(({ status }) => status),
      ...Array.from({ length: 5 }, (_, index) => send("PATCH", `/sessions/${session}`, { session_name: `Late ${index}` }).then(({ status }) => status)),
    ]);
    expect(statuses.filter((status) => status === 204)).toHaveLength(1);
    expect(statuses.every((status) => [200, 204, 404].includes(status))).toBe(true);
    expect((await request(`/sessions/${session}`)).status).toBe(404);
    expect([await countIn("sessions", session), await countIn("runs", session)]).toEqual([0, 0]);
  });
});

describe("an object that never held anything", () => {
  it("has nothing to change or to delete, and stays as it is", async () => {
    const session = newSessionId();
    expect((await send("PATCH", `/sessions/${session}`, { session_name: "Nothing" })).status).toBe(404);
    expect((await request(`/sessions/${session}`, { method: "DELETE" })).status).toBe(204);
    expect(await tablesOf(session)).toEqual([]);
    expect(await countIn("deleted_sessions", session)).toBe(0);
  });
});

describe("an object whose alarm was given up", () => {
  it("has it armed again by whatever reaches it", async () => {
    const session = newSessionId();
    await ask(session, "a b c");
    await inObject(session, async (state) => {
      state.storage.sql.exec("UPDATE runs SET ended_at = 1");
      state.storage.sql.exec("UPDATE timers SET at = 1 WHERE name = 'retention'");
      await state.storage.deleteAlarm();
    });
    await crash();
    await request(`/sessions/${session}`);
    const compacted = () => inObject(session, (state) => state.storage.sql.exec("SELECT compacted FROM runs").one().compacted);
    await vi.waitFor(async () => expect(await compacted()).toBe(1), { timeout: 5_000, interval: 20 });
  });

  it("is looked after from the commit of a change on: D1 hears of it whatever becomes of the instance", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const session = newSessionId();
    await ask(session, "hello");
    await inObject(session, async (state) => {
      state.storage.sql.exec("DELETE FROM timers");
      await state.storage.deleteAlarm();
    });
    await crash();
    await env.DB.exec("ALTER TABLE sessions RENAME TO sessions_away");
    expect((await send("PATCH", `/sessions/${session}`, { session_name: "Told later" })).status).toBe(200);
    await crash();
    await env.DB.exec("ALTER TABLE sessions_away RENAME TO sessions");
    // Nobody comes to the session: its alarm does.
    const alarm = await inObject(session, (state) => state.storage.getAlarm());
    expect(alarm).toBeLessThanOrEqual(Date.now() + 30_000);
    await fireAlarm(session);
    expect(await env.DB.prepare("SELECT title FROM sessions WHERE session_id = ?").bind(session).first("title")).toBe("Told later");
  });
});
