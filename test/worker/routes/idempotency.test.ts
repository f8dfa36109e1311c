import { evictAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { gateReached, releaseGate } from "../../../src/testing.ts";
import { call, callWith, form, framesOf, json, start } from "../http.ts";
import { fromSteps, madeBy } from "../pausing-agents.ts";
import { ask, continuePath, echo as answersOf, read, start as startClerk } from "./pauses.ts";

/** Starts a run with a key. */
async function keyed(key: string, fields: Record<string, string>, agent = "echo") {
  const response = await call(`/agents/${agent}/runs`, { ...form({ stream: "false", ...fields }), headers: { "idempotency-key": key } });
  return { status: response.status, replayed: response.headers.get("idempotency-replayed"), body: await response.json<Record<string, any>>() };
}

const background = { background: "true" };
const runsOf = async (sessionId: string) => (await (await call(`/sessions/${sessionId}/runs`)).json<{ run_id: string }[]>()).map((run) => run.run_id);
const keysLike = async (key: string) => (await env.DB.prepare("SELECT * FROM idempotency_keys WHERE key = ?1").bind(key).all<Record<string, unknown>>()).results;

const ended = (run: Record<string, any>, agent = "echo") =>
  vi.waitFor(async () => {
    const response = await call(`/agents/${agent}/runs/${run.run_id}?session_id=${run.session_id}`);
    expect(await response.json()).toMatchObject({ status: "COMPLETED" });
  });

describe("a key that comes again with the same request", () => {
  it("C046 many at once, after the end and after an eviction: one run; after its day another", async () => {
    const asked = { message: "C046", session_id: "c046", ...background };
    const answers = await Promise.all(Array.from({ length: 20 }, () => keyed("C046", asked)));
    const [first] = answers;
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.run_id} ${body.session_id}`))).toEqual(new Set([`202 ${first!.body.run_id} c046`]));
    expect(answers.filter(({ replayed }) => replayed === null)).toHaveLength(1);
    await ended(first!.body);

    const later = [await keyed("C046", asked), await keyed("C046", asked)];
    await evictAllDurableObjects();
    later.push(await keyed("C046", asked));
    for (const answer of later) expect(answer).toEqual({ status: 202, replayed: "true", body: { run_id: first!.body.run_id, session_id: "c046", status: "COMPLETED" } });
    expect(await runsOf("c046")).toEqual([first!.body.run_id]);

    await env.DB.prepare("UPDATE idempotency_keys SET created_at = created_at - 86400000 WHERE key = 'C046'").run();
    const fresh = await keyed("C046", asked);
    expect(fresh).toMatchObject({ status: 202, replayed: null });
    expect(fresh.body.run_id).not.toBe(first!.body.run_id);
  });

  it("finds its session too, where the first request had one made", async () => {
    const first = await keyed("new-session", { message: "hi" });
    expect(first).toMatchObject({ status: 200, replayed: null, body: { status: "COMPLETED" } });
    expect(await keyed("new-session", { message: "hi" })).toEqual({ ...first, replayed: "true" });
    expect(await runsOf(first.body.session_id)).toEqual([first.body.run_id]);
  });

  it("learns its run although the session is busy with it, and is the same run in the line", async () => {
    const holding = { message: "keyed-busy", session_id: "keyed-busy", ...background };
    const first = await keyed("busy", holding, "held");
    await gateReached("keyed-busy");
    expect(await keyed("busy", holding, "held")).toEqual({ status: 202, replayed: "true", body: { ...first.body, status: "RUNNING" } });
    const waiting = { message: "keyed-next", session_id: "keyed-busy", on_busy: "enqueue", ...background };
    const second = await keyed("next", waiting, "held");
    expect((await keyed("next", waiting, "held")).body).toEqual({ ...second.body, status: "PENDING" });
    releaseGate("keyed-busy");
    await gateReached("keyed-next");
    releaseGate("keyed-next");
    await ended(second.body, "held");
    expect(await runsOf("keyed-busy")).toEqual([first.body.run_id, second.body.run_id]);
  });

  it("S235 a stream attaches to a run that is streamed, and is refused by one that is not", async () => {
    const asked = { message: "S235", session_id: "s235" };
    const streamed = await call("/agents/echo/runs", { ...form(asked), headers: { "idempotency-key": "S235 streamed" } });
    const whole = await framesOf(streamed);
    const again = await call("/agents/echo/runs", { ...form(asked), headers: { "idempotency-key": "S235 streamed" } });
    expect(again.headers.get("idempotency-replayed")).toBe("true");
    expect(await framesOf(again)).toEqual(whole);
    expect((await keyed("S235 streamed", asked)).body.run_id).toBe(whole[0]!.data.run_id);

    const plain = await keyed("S235 plain", asked);
    expect(await keyed("S235 plain", { ...asked, stream: "true" })).toMatchObject({ status: 409, body: { error_type: "conflict", run_id: plain.body.run_id } });
    // The refusal leaves the key with its run.
    expect((await keyed("S235 plain", asked)).body.run_id).toBe(plain.body.run_id);
  });

  it("goes on where a crash left the key without its run", async () => {
    const asked = { message: "crashed", session_id: "key-alone" };
    const first = await keyed("alone", asked);
    const [row] = await keysLike("alone");
    await call("/sessions/key-alone", { method: "DELETE" });
    // As if the first request had died behind the key's row: it names a run that nobody has.
    await env.DB.prepare("UPDATE idempotency_keys SET run_id = ?1 WHERE key = 'alone'").bind(row!.run_id).run();
    expect(await keyed("alone", asked)).toMatchObject({ status: 200, replayed: "true", body: { run_id: first.body.run_id, status: "COMPLETED" } });
  });

  it("is told that its run is gone when its session was deleted, and starts none", async () => {
    const asked = { message: "gone", session_id: "key-gone" };
    await keyed("gone", asked);
    expect((await call("/sessions/key-gone", { method: "DELETE" })).status).toBe(204);
    expect(await keyed("gone", asked)).toMatchObject({ status: 409, body: { error_type: "conflict" } });
    expect((await call("/sessions/key-gone")).status).toBe(404);
  });
});

describe("a key that comes with something else", () => {
  it("C047 other fields are 422 and start nothing; their order and encoding do not matter", async () => {
    const asked = { message: "C047 a", session_id: "c047" };
    const first = await keyed("C047", asked);
    for (const other of [{ ...asked, message: "C047 b" }, { ...asked, session_id: "c047-b" }, { ...asked, session_state: '{"a":1}' }]) {
      expect(await keyed("C047", other)).toMatchObject({ status: 422, body: { error_type: "idempotency_mismatch" } });
    }
    const reordered = await keyed("C047", { session_id: "c047", message: "C047 a" });
    const asJson = await (await call("/agents/echo/runs", { ...json({ stream: false, message: "C047 a", session_id: "c047" }), headers: { "content-type": "application/json", "idempotency-key": "C047" } })).json<Record<string, any>>();
    const multipart = new FormData();
    for (const [name, value] of Object.entries({ session_id: "c047", stream: "false", message: "C047 a" })) multipart.set(name, value);
    const asMultipart = await (await call("/agents/echo/runs", { method: "POST", body: multipart, headers: { "idempotency-key": "C047" } })).json<Record<string, any>>();
    expect([reordered.body, asJson, asMultipart].map((run) => run.run_id)).toEqual(Array(3).fill(first.body.run_id));
    expect(await runsOf("c047")).toEqual([first.body.run_id]);
    expect((await call("/sessions/c047-b")).status).toBe(404);
    expect(JSON.stringify(await keysLike("C047"))).not.toContain("C047 a");
  });

  it("C047 S233 another agent and another user have keys of their own", async () => {
    const asked = { message: "mine" };
    const answers = [await keyed("shared", { ...asked, user_id: "ada" }), await keyed("shared", { ...asked, user_id: "bob" }), await keyed("shared", asked), await keyed("shared", asked, "forecaster")];
    expect(new Set(answers.map(({ body }) => body.run_id)).size).toBe(4);
    expect(answers.map(({ replayed }) => replayed)).toEqual(Array(4).fill(null));
  });

  it("S233 a key has up to 512 printable characters; an empty one is none", async () => {
    const long = "k".repeat(512);
    const first = await keyed(long, { message: "long" });
    expect((await keyed(long, { message: "long" })).body.run_id).toBe(first.body.run_id);
    for (const key of ["k".repeat(513), "k".repeat(10_000), "a\tb"]) expect(await keyed(key, { message: "bad" })).toMatchObject({ status: 422, body: { detail: [{ loc: ["header", "idempotency-key"] }] } });
    expect((await keyed("", { message: "none" })).body.run_id).not.toBe((await keyed("", { message: "none" })).body.run_id);
  });
});

describe("a key whose request is refused", () => {
  it("is free again: the request may be mended and sent once more", async () => {
    await start("held", { message: "key-line", session_id: "key-line", stream: "false", background: "true" });
    await gateReached("key-line");
    const refused = await Promise.all(Array.from({ length: 4 }, () => keyed("refused", { message: "hi", session_id: "key-line" })));
    for (const answer of refused) expect(answer).toMatchObject({ status: 409, body: { error_type: "session_busy" } });
    expect(await keysLike("refused")).toEqual([]);
    expect(await keyed("refused", { message: "hi", session_id: "key-elsewhere" })).toMatchObject({ status: 200, replayed: null });
    releaseGate("key-line");
  });

  it("is 503 without D1, and nothing was started", async () => {
    const down = { prepare: () => { throw new Error("D1_ERROR: no way there"); }, batch: () => Promise.reject(new Error("D1_ERROR: no way there")) };
    const answer = await callWith({ SIGNALBOX_AUTH: "none", DB: down }, "/agents/echo/runs", { ...form({ message: "hi", session_id: "key-down", stream: "false" }), headers: { "idempotency-key": "down" } });
    expect([answer.status, await answer.json()]).toMatchObject([503, { error_type: "unavailable" }]);
    expect((await call("/sessions/key-down")).status).toBe(404);
  });
});

describe("a key on a continue", () => {
  const again = (run: any, key: string, fields: Record<string, string>) =>
    call(continuePath(run), { ...form({ session_id: run.session_id, stream: "false", ...fields }), headers: { "idempotency-key": key } });

  it("goes on once: the same answers sent again are shown what came of them", async () => {
    const run = await startClerk('send_mail {"to":"key"}');
    const before = madeBy("send_mail").length;
    const fields = { tools: answersOf(run, { c00: { confirmed: true } }), input: "And then?" };
    const answers = await Promise.all(Array.from({ length: 5 }, () => again(run, "go", fields)));
    expect(answers.map(({ status }) => status)).toEqual(Array(5).fill(200));
    expect(answers.filter(({ headers }) => headers.get("idempotency-replayed") === null)).toHaveLength(1);
    expect(new Set(await Promise.all(answers.map((answer) => answer.text()))).size).toBe(1);
    expect(madeBy("send_mail").length - before).toBe(1);
    expect((await read(run)).messages.filter((message: any) => message.role === "user" && message.content === "And then?")).toHaveLength(1);
    expect((await again(run, "go", { ...fields, input: "Or else?" })).status).toBe(422);
    expect((await again(run, "go", { ...fields, stream: "true" })).status).toBe(409);
  });

  it("makes one sibling of a run that has ended, also when the source is replaced by it", async () => {
    const run = await startClerk("hello");
    const requests = fromSteps.requests.length;
    const answers = [await again(run, "anew", { regenerate: "true" }), await again(run, "anew", { regenerate: "true" })];
    const [first, second] = (await Promise.all(answers.map((answer) => answer.json()))) as any[];
    expect(first).toMatchObject({ status: "COMPLETED", regenerated_from: run.run_id });
    expect(second).toEqual(first);
    expect(fromSteps.requests.length - requests).toBe(1);
    expect((await ask("GET", `/sessions/${run.session_id}/runs`)).body).toHaveLength(2);
  });
});
