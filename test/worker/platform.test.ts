import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { describe, expect, it, vi } from "vitest";
import { defineAgent } from "../../src/define/agent.ts";
import { defineTool } from "../../src/define/tool.ts";
import { releaseGate, scripted } from "../../src/models/scripted.ts";
import { createAgentOS } from "../../src/os.ts";
import { ask, background, getRun, newSessionId, reading, request, start, untilStatus } from "./session/harness.ts";

const json = async (path: string): Promise<any> => (await request(path)).json();
const hello = (id: string) => defineAgent({ id, model: scripted(["Hello."]) });

describe("one service holds it all", () => {
  it("S99 S118 S173 lists what runs, where it is kept and how it is reached, in one place", async () => {
    const config = await json("/config");
    expect(config.agents.map((agent: { id: string }) => agent.id)).toEqual(expect.arrayContaining(["echo", "words"]));
    expect(config).toMatchObject({ os_id: expect.any(String), databases: [expect.any(String)], interfaces: [], available_models: expect.any(Array) });
  });

  it("S108 S109 S110 S161 S162 S163 from a run's id its session, user, events and state are reached", async () => {
    const session = newSessionId();
    const { run_id } = await ask(session, "hello", { user_id: "ada" });
    const run = await getRun(session, run_id);
    expect(run).toMatchObject({ run_id, session_id: session, user_id: "ada", status: "COMPLETED" });
    expect(await json(`/sessions/${session}`)).toMatchObject({ session_id: session, user_id: "ada" });
    const { events, ended } = await json(`/agents/words/runs/${run_id}/events`);
    expect([events.at(-1).event, ended]).toEqual(["RunCompleted", true]);
    expect((await json(`/sessions?user_id=ada&limit=100`)).data.map((row: { session_id: string }) => row.session_id)).toContain(session);
  });

  it("S138 a run has the same shape whichever way it was asked for", async () => {
    const session = newSessionId();
    const inline = (await ask(session, "hello")).run_id;
    const streamed = (await reading(await start(session, "hello")).rest())[0]!.run_id;
    const queued = await background(session, "hello");
    await untilStatus(session, queued, "COMPLETED");
    const shapes = await Promise.all([inline, streamed, queued].map(async (run) => Object.keys(await getRun(session, run)).sort()));
    expect(shapes[1]).toEqual(shapes[0]);
    expect(shapes[2]).toEqual(shapes[0]);
  });

  it("S151 S191 is ready on empty storage, with nothing to set up", async () => {
    expect((await request("/health")).status).toBe(200);
    expect((await ask(newSessionId(), "hello")).status).toBe("COMPLETED");
  });

  it("S153 S127 S180 S184 an agent that names no database and no event storage has both", async () => {
    const session = newSessionId();
    const { run_id } = await ask(session, "hello", {}, "forgetful");
    expect((await getRun(session, run_id, "forgetful")).events.length).toBeGreaterThan(0);
    expect(await json("/agents/forgetful")).toMatchObject({ db_id: expect.stringMatching(/.+/) });
  });

  it("S181 S183 what an agent inherits is shown before its first run", async () => {
    const agent = await json("/agents/forgetful");
    expect(JSON.stringify(agent)).toContain("tool-batch");
  });

  it("S174 the session's deletion takes its runs along and nothing else", async () => {
    const [kept, gone] = [newSessionId(), newSessionId()];
    const { run_id } = await ask(kept, "hello");
    await ask(gone, "hello");
    expect((await request(`/sessions/${gone}`, { method: "DELETE" })).status).toBe(204);
    expect((await getRun(kept, run_id)).status).toBe("COMPLETED");
  });

  it("S189 serves the author's own routes beside it", async () => {
    const os = createAgentOS({ agents: [hello("one")] });
    const app = new Hono().get("/mine", (c) => c.text("marker")).route("/", os.routes);
    const get = async (path: string) => (await app.request(path, {}, env)).text();
    expect(await get("/mine")).toBe("marker");
    expect(await get("/health")).toContain("ok");
  });
});

describe("what is put together", () => {
  it("S179 needs something to run, and says so", () => {
    expect(() => createAgentOS({ agents: [] })).toThrow(/at least one agent/);
  });

  it("refuses two agents of one name, and an agent with two tools of one", () => {
    expect(() => createAgentOS({ agents: [hello("twin"), hello("twin")] })).toThrow(/twin/);
    const tool = defineTool({ name: "t", description: "A tool.", execute: () => "" });
    expect(() => defineAgent({ id: "a", model: "scripted:x", tools: [tool, tool] })).toThrow(/two tools named "t"/);
  });

  it("S260 holds several versions of an agent: new runs take the last, and each stays to be found by its own", () => {
    const [first, second] = ["1", "2"].map((version) => defineAgent({ id: "sales", version, model: "scripted:x", instructions: version }));
    const { registry } = createAgentOS({ agents: [first!, second!, hello("other")] });
    expect(registry.agents.map(({ id, version }) => [id, version])).toEqual([["sales", "2"], ["other", "1"]]);
    expect(registry.agent("sales")).toBe(second);
    expect(registry.find({ kind: "agent", id: "sales", version: "1" })).toBe(first);
    expect(registry.find({ kind: "agent", id: "sales", version: "3" })).toBeUndefined();
  });

  it("C066 names that providers refuse are refused where they are written", () => {
    for (const name of ["a.b", "with space", "schön", "", "x".repeat(65)]) {
      expect(() => defineTool({ name, description: "", execute: () => "" })).toThrow(RangeError);
    }
    // Nothing is renamed on the way, so no two names can become one.
    expect(defineTool({ name: "a_b-C9", description: "", execute: () => "" }).name).toBe("a_b-C9");
  });

  it("S177 S143 what is not configured says so, and what is not there yet is not found", async () => {
    expect((await request(`/sessions/${newSessionId()}/media/x`)).status).toBe(503);
    expect((await request("/nothing")).status).toBe(404);
    expect((await request("/sessions")).status).toBe(200);
  });
});

describe("runs that wait for people beside others", () => {
  it("S262 S174 S175 a session holds runs in every status, and no state that says so approves anything", async () => {
    const session = newSessionId();
    const looked = await ask(session, 'look_up {"name":"Ada"}', {}, "clerk");
    const drafted = await ask(session, "a draft of the mail", {}, "clerk");
    const paused = await ask(session, 'update_crm {"id":1}', {}, "clerk");
    expect([looked, drafted, paused].map(({ status }) => status)).toEqual(["COMPLETED", "COMPLETED", "PAUSED"]);
    expect((await json(`/sessions/${session}/runs`)).map(({ status }: { status: string }) => status)).toEqual(["COMPLETED", "COMPLETED", "PAUSED"]);

    await request(`/sessions/${session}`, { method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ session_state: { approved: true, approval: "approved" } }) });
    const refused = await request(`/agents/clerk/runs/${paused.run_id}/continue`, { form: { session_id: session, stream: "false" } });
    expect(refused.status).toBe(400);
    expect((await getRun(session, paused.run_id, "clerk")).status).toBe("PAUSED");
  });

  it("C018 S146 one paused session stops no other, and no other shows anything of it", async () => {
    const [waiting, second, third] = [newSessionId(), newSessionId(), newSessionId()];
    const paused = await ask(waiting, 'send_mail {"to":"ada"}', { user_id: "ada" }, "clerk");
    expect(paused.status).toBe("PAUSED");
    for (const [session, user] of [[second, "bob"], [third, "eve"]] as const) {
      const run = await ask(session, "hello", { user_id: user }, "clerk");
      expect(run.status).toBe("COMPLETED");
      expect([run.tools, run.requirements]).toEqual([undefined, undefined]);
    }
    const tools = JSON.stringify(paused.tools.map((tool: object) => ({ ...tool, confirmed: true })));
    const answer = await request(`/agents/clerk/runs/${paused.run_id}/continue`, { form: { session_id: waiting, stream: "false", tools } });
    expect(await answer.json()).toMatchObject({ status: "COMPLETED", run_id: paused.run_id });
  });
});

describe("many at a time", () => {
  it("S90 S167 fifty sessions run on one agent without touching each other", async () => {
    const sessions = Array.from({ length: 50 }, newSessionId);
    const runs = await Promise.all(sessions.map((session, index) => ask(session, `word-${index} /call:remember:{"key":"who","value":"${index}"}`)));
    runs.forEach((run, index) => {
      expect(run.content).toContain(`word-${index} `);
      expect(run.session_state).toEqual({ who: `${index}` });
    });
  });

  it("S277 what a turn changed in memory does not count before it is stored", async () => {
    const session = newSessionId();
    await ask(session, "hello");
    const run = await background(session, "/gate:s277 x", { session_state: '{"seen":true}' });
    await vi.waitFor(async () => expect((await getRun(session, run)).status).toBe("RUNNING"), { timeout: 5_000 });
    const listed = (await json(`/sessions/${session}/runs`)) as { status: string }[];
    expect(listed.map(({ status }) => status)).toEqual(["COMPLETED", "RUNNING"]);
    releaseGate("s277");
    await untilStatus(session, run, "COMPLETED");
  });

  it("S122 S123 nothing but the session and the model takes part in a run", async () => {
    const run = await ask(newSessionId(), "hello /call:ping");
    expect(run.events.map(({ event }: { event: string }) => event)).toEqual([
      "RunStarted",
      "ModelRequestStarted",
      "ModelRequestCompleted",
      "ToolCallStarted",
      "ToolCallCompleted",
      "ModelRequestStarted",
      "ModelRequestCompleted",
      "RunContentCompleted",
      "RunCompleted",
    ]);
  });
});

describe("whose it is", () => {
  it("S125 a session that someone else holds can not be started on, and its history is not told", async () => {
    const session = newSessionId();
    await ask(session, "my secret", { user_id: "ada" });
    const answer = await start(session, "whose is this?", { user_id: "bob" });
    expect(answer.status).toBe(404);
    expect(await answer.text()).not.toContain("secret");
    expect(await json(`/sessions/${session}/runs`)).toHaveLength(1);
  });

  it("S124 S125 a session without an owner becomes the first identified user's", async () => {
    const session = newSessionId();
    await ask(session, "nobody's");
    await ask(session, "mine now", { user_id: "ada" });
    expect(await json(`/sessions/${session}`)).toMatchObject({ user_id: "ada" });
    expect((await start(session, "mine too", { user_id: "bob" })).status).toBe(404);
  });

  it("S126 S206 an agent that is not there is not found, by any shape of request", async () => {
    for (const fields of [{}, { stream: "false" }, { background: "true" }] as Record<string, string>[]) {
      expect((await start(newSessionId(), "hello", fields, "nobody")).status).toBe(404);
    }
  });

  it("S210 S212 text as a form or as JSON, in a session that is given or made", async () => {
    const made = await request("/agents/words/runs", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ message: "hello", stream: false }) });
    expect(made.status).toBe(200);
    const { session_id } = (await made.json()) as { session_id: string };
    expect((await ask(session_id, "again")).session_id).toBe(session_id);
  });
});
