import { abortAllDurableObjects, createExecutionContext, evictAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { AppError } from "../../../src/domain/errors.ts";
import { newId } from "../../../src/domain/ids.ts";
import type { Access } from "../../../src/domain/principal.ts";
import { releaseGate } from "../../../src/models/scripted.ts";
import { makeOperationContext } from "../../../src/operations/context.ts";
import { createSession } from "../../../src/operations/create-session.ts";
import { deleteSessions } from "../../../src/operations/delete-sessions.ts";
import { patchSession } from "../../../src/operations/patch-session.ts";
import { readSession, readSessionRun, readSessionRuns } from "../../../src/operations/read-session.ts";
import { startRun } from "../../../src/operations/start-run.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { echo } from "../agents.ts";
import { os } from "../entry.ts";
import { aRun, aSession, EVENTS, finished, runTold, sessionTold } from "../storage/rows.ts";

/** Answers are read as whatever the test says they are: what is not there fails it. */
type Answer = any;

/** Calls the Worker under test, with other bindings where a test needs them. */
async function ask(method: string, path: string, body?: unknown, { headers = {}, bindings = env }: { headers?: Record<string, string>; bindings?: object } = {}) {
  const request = new Request(`http://signalbox.test${path}`, {
    method,
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const response = await os.fetch(request, bindings, createExecutionContext());
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: (text === "" ? undefined : JSON.parse(text)) as Answer };
}

/** Starts a run on an agent and answers as the route does. */
async function run(agent: string, fields: Record<string, string>) {
  const response = await os.fetch(
    new Request(`http://signalbox.test/agents/${agent}/runs`, { method: "POST", body: new URLSearchParams({ stream: "false", ...fields }) }),
    env,
    createExecutionContext(),
  );
  return { status: response.status, body: (await response.json()) as Answer };
}

async function eventually<T>(look: () => Promise<T>, isRight: (seen: T) => boolean, withinMs = 5_000): Promise<T> {
  const until = Date.now() + withinMs;
  while (true) {
    const seen = await look();
    if (isRight(seen)) return seen;
    if (Date.now() > until) throw new Error(`Not within ${withinMs} ms: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const ISO_Z = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;

afterEach(() => vi.restoreAllMocks());

describe("sessions", () => {
  it("S194 are listed for who may, and for nobody without a token", async () => {
    const guarded = { ...env, SIGNALBOX_AUTH: undefined, OS_SECURITY_KEY: "operator-key" };
    expect(await ask("GET", "/sessions", undefined, { bindings: guarded })).toMatchObject({ status: 401 });
    expect(await ask("GET", "/sessions", undefined, { bindings: guarded, headers: { authorization: "Bearer wrong" } })).toMatchObject({ status: 401 });
    expect(await ask("GET", "/sessions", undefined, { bindings: guarded, headers: { authorization: "Bearer operator-key" } })).toMatchObject({ status: 200 });
  });

  it("are made with a minted or a chosen id, once", async () => {
    const minted = await ask("POST", "/sessions");
    expect(minted).toMatchObject({ status: 201, body: { session_name: "", session_state: {}, agent_id: null, chat_history: [], total_tokens: null } });
    expect(minted.headers.get("location")).toBe(`/sessions/${minted.body.session_id}`);

    const fields = { session_id: "a talk/1 ü", session_name: "Named", session_state: { step: 1 }, metadata: { tag: "x" }, user_id: "ann", agent_id: "echo" };
    const made = await ask("POST", "/sessions?type=agent&db_id=signalbox-db", fields);
    expect(made.status).toBe(201);
    expect(made.body).toMatchObject({ ...fields, agent_session_id: fields.session_id, agent_data: { agent_id: "echo", name: "Echo" }, session_summary: null });

    const again = await ask("POST", "/sessions", { session_id: fields.session_id, session_name: "Other" });
    expect(again).toMatchObject({ status: 409, body: { error_type: "session_exists", detail: expect.stringContaining("PATCH") } });
    const read = await ask("GET", `/sessions/${encodeURIComponent(fields.session_id)}`);
    expect(read).toMatchObject({ status: 200, body: { session_name: "Named", user_id: "ann", session_state: { step: 1 } } });
    expect(read.body).not.toHaveProperty("session_summary");
  });

  it("S116 S261 S263 connect a user's runs, messages and state", async () => {
    const sessionId = newId();
    await run("echo", { session_id: sessionId, message: "First", user_id: "ann", session_state: '{"mood":"calm"}' });
    await run("echo", { session_id: sessionId, message: "Second", user_id: "ann" });

    const session = await ask("GET", `/sessions/${sessionId}?type=agent`);
    expect(session.body).toMatchObject({
      session_id: sessionId,
      agent_session_id: sessionId,
      session_name: "First",
      user_id: "ann",
      agent_id: "echo",
      session_state: { mood: "calm" },
      metrics: { total_tokens: expect.any(Number) },
      created_at: expect.stringMatching(ISO_Z),
      updated_at: expect.stringMatching(ISO_Z),
    });
    expect(session.body.total_tokens).toBe(session.body.metrics.total_tokens);
    expect(session.body.chat_history.map((message: Answer) => [message.role, message.content])).toEqual([
      ["user", "First"],
      ["assistant", "You said: First"],
      ["user", "Second"],
      ["assistant", "You said: Second"],
    ]);

    const runs = await ask("GET", `/sessions/${sessionId}/runs?type=agent`);
    expect(runs.body).toMatchObject([
      { agent_id: "echo", user_id: "ann", status: "COMPLETED", run_input: "First", content: "You said: First", parent_run_id: "", created_at: expect.stringMatching(ISO_Z) },
      { run_input: "Second", content: "You said: Second" },
    ]);
    for (const one of runs.body) {
      expect(Object.values(one)).not.toContain(null);
      expect((await ask("GET", `/sessions/${sessionId}/runs/${one.run_id}`)).body).toEqual(one);
    }

    const [row] = (await ask("GET", `/sessions?session_name=first&component_id=echo&user_id=ann`)).body.data;
    expect(row).toMatchObject({ session_id: sessionId, session_name: "First", session_type: "agent", agent_id: "echo", total_tokens: session.body.total_tokens });
    expect(Object.values(row)).not.toContain(null);
    expect(row).not.toHaveProperty("chat_history");
  });

  it("S117 are the same after the object was put away and after it was reset", async () => {
    const sessionId = newId();
    await run("echo", { session_id: sessionId, message: "Remember me" });
    const before = [await ask("GET", `/sessions/${sessionId}`), await ask("GET", `/sessions/${sessionId}/runs`)].map(({ body }) => body);
    const now = async () => [await ask("GET", `/sessions/${sessionId}`), await ask("GET", `/sessions/${sessionId}/runs`)].map(({ body }) => body);

    await evictAllDurableObjects();
    expect(await now()).toEqual(before);
    await abortAllDurableObjects();
    expect(await now()).toEqual(before);

    await run("echo", { session_id: sessionId, message: "And again" });
    const asked = (echo.model as unknown as { requests: { messages: { content: string }[] }[] }).requests.at(-1);
    expect(asked?.messages.map((message) => message.content)).toEqual(expect.arrayContaining(["Remember me", "You said: Remember me", "And again"]));
  });

  it("S264 hold each run once, in the order they were accepted", async () => {
    const sessionId = newId();
    const accepted: string[] = [];
    for (const message of ["1", "2", "3"]) {
      accepted.push((await run("echo", { session_id: sessionId, message })).body.run_id);
      const listed = await ask("GET", `/sessions/${sessionId}/runs`);
      expect(listed.body.map((one: Answer) => one.run_id)).toEqual(accepted);
      expect((await ask("GET", `/sessions?user_id=`)).body.data.filter((row: Answer) => row.session_id === sessionId)).toHaveLength(1);
    }
  });

  it.each([
    ["made beforehand", true],
    ["made by the run", false],
  ])("C019 %s show their first run while it runs", async (_how, isMadeBefore) => {
    const sessionId = newId();
    const gate = `C019-${sessionId}`;
    if (isMadeBefore) await ask("POST", "/sessions", { session_id: sessionId, agent_id: "held" });
    const started = await run("held", { session_id: sessionId, message: gate, background: "true" });
    expect(started.status).toBe(202);

    const statusNow = async () => (await ask("GET", `/sessions/${sessionId}/runs`)).body.map((one: Answer) => [one.run_id, one.status]);
    expect(await eventually(statusNow, (seen) => seen[0]?.[1] === "RUNNING", 1_000)).toEqual([[started.body.run_id, "RUNNING"]]);
    expect(await ask("GET", `/sessions/${sessionId}/runs/${started.body.run_id}`)).toMatchObject({ status: 200, body: { status: "RUNNING" } });
    expect((await ask("GET", `/sessions?component_id=held`)).body.data.map((row: Answer) => row.session_id)).toContain(sessionId);

    releaseGate(gate);
    await eventually(statusNow, (seen) => seen[0]?.[1] === "COMPLETED");
  });

  it("C119 take no time from clients, tell it alike on every route, and filter by whole seconds alone", async () => {
    const sessionId = newId();
    await ask("POST", "/sessions", { session_id: sessionId, created_at: 4_000_000_000, updated_at: "2099-01-01T00:00:00+14:00" });
    const first = await run("echo", { session_id: sessionId, message: "One" });
    await run("echo", { session_id: sessionId, message: "Two" });

    const { body: session } = await ask("GET", `/sessions/${sessionId}`);
    const { body: runs } = await ask("GET", `/sessions/${sessionId}/runs`);
    const { body: list } = await ask("GET", "/sessions");
    for (const time of [session.created_at, session.updated_at, ...runs.map((one: Answer) => one.created_at), ...list.data.flatMap((row: Answer) => [row.created_at, row.updated_at])]) {
      expect(time).toMatch(ISO_Z);
      expect(Date.parse(time)).toBeLessThanOrEqual(Date.now());
    }
    const created = list.data.map((row: Answer) => Date.parse(row.created_at));
    expect(created).toEqual(created.toSorted((a: number, b: number) => b - a));

    const second = first.body.created_at;
    const within = async (query: string) => (await ask("GET", `/sessions/${sessionId}/runs?${query}`)).body.length;
    expect(await within(`created_after=${second}`)).toBe(2);
    expect(await within(`created_after=${second}&created_before=${second + 60}`)).toBe(2);
    expect(await within(`created_before=${second - 1}`)).toBe(0);
    expect(await within(`created_after=${second * 1000}`)).toBe(0);
    for (const wrong of ["2026-01-01", "2026-01-01T00:00:00%2B14:00", "1.5", "1e9", "now"]) {
      expect(await ask("GET", `/sessions/${sessionId}/runs?created_after=${wrong}`), wrong).toMatchObject({ status: 422 });
    }
  });

  it("are changed by what is given, and answer with all they are", async () => {
    const sessionId = newId();
    await ask("POST", "/sessions", { session_id: sessionId, session_name: "Old", session_state: { a: 1, b: { c: 2 } }, metadata: { kept: true } });
    await run("echo", { session_id: sessionId, message: "Hello" });

    const patched = await ask("PATCH", `/sessions/${sessionId}`, { session_state: { b: {} }, session_name: null, summary: { text: "Short." } });
    expect(patched.status).toBe(200);
    expect(patched.body).toMatchObject({ session_name: "Old", session_state: { b: {} }, metadata: { kept: true }, session_summary: { text: "Short." }, user_id: null });
    expect(patched.body.session_state).toEqual({ b: {} });
    expect(patched.body.chat_history).toHaveLength(2);
    expect((await ask("PATCH", `/sessions/${sessionId}`, {})).body).toEqual(patched.body);

    const renamed = await ask("POST", `/sessions/${sessionId}/rename`, { session_name: "Néw" });
    expect(renamed).toMatchObject({ status: 200, body: { session_name: "Néw", metadata: { kept: true }, agent_id: "echo" } });
    expect((await ask("GET", `/sessions?session_name=N%C3%A9w`)).body.data).toMatchObject([{ session_id: sessionId }]);
    // The run goes on with what was patched in.
    expect((await run("echo", { session_id: sessionId, message: "Next" })).body).toMatchObject({ session_state: { b: {} } });
  });

  it("are deleted once and for all, one or many; deleting again is harmless", async () => {
    const ids = await Promise.all(Array.from({ length: 12 }, async () => (await ask("POST", "/sessions", {})).body.session_id as string));
    const [alone, otherType, ...many] = ids as [string, string, ...string[]];
    expect(await ask("DELETE", `/sessions/${alone}?db_id=signalbox-db`)).toMatchObject({ status: 204, text: "" });
    expect(await ask("DELETE", `/sessions/${alone}`)).toMatchObject({ status: 204 });
    expect(await ask("GET", `/sessions/${alone}`)).toMatchObject({ status: 404 });

    const types = (count: number, type: string) => Array.from({ length: count }, () => type);
    expect(await ask("DELETE", "/sessions", { session_ids: many, session_types: types(1, "agent") })).toMatchObject({ status: 400 });
    expect(await ask("DELETE", "/sessions", { session_ids: [...many, otherType, newId()], session_types: [...types(many.length, "agent"), "team", "agent"] })).toMatchObject({ status: 204 });
    const left = (await ask("GET", "/sessions?limit=1000")).body.data.map((row: Answer) => row.session_id);
    expect(left).toContain(otherType);
    for (const id of [alone, ...many]) expect(left).not.toContain(id);

    // The id begins anew, without its old runs.
    await ask("POST", "/sessions", { session_id: alone, session_name: "New life" });
    expect((await ask("GET", `/sessions/${alone}/runs`)).body).toEqual([]);
    expect((await ask("GET", "/sessions?session_name=New life")).body.data).toMatchObject([{ session_id: alone }]);
  });

  it("that are not there are 404 in the words of each route", async () => {
    const id = newId();
    const there = (await ask("POST", "/sessions", {})).body.session_id;
    const details: [string, string, unknown, string][] = [
      ["GET", `/sessions/${id}`, undefined, `Session with id '${id}' not found`],
      ["GET", `/sessions/${id}?type=team`, undefined, `Team Session with id '${id}' not found`],
      ["GET", `/sessions/${there}?type=workflow`, undefined, `Workflow Session with id '${there}' not found`],
      ["GET", `/sessions/${there}?user_id=else`, undefined, `Session with id '${there}' not found`],
      ["PATCH", `/sessions/${id}`, { session_name: "x" }, `Session with id '${id}' not found`],
      ["POST", `/sessions/${id}/rename`, { session_name: "x" }, `Session with id '${id}' not found`],
      ["GET", `/sessions/${id}/runs`, undefined, `Session with ID ${id} not found`],
      ["GET", `/sessions/${id}/runs/${id}`, undefined, `Run with ID ${id} not found`],
      ["GET", `/sessions/${there}/runs/${id}`, undefined, `Run with ID ${id} not found`],
      ["GET", `/sessions/${there}/runs/no-uuid`, undefined, "Run with ID no-uuid not found"],
      ["GET", "/sessions?db_id=else", undefined, "No database found with id 'else'"],
      ["GET", "/sessions?db_id=signalbox-db&table=else", undefined, "No table 'else' found in the database 'signalbox-db'"],
    ];
    for (const [method, path, body, detail] of details) {
      expect(await ask(method, path, body), `${method} ${path}`).toMatchObject({ status: 404, body: { detail } });
    }
    expect((await ask("GET", `/sessions/${there}/runs`)).body).toEqual([]);
    expect((await ask("GET", "/sessions?type=team&db_id=signalbox-db&table=sessions")).body).toMatchObject({ data: [], meta: { total_count: 0, total_pages: 0 } });
  });

  it("answer bad requests with a 4xx that says where, and keep nothing of them", async () => {
    const before = (await ask("GET", "/sessions?limit=1")).body.meta.total_count;
    const id = (await ask("POST", "/sessions", {})).body.session_id;
    const bad: [string, string, unknown, number, Record<string, string>?][] = [
      ["GET", "/sessions?type=robot", undefined, 422],
      ["GET", "/sessions?limit=0", undefined, 422],
      ["GET", "/sessions?limit=100000", undefined, 422],
      ["GET", "/sessions?page=-1", undefined, 422],
      ["GET", "/sessions?page=99999999999999999999", undefined, 422],
      ["GET", "/sessions?sort_by=document", undefined, 422],
      ["GET", "/sessions?sort_order=up", undefined, 422],
      ["GET", "/sessions?limit=1&limit=2", undefined, 422],
      ["GET", "/sessions?table=sessions", undefined, 400],
      ["POST", "/sessions", "{", 400],
      ["POST", "/sessions", "[]", 422],
      ["POST", "/sessions", "null", 422],
      ["POST", "/sessions", "{}", 415, { "content-type": "text/plain" }],
      ["POST", "/sessions", "session_id=x", 415, { "content-type": "application/x-www-form-urlencoded" }],
      ["POST", "/sessions", { session_id: "sbx:mine" }, 422],
      ["POST", "/sessions", { session_id: "line\nbreak" }, 422],
      ["POST", "/sessions", '{"session_name":"\\ud800"}', 422],
      ["POST", "/sessions", '{"session_state":{"\\ud800":1}}', 422],
      ["POST", "/sessions", { session_id: "é".repeat(128) }, 422],
      ["POST", "/sessions", { session_id: 5 }, 422],
      ["POST", "/sessions", { session_state: [1] }, 422],
      ["POST", "/sessions", `{"session_state":{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}}`, 422],
      ["POST", "/sessions", { session_state: { a: "x".repeat(1_000_001) } }, 413],
      ["POST", "/sessions", { team_id: "t" }, 400],
      ["POST", "/sessions?type=workflow", {}, 400],
      ["PATCH", `/sessions/${id}`, { session_name: 5 }, 422],
      ["PATCH", `/sessions/${id}`, { metadata: "x" }, 422],
      ["POST", `/sessions/${id}/rename`, {}, 422],
      ["POST", `/sessions/${id}/rename`, { session_name: null }, 422],
      ["DELETE", "/sessions", undefined, 422],
      ["DELETE", "/sessions", { session_ids: ["a"], session_types: ["robot"] }, 422],
      ["DELETE", "/sessions", { session_ids: Array(1_001).fill("a"), session_types: Array(1_001).fill("agent") }, 422],
      ["DELETE", `/sessions/${id}?delete_media=true`, undefined, 503],
      ["DELETE", "/sessions?delete_media=perhaps", { session_ids: [], session_types: [] }, 422],
      ["GET", `/sessions/${id}/media/a/b.png`, undefined, 503],
      ["PUT", `/sessions/${id}`, {}, 405],
    ];
    for (const [method, path, body, status, headers] of bad) {
      const answer = await ask(method, path, body, { headers });
      const asked = `${method} ${path} ${JSON.stringify(body)?.slice(0, 60)}`;
      expect(answer.status, asked).toBe(status);
      expect(answer.body.detail, asked).toBeTruthy();
    }
    expect((await ask("GET", "/sessions?type=robot")).body.detail).toMatchObject([{ loc: ["query", "type"], input: "robot" }]);
    expect((await ask("GET", "/sessions?limit=1")).body.meta.total_count).toBe(before + 1);
  });

  it("are paged", async () => {
    for (const name of ["p1", "p2", "p3"]) await ask("POST", "/sessions", { session_name: `paged ${name}`, user_id: "pager" });
    const names = async (query: string) => {
      const { body } = await ask("GET", `/sessions?user_id=pager&${query}`);
      return [body.data.map((row: Answer) => row.session_name), body.meta];
    };
    const meta = { limit: 2, total_pages: 2, total_count: 3, search_time_ms: 0 };
    expect(await names("limit=2&sort_by=session_name&sort_order=asc")).toEqual([["paged p1", "paged p2"], { page: 1, ...meta }]);
    expect(await names("limit=2&page=0&sort_by=session_name&sort_order=asc")).toEqual([["paged p1", "paged p2"], { page: 1, ...meta }]);
    expect(await names("limit=2&page=2&sort_by=session_name&sort_order=asc")).toEqual([["paged p3"], { page: 2, ...meta }]);
    expect(await names("limit=2&page=9")).toEqual([[], { page: 9, ...meta }]);
  });

  it("whose object holds nothing are read as D1 was told of them", async () => {
    const session = aSession({ name: "Told", userId: undefined });
    const done = finished(aRun({ sessionId: session.sessionId, userId: undefined }));
    const elsewhere = finished(aRun());
    await applyProjections(env.DB, env.MEDIA, [sessionTold(session), runTold(done, 1, 1, EVENTS), runTold(elsewhere)]);
    const { sessionId } = session;
    expect(await ask("GET", `/sessions/${sessionId}`)).toMatchObject({ status: 200, body: { session_name: "Told", chat_history: [{ content: "Hello" }, { content: "Hi" }] } });
    expect((await ask("GET", `/sessions/${sessionId}/runs`)).body).toMatchObject([{ run_id: done.runId, status: "COMPLETED" }]);
    expect((await ask("GET", `/sessions/${sessionId}/runs/${done.runId}`)).body).toMatchObject({ content: "Hi" });
    expect(await ask("GET", `/sessions/${sessionId}/runs/${elsewhere.runId}`)).toMatchObject({ status: 404 });
    expect(await ask("GET", `/sessions/${sessionId}?user_id=else`)).toMatchObject({ status: 404 });

    vi.spyOn(console, "error").mockImplementation(() => undefined);
    await env.DB.prepare("UPDATE sessions SET document = '{}' WHERE session_id = ?").bind(sessionId).run();
    expect(await ask("GET", `/sessions/${sessionId}`)).toMatchObject({ status: 503, body: { error_type: "record_unreadable", session_id: sessionId } });
    const list = await ask("GET", "/sessions?limit=1000");
    expect(list.status).toBe(200);
    expect(list.body.data.map((row: Answer) => row.session_id)).not.toContain(sessionId);
  });

  it("are listed with a 503 while D1 is away, and read all the same", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { session_id: id } = (await ask("POST", "/sessions", { session_name: "Here" })).body;
    const lost = () => Promise.reject(new Error("D1_ERROR: Network connection lost."));
    const statement = { bind: () => statement, all: lost, raw: lost, run: lost, first: lost };
    const bindings = { ...env, DB: { prepare: () => statement, batch: lost } };
    expect(await ask("GET", "/sessions", undefined, { bindings })).toMatchObject({ status: 503, body: { error_type: "unavailable" } });
    expect(await ask("GET", `/sessions/${id}`, undefined, { bindings })).toMatchObject({ status: 200, body: { session_name: "Here" } });
  });
});

describe("a user's sessions", () => {
  const as = (userId: string) => {
    const access: Access = { rows: "user", userId };
    return { access, context: makeOperationContext({ principal: { kind: "user", subject: userId, scopes: [] }, access, env: env as never, registry: os.registry, requestId: "test" }) };
  };
  const refusal = (asked: Promise<unknown>) =>
    asked.then(
      () => undefined,
      (error: unknown) => (error instanceof AppError ? [error.code, error.message] : error),
    );

  it("do not exist for others: not to read, not to write, not to delete", async () => {
    const alice = as("alice");
    const mallory = as("mallory");
    const { sessionId } = await createSession(alice.context, { name: "Mine", userId: "somebody else" });
    const answer = await startRun(alice.context, {
      component: echo,
      sessionId,
      input: { message: "Secret" },
      stream: false,
      background: false,
      contentOnly: false,
      onBusy: "reject",
      onDisconnect: "keep",
    });
    const { runId } = (answer as Extract<typeof answer, { kind: "finished" }>).reading.record;
    expect((await readSession(alice.context, { sessionId, access: alice.access })).session).toMatchObject({ userId: "alice", name: "Mine" });

    const query = { sessionId, access: mallory.access };
    const missing = ["not_found", `Session with id '${sessionId}' not found`];
    expect(await refusal(readSession(mallory.context, query))).toEqual(missing);
    expect(await refusal(readSessionRuns(mallory.context, query))).toEqual(missing);
    expect(await refusal(readSessionRun(mallory.context, { ...query, runId }))).toEqual(["not_found", `Run with ID ${runId} not found`]);
    expect(await refusal(patchSession(mallory.context, query, { name: "Yours" }))).toEqual(missing);
    expect(await refusal(patchSession(mallory.context, query, {}))).toEqual(missing);
    await deleteSessions(mallory.context, [sessionId], mallory.access);
    expect(await mallory.context.repositories.sessions.find(sessionId)).toBeUndefined();

    // The one way to learn that an id is taken is to ask for it, and it says no more.
    const taken = await refusal(createSession(mallory.context, { sessionId }));
    expect(taken).toMatchObject(["session_exists", expect.not.stringContaining("PATCH")]);
    expect((await readSession(alice.context, { sessionId, access: alice.access })).session).toMatchObject({ name: "Mine" });

    await deleteSessions(alice.context, [sessionId], alice.access);
    expect(await refusal(readSession(alice.context, { sessionId, access: alice.access }))).toEqual(missing);
  });
});

describe("databases", () => {
  it("S201 C120 say whether they are migrated, to who may ask", async () => {
    const guarded = { ...env, SIGNALBOX_AUTH: undefined, OS_SECURITY_KEY: "operator-key" };
    expect(await ask("POST", "/databases/all/migrate", undefined, { bindings: guarded })).toMatchObject({ status: 401 });
    expect(await ask("POST", "/databases/signalbox-db/migrate?target_version=9", { target_version: "9" })).toMatchObject({ status: 200, body: { db_id: "signalbox-db" } });
    expect(await ask("POST", "/databases/all/migrate")).toMatchObject({ status: 200 });
    expect(await ask("POST", "/databases/else/migrate")).toMatchObject({ status: 404, body: { detail: "No database found with id 'else'" } });

    const [last] = (await env.DB.prepare("SELECT name FROM d1_migrations ORDER BY id DESC LIMIT 1").all<{ name: string }>()).results;
    await env.DB.prepare("DELETE FROM d1_migrations WHERE name = ?").bind(last!.name).run();
    expect(await ask("POST", "/databases/signalbox-db/migrate")).toMatchObject({ status: 409, body: { detail: expect.stringContaining(last!.name), pending: [last!.name] } });
    await env.DB.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(last!.name).run();
  });
});
