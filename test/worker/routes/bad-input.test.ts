import { listDurableObjectIds, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it } from "vitest";
import { call, form, json, start } from "../http.ts";

const TABLES = ["sessions", "runs", "deleted_sessions", "cancel_wishes"];

/** How many rows there are in D1, and tables and rows in every session's object. */
async function everythingStored(): Promise<Record<string, number>> {
  const counts = await env.DB.batch<{ rows: number }>(TABLES.map((table) => env.DB.prepare(`SELECT count(*) AS rows FROM ${table}`)));
  const stored = Object.fromEntries(TABLES.map((table, index) => [table, counts[index]!.results[0]!.rows]));
  let objects = 0;
  for (const id of await listDurableObjectIds(env.SESSIONS)) {
    objects += await runInDurableObject(env.SESSIONS.get(id), (_object, state) =>
      [...state.storage.sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'")].length,
    );
  }
  return { ...stored, objects };
}

let before: Record<string, number>;
beforeEach(async () => {
  before = await everythingStored();
});

/** A refusal: the status, words for people, and nothing left behind. */
async function refused(answer: Response, status: number): Promise<any> {
  const text = await answer.text();
  expect([answer.status, text]).toEqual([status, expect.stringMatching(/^\{"detail":/)]);
  const body = JSON.parse(text);
  expect(Array.isArray(body.detail) ? body.detail.length : body.detail).toBeTruthy();
  expect(await everythingStored()).toEqual(before);
  return body;
}

const post = (body: BodyInit, contentType: string, path = "/agents/echo/runs") => call(path, { method: "POST", body, headers: { "content-type": contentType } });

/** What ids may be that nobody meant well with. */
const STRANGE_IDS = [
  { what: "a slash", id: "a%2Fb" },
  { what: "dots", id: "%2E%2E%2F%2E%2E" },
  { what: "quotes", id: "%22'%60" },
  { what: "SQL", id: "x'%20OR%20'1'%3D'1" },
  { what: "10,000 characters", id: "x".repeat(10_000) },
  { what: "half a surrogate pair", id: "%ED%A0%80" },
  { what: "a NUL", id: "a%00b" },
  { what: "a line break", id: "a%0D%0Ab" },
  { what: "a broken escape", id: "%E0%A4%A" },
  { what: "a percent sign", id: "100%25" },
  { what: "an object's own name", id: "__proto__" },
];

describe("a body that is not one", () => {
  it.each(["text/plain", "application/xml", "application/octet-stream", "multipart/mixed; boundary=x", "image/png"])("of type %s is 415", async (type) => {
    const body = await refused(await post("message=hi", type), 415);
    expect(body).toMatchObject({ error_type: "unsupported_media_type", detail: expect.stringContaining("multipart/form-data") });
  });

  it.each([
    { what: "cut JSON", body: '{"message":', type: "application/json" },
    { what: "a JSON list", body: '["message"]', type: "application/json" },
    { what: "a JSON text", body: '"message"', type: "application/json" },
    { what: "a form without its boundary", body: "--x\r\n", type: "multipart/form-data" },
    { what: "JSON that is no UTF-8", body: new Uint8Array([0x7b, 0x22, 0x6d, 0xff, 0x22, 0x3a, 0x31, 0x7d]), type: "application/json" },
    { what: "a form that is no UTF-8", body: "message=%C3%28", type: "application/x-www-form-urlencoded" },
    { what: "nesting without end", body: "[".repeat(1_000_000), type: "application/json" },
  ])("$what is 400", async ({ body, type }) => {
    expect(await refused(await post(body, type), 400)).toMatchObject({ error_type: "invalid_request" });
  });

  it("of 20 MB is 413, announced or not", async () => {
    const large = `message=${"x".repeat(20_000_000)}`;
    expect(await refused(await post(large, "application/x-www-form-urlencoded"), 413)).toMatchObject({ error_type: "payload_too_large" });
    const chunks = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let chunk = 0; chunk < 20; chunk++) controller.enqueue(new Uint8Array(1_000_000).fill(120));
        controller.close();
      },
    });
    expect(await refused(await post(chunks, "application/x-www-form-urlencoded"), 413)).toMatchObject({ error_type: "payload_too_large" });
  });

  it("whose message is more than a row takes is 413", async () => {
    const body = await refused(await post(`message=${"x".repeat(2_000_000)}`, "application/x-www-form-urlencoded"), 413);
    expect(body.detail).toContain("1000000");
  });
});

describe("fields that are wrong", () => {
  it.each([
    { what: "no message", send: () => call("/agents/echo/runs", form({ stream: "false" })) },
    { what: "an empty message", send: () => start("echo", { message: "" }) },
    { what: "no body", send: () => call("/agents/echo/runs", { method: "POST" }) },
    { what: "a null message", send: () => call("/agents/echo/runs", json({ message: null })) },
  ])("$what is 422 missing", async ({ send }) => {
    expect(await refused(await send(), 422)).toMatchObject({ detail: [{ type: "missing", loc: ["body", "message"], msg: "Field required", input: null }] });
  });

  it.each([
    ["stream", "perhaps"],
    ["background", "2"],
    ["stream_events", "no way"],
    ["version", "newest"],
    ["on_busy", "wait"],
    ["on_disconnect", "-5"],
    ["session_id", "sbx:mine"],
    ["session_id", "a\u0000b"],
    ["session_id", "a\nb"],
    ["session_id", "x".repeat(10_000)],
    ["user_id", "x".repeat(10_000)],
    ["session_state", "[1]"],
    ["dependencies", '"text"'],
    ["num_history_runs", "many"],
    ["run_id", "0198c0de-0000-7000-8000-000000000000"],
    ["output_schema", '{"type":"array"}'],
    ["knowledge_filters", '{"a":1}'],
    ["images", '[{"url":"https://x.test/y.png"}]'],
    ["images", '{"url":"https://x.test/y.png"}'],
    ["input_files", '"a.txt"'],
  ])("%s=%s is 422 and named", async (field, value) => {
    const body = await refused(await start("echo", { message: "hi", [field]: value }), 422);
    expect(body).toMatchObject({ error_type: "unprocessable", detail: [{ loc: ["body", field], msg: expect.any(String) }] });
  });

  it.each([
    { message: "\ud800" },
    { message: "hi", session_id: "\udc00" },
    { message: "hi", user_id: "a\ud83d" },
    { message: "hi", session_state: { key: "\ud800" } },
    { message: "hi", metadata: { "\ud800": 1 } },
    { message: 5 },
    { message: ["hi"] },
    { message: { text: "hi" } },
    { message: "hi", stream: "x" },
    { message: "hi", session_id: 7 },
    { message: "hi", session_state: 7 },
  ])("the JSON %j is 422", async (fields) => {
    await refused(await call("/agents/echo/runs", json(fields)), 422);
  });

  it.each([
    ["metadata", '["not an object"]'],
    ["metadata", "5"],
    ["factory_input", "[]"],
  ])("%s=%s is 400", async (field, value) => {
    expect(await refused(await start("echo", { message: "hi", [field]: value }), 400)).toMatchObject({ detail: `${field} must be a JSON object` });
  });

  it("a file is refused before there is a run", async () => {
    const body = new FormData();
    body.append("message", "look");
    body.append("files", new Blob(["x"], { type: "image/png" }), "x.png");
    const answer = await refused(await call("/agents/echo/runs", { method: "POST", body }), 422);
    expect(answer.detail).toMatchObject([{ loc: ["body", "files"], msg: expect.stringContaining("not supported") }]);
  });

  it("every wrong field is told at once", async () => {
    const { detail } = await refused(await start("echo", { stream: "x", on_busy: "y", session_id: "sbx:z" }), 422);
    expect(detail.map((problem: any) => problem.loc[1]).sort()).toEqual(["message", "on_busy", "session_id", "stream"]);
  });
});

describe("ids that are nobody's", () => {
  it("an unknown agent is 404, whatever is asked of it", async () => {
    const run = crypto.randomUUID();
    for (const [method, path] of [
      ["GET", "/agents/none"],
      ["POST", "/agents/none/runs"],
      ["GET", "/agents/none/runs?session_id=s"],
      ["GET", `/agents/none/runs/${run}?session_id=s`],
      ["POST", `/agents/none/runs/${run}/cancel`],
      ["POST", `/agents/none/runs/${run}/resume`],
      ["GET", `/agents/none/runs/${run}/events`],
    ] as const) {
      expect(await refused(await call(path, { method }), 404), path).toMatchObject({ detail: "Agent not found" });
    }
  });

  it.each(STRANGE_IDS)("$what in an agent's place is 404", async ({ id }) => {
    for (const [method, path] of [["GET", `/agents/${id}`], ["POST", `/agents/${id}/runs`], ["GET", `/agents/${id}/runs?session_id=s`]] as const) await refused(await call(path, { method }), 404);
  });

  it.each(STRANGE_IDS)("$what in a run's place is 404, and cancels nothing", async ({ id }) => {
    await refused(await call(`/agents/echo/runs/${id}?session_id=s`), 404);
    await refused(await call(`/agents/echo/runs/${id}/events`), 404);
    const resumed = await call(`/agents/echo/runs/${id}/resume`, { method: "POST" });
    expect([resumed.status, await resumed.text()]).toEqual([200, expect.stringMatching(/^event: error\n/)]);
    const cancelled = await call(`/agents/echo/runs/${id}/cancel`, { method: "POST" });
    expect([cancelled.status, await cancelled.json()]).toEqual([200, {}]);
    expect(await everythingStored()).toEqual(before);
  });

  it.each(STRANGE_IDS)("$what in a session's place is 404", async ({ id }) => {
    const run = crypto.randomUUID();
    await refused(await call(`/agents/echo/runs?session_id=${id}`), 404);
    await refused(await call(`/agents/echo/runs/${run}?session_id=${id}`), 404);
    await refused(await call(`/agents/echo/runs/${run}/events?session_id=${id}`), 404);
    await refused(await call(`/sessions/${id}`), 404);
    await refused(await call(`/sessions/${id}/runs`), 404);
    await refused(await call(`/sessions/${id}/runs/${run}`), 404);
  });

  it.each(["-2", "x", "1.5", "99999999999999999999"])("last_event_index=%s is 422", async (index) => {
    const body = await refused(await call(`/agents/echo/runs/${crypto.randomUUID()}/resume`, form({ last_event_index: index })), 422);
    expect(body.detail).toMatchObject([{ loc: ["body", "last_event_index"] }]);
  });

  it("a query that lacks its session, or has an empty one, is 422", async () => {
    for (const path of ["/agents/echo/runs", "/agents/echo/runs?session_id=", `/agents/echo/runs/${crypto.randomUUID()}`]) {
      expect(await refused(await call(path), 422), path).toMatchObject({ detail: [{ loc: ["query", "session_id"] }] });
    }
  });
});
