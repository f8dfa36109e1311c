import { afterAll, describe, expect, test } from "vitest";
import { logProblems, textOf } from "./harness/checks.ts";
import { client, type KnownRun, type WireRun } from "./harness/client.ts";
import type { WireEvent } from "./harness/event-stream.ts";
import { startServer } from "./harness/server.ts";
import { until } from "./harness/until.ts";

// The repository's own app, as `npm run dev` serves it to someone who has just cloned it: no key, no account, no network.
const server = await startServer({ throughNpm: true });
afterAll(() => server.stop());

const sales = client(server.url, "sales-assistant");
const researcher = client(server.url, "researcher");

let sessions = 0;
const newSession = (name: string) => `${name}-${(sessions += 1)}`;

/** Every key a tool call has for clients, with or without a value. */
const TOOL_KEYS = [
  "tool_call_id",
  "tool_name",
  "tool_args",
  "tool_call_error",
  "result",
  "metrics",
  "child_run_id",
  "stop_after_tool_call",
  "created_at",
  "requires_confirmation",
  "confirmed",
  "confirmation_note",
  "requires_user_input",
  "user_input_schema",
  "user_feedback_schema",
  "answered",
  "external_execution_required",
  "external_execution_silent",
  "approval_type",
  "approval_id",
].sort();

const LOOKUP = "Who is c-1001?";

describe("what the service says of itself", () => {
  test("S99 S118 http-1 health, info and config: one service, its components, database and interfaces", async () => {
    expect(await sales.get("/health")).toMatchObject({ status: 200, body: { status: "ok", instantiated_at: expect.stringMatching(/Z$/) } });
    const { body: info } = await sales.get("/info");
    expect(info).toMatchObject({ os_id: "signalbox", agent_count: 2, team_count: 0, workflow_count: 0, auth_mode: "none", mcp: { enabled: false, path: null, oauth: null } });
    expect((await sales.get("/")).body).toMatchObject({ health: "/health", info: "/info" });
    const { body: config } = await sales.get("/config");
    expect(config.agents.map(({ id }: { id: string }) => id)).toEqual(["sales-assistant", "researcher"]);
    expect(config).toMatchObject({ databases: ["signalbox-db"], teams: [], workflows: [], interfaces: [], session: { dbs: [{ db_id: "signalbox-db" }] } });
    expect(JSON.stringify(config)).not.toContain("null");
  });

  test("S142 OpenAPI lists the routes of this file", async () => {
    const { body } = await sales.get("/openapi.json");
    expect(body.openapi).toBe("3.1.0");
    for (const [path, methods] of Object.entries({
      "/health": ["get"],
      "/config": ["get"],
      "/agents": ["get"],
      "/agents/{component_id}/runs": ["get", "post"],
      "/agents/{component_id}/runs/{run_id}": ["get"],
      "/agents/{component_id}/runs/{run_id}/cancel": ["post"],
      "/agents/{component_id}/runs/{run_id}/resume": ["post"],
      "/agents/{component_id}/runs/{run_id}/events": ["get"],
      "/sessions": ["get", "post", "delete"],
      "/sessions/{session_id}": ["get", "patch", "delete"],
      "/sessions/{session_id}/runs": ["get"],
      "/sessions/{session_id}/socket": ["get"],
    })) {
      expect([path, Object.keys(body.paths[path] ?? {})]).toEqual([path, expect.arrayContaining(methods)]);
    }
    expect((await sales.get("/docs")).headers.get("content-type")).toContain("text/html");
  });

  test("S111 S164 S165 S166 an agent is described with its defaults filled in, a section a group", async () => {
    const { body } = await sales.get("/agents/sales-assistant");
    expect(body).toMatchObject({
      id: "sales-assistant",
      name: "Sales assistant",
      db_id: "signalbox-db",
      is_factory: false,
      is_component: false,
      model: { model: "demo", provider: "scripted" },
      tools: { tools: [{ name: "lookup_customer", parameters: { type: "object" } }, { name: "update_crm" }] },
      sessions: { add_history_to_context: true, num_history_runs: 3 },
      system_message: { instructions: expect.arrayContaining([expect.stringContaining("Look a customer up")]), markdown: false },
      response_settings: { retries: 0 },
      storage: { store_events: true, checkpoint: "tool-batch" },
    });
    expect(JSON.stringify(body)).not.toContain("null");
    expect((await sales.get("/agents")).body.map(({ id }: { id: string }) => id)).toEqual(["sales-assistant", "researcher"]);
  });

  test("S126 S206 what is not there is 404, with a reason", async () => {
    expect(await sales.get("/agents/nobody")).toMatchObject({ status: 404, body: { detail: "Agent not found" } });
    expect(await client(server.url, "nobody").run("hello")).toMatchObject({ status: 404, body: { detail: "Agent not found" } });
    expect(await sales.get("/nothing/here")).toMatchObject({ status: 404, body: { detail: "Not Found" } });
    expect(await sales.json("PUT", "/agents")).toMatchObject({ status: 405, body: { detail: "Method Not Allowed" } });
  });
});

test("S179 a deployment with nothing to run does not start, and says why", async () => {
  await expect(startServer({ config: "test/stories/worker/empty.toml" })).rejects.toThrow("createAgentOS needs at least one agent");
});

describe("a run", () => {
  test("S112 S121 S128 S134 S163 S210 http-4 http-5 is started, looked at and kept", async () => {
    const sessionId = newSession("run");
    const { status, body } = await sales.run(LOOKUP, { session_id: sessionId, user_id: "ada" });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      agent_id: "sales-assistant",
      agent_name: "Sales assistant",
      session_id: sessionId,
      user_id: "ada",
      status: "COMPLETED",
      content_type: "str",
      model: "demo",
      model_provider: "scripted",
      input: { input_content: LOOKUP },
    });
    expect(body.content).toContain("c-1001");
    expect(Number.isInteger(body.created_at)).toBe(true);
    expect(body.metrics).toMatchObject({ input_tokens: expect.any(Number), output_tokens: expect.any(Number), total_tokens: body.metrics.input_tokens + body.metrics.output_tokens, duration: expect.any(Number) });
    expect(body.tools).toHaveLength(1);
    expect(body.tools[0]).toMatchObject({ tool_name: "lookup_customer", tool_args: { customer_id: "c-1001" }, tool_call_error: false });
    expect(JSON.parse(body.tools[0].result)).toMatchObject({ customer_id: "c-1001" });
    expect(Object.keys(body.tools[0]).sort()).toEqual(TOOL_KEYS);
    expect(body.messages.map(({ role }: { role: string }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(await sales.read({ runId: body.run_id, sessionId })).toEqual(body);
  });

  test("S64 S127 S165 S184 keeps its events: the last is terminal, and no pieces of text are among them", async () => {
    for (const agent of [sales, researcher]) {
      const { body } = await agent.run(agent === sales ? LOOKUP : "How does a block keep two trains apart?");
      const names = body.events.map(({ event }: WireEvent) => event);
      expect(names[0]).toBe("RunStarted");
      expect(names.at(-1)).toBe("RunCompleted");
      expect(names).not.toContain("RunContent");
      expect(names).toContain("ToolCallCompleted");
    }
  });

  test("S129 http-3 http-4 streams by default: framed byte by byte, text and tools in order, the end with all of the text", async () => {
    const { stream } = await sales.started(LOOKUP, { session_id: "" });
    const log = await stream.ended();
    expect(stream.response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(stream.raw).toBe(log.map((event) => `id: ${event.event_index}\nevent: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
    expect(logProblems(log)).toEqual([]);
    expect(log[0]).toMatchObject({ event: "RunStarted", session_id: expect.any(String), model: "demo", model_provider: "scripted" });
    expect(log.at(-1)).toMatchObject({ event: "RunCompleted", content: textOf(log) });
    const names = log.map(({ event }) => event);
    const at = (name: string) => names.indexOf(name);
    expect([at("RunStarted"), at("ToolCallStarted"), at("ToolCallCompleted"), at("RunCompleted")]).toEqual([at("RunStarted"), at("ToolCallStarted"), at("ToolCallCompleted"), at("RunCompleted")].toSorted((a, b) => a - b));
    expect(names.lastIndexOf("RunContent")).toBeGreaterThan(at("ToolCallCompleted"));
    for (const event of log) {
      expect(event).toMatchObject({ agent_id: "sales-assistant", agent_name: "Sales assistant", run_id: log[0]!.run_id, session_id: log[0]!.session_id, nested_depth: 0 });
      expect(Object.values(event)).not.toContain(null);
      if (event.tool !== undefined) expect(Object.keys(event.tool).sort()).toEqual(TOOL_KEYS);
    }
  });

  test("http-3 with stream_events=false the stream is its text and its end", async () => {
    const stream = await sales.stream(LOOKUP, { stream_events: false });
    expect(new Set((await stream.ended()).map(({ event }) => event))).toEqual(new Set(["RunContent", "RunCompleted"]));
  });

  test("S152 S212 http-2 takes multipart, urlencoded and JSON, with and without a session and a user", async () => {
    const fields = { message: LOOKUP, stream: "false", session_id: newSession("form"), user_id: "ada" };
    const path = "/agents/sales-assistant/runs";
    const posted = [
      await sales.post(path, fields),
      await sales.post(path, {}, { body: new URLSearchParams(fields) }),
      await sales.json("POST", path, { ...fields, stream: false }),
    ];
    for (const { status, body } of posted) {
      expect([status, body.status, body.session_id, body.user_id]).toEqual([200, "COMPLETED", fields.session_id, "ada"]);
    }
    expect((await sales.get(`/sessions/${fields.session_id}/runs`)).body).toHaveLength(3);
    const { body: alone } = await sales.post(path, { message: LOOKUP, stream: false });
    expect(alone).toMatchObject({ status: "COMPLETED", session_id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    for (const message of [undefined, ""]) {
      expect(await sales.post(path, { stream: false, message })).toMatchObject({ status: 422, body: { detail: [{ type: "missing", loc: ["body", "message"] }] } });
    }
  });

  test("S224 S231 http-10 in the background it is accepted at once, and polled to its end", async () => {
    const { status, body, headers } = await sales.run("Look up c-1001, c-1002 and c-1003", { background: true });
    expect(status).toBe(202);
    expect(body).toEqual({ run_id: expect.any(String), session_id: expect.any(String), status: "PENDING" });
    expect(headers.get("location")).toBe(`/agents/sales-assistant/runs/${body.run_id}?session_id=${body.session_id}`);
    const run: KnownRun = { runId: body.run_id, sessionId: body.session_id };
    const statuses = new Set<string>();
    await until("the run to be over", async () => {
      const read = await sales.read(run);
      statuses.add(read.status);
      return read.status === "COMPLETED";
    });
    for (const seen of statuses) expect(["PENDING", "RUNNING", "COMPLETED"]).toContain(seen);
  });

  test("http-11 streamed in the background it counts from 0, and resume replays what comes after an index", async () => {
    const { run, stream } = await sales.started(LOOKUP, { background: true });
    await stream.until("some events", ({ event_index }) => event_index >= 5);
    stream.drop();
    const live = await sales.resume(run, 3);
    const seen = await live.ended();
    const log = await sales.log(run);
    expect(log[0]?.event_index).toBe(0);
    expect(seen).toEqual(log.slice(4));
    if (live.notices[0]?.event === "catch_up") expect(live.notices.map(({ event, status }) => [event, status])).toEqual([["catch_up", "running"], ["subscribed", "running"]]);

    const replay = await sales.resume(run, 3);
    expect(await replay.ended()).toEqual(log.slice(4));
    expect(replay.frames[0]?.event).toBe("replay");
    expect(replay.notices).toEqual([
      {
        event: "replay",
        run_id: run.runId,
        status: "COMPLETED",
        total_events: log.length - 4,
        total_buffered: log.length,
        last_event_index_requested: 3,
        message: expect.any(String),
      },
    ]);
  });

  test("http-12 resuming an unknown run is one error frame in a 200", async () => {
    const stream = await sales.resume({ runId: "01900000-0000-7000-8000-000000000000", sessionId: "nowhere" });
    await stream.ended();
    expect(stream.frames.map(({ event }) => event)).toEqual(["error"]);
    expect(stream.notices).toEqual([{ event: "error", error: expect.stringContaining("not found") }]);
    expect((await sales.post("/agents/sales-assistant/runs/x/resume", { last_event_index: "soon" })).status).toBe(422);
  });
});

describe("a session", () => {
  test("S116 S136 S170 connects runs and state: the next turn knows the last, and each stores only its own messages", async () => {
    const sessionId = newSession("talk");
    await sales.run(LOOKUP, { session_id: sessionId });
    const changed = await sales.run("Put them on pro", { session_id: sessionId });
    expect(changed.body).toMatchObject({ status: "COMPLETED" });
    expect(changed.body.tools.map(({ tool_name, tool_args }: any) => [tool_name, tool_args.customer_id])).toEqual([
      ["lookup_customer", "c-1001"],
      ["update_crm", "c-1001"],
    ]);
    for (let turn = 0; turn < 8; turn += 1) await sales.run(LOOKUP, { session_id: sessionId });

    const { body: runs } = await sales.get<WireRun[]>(`/sessions/${sessionId}/runs`);
    expect(runs).toHaveLength(10);
    expect(runs.map(({ messages }) => messages.length)).toEqual([4, 6, ...Array(8).fill(4)]);
    const { body: session } = await sales.get(`/sessions/${sessionId}`);
    expect(session).toMatchObject({ session_id: sessionId, agent_session_id: sessionId, session_name: LOOKUP, agent_id: "sales-assistant" });
    expect(session.session_state).toEqual(runs.at(-1)!.session_state);
    expect(Object.keys(session.session_state).length).toBeGreaterThan(0);
    expect(session.chat_history.filter(({ role }: { role: string }) => role === "user")).toHaveLength(10);
    expect((await sales.get(`/agents/sales-assistant/runs?session_id=${sessionId}`)).body.map(({ run_id }: WireRun) => run_id)).toEqual(runs.map(({ run_id }) => run_id));
    expect(await sales.get(`/agents/researcher/runs?session_id=${sessionId}`)).toMatchObject({ status: 404, body: { detail: "Session not found" } });
  });

  test("S143 S212 http-20 is made, found, named, changed and deleted", async () => {
    const sessionId = newSession("made");
    const made = await sales.json("POST", "/sessions?type=agent", { session_id: sessionId, agent_id: "sales-assistant", session_state: { plan: "pro" } });
    expect(made).toMatchObject({ status: 201, body: { session_id: sessionId, session_state: { plan: "pro" } } });
    expect((await sales.json("POST", "/sessions", { session_id: sessionId })).status).toBe(409);
    expect(await sales.get(`/sessions/${sessionId}/runs`)).toMatchObject({ status: 200, body: [] });

    // The first run of a session that was made beforehand is seen like any other.
    const run = await sales.background("Look up c-1001, c-1002 and c-1003", { session_id: sessionId });
    expect((await sales.get(`/sessions/${sessionId}/runs`)).body).toMatchObject([{ run_id: run.runId, status: expect.stringMatching(/PENDING|RUNNING/) }]);
    await sales.over(run);
    expect((await sales.get(`/sessions/${sessionId}/runs`)).body).toMatchObject([{ run_id: run.runId, status: "COMPLETED", created_at: expect.stringMatching(/Z$/) }]);

    expect((await sales.json("POST", `/sessions/${sessionId}/rename`, { session_name: "Ada" })).body.session_name).toBe("Ada");
    expect((await sales.json("PATCH", `/sessions/${sessionId}`, { metadata: { a: 1 } })).body).toMatchObject({ session_name: "Ada", metadata: { a: 1 }, session_state: { plan: "pro" } });
    for (let times = 0; times < 2; times += 1) expect((await sales.json("DELETE", `/sessions/${sessionId}`)).status).toBe(204);
    expect(await sales.get(`/sessions/${sessionId}`)).toMatchObject({ status: 404, body: { detail: `Session with id '${sessionId}' not found` } });
    expect((await sales.get(`/sessions/${sessionId}/runs`)).status).toBe(404);
    expect((await sales.get(`/agents/sales-assistant/runs/${run.runId}?session_id=${sessionId}`)).status).toBe(404);
  });

  test.each(["made beforehand", "made on the fly"])("C019 the first run of a session %s is seen while it runs", async (how) => {
    const sessionId = newSession("first");
    if (how === "made beforehand") expect((await sales.json("POST", "/sessions", { session_id: sessionId, agent_id: "sales-assistant" })).status).toBe(201);
    const run = await sales.background("Look up c-1001, c-1002, c-1003 and c-1004", { session_id: sessionId });
    expect((await sales.get(`/sessions/${sessionId}/runs`)).body).toMatchObject([{ run_id: run.runId, status: expect.stringMatching(/PENDING|RUNNING/) }]);
    expect((await sales.read(run)).status).toMatch(/PENDING|RUNNING/);
    await sales.over(run);
    expect((await sales.get(`/sessions/${sessionId}/runs`)).body).toMatchObject([{ run_id: run.runId, status: "COMPLETED" }]);
  });

  test("http-21 lists come in pages", async () => {
    const user_id = newSession("pages");
    for (let made = 0; made < 3; made += 1) await sales.json("POST", "/sessions", { agent_id: "sales-assistant", user_id });
    const page = (number: number) => sales.get(`/sessions?user_id=${user_id}&limit=2&page=${number}`);
    const first = await page(1);
    expect(first.body.meta).toEqual({ page: 1, limit: 2, total_pages: 2, total_count: 3, search_time_ms: 0 });
    expect(first.body.data).toHaveLength(2);
    expect((await page(2)).body.data).toHaveLength(1);
    expect((await page(3)).body).toMatchObject({ data: [], meta: { total_count: 3 } });
    expect((await page(0)).body.data.map((one: any) => one.session_id)).toEqual(first.body.data.map((one: any) => one.session_id));
  });
});

describe("clients that people have", () => {
  const origin = "http://localhost:3000";
  /** agent-ui says that it sends JSON, also where it sends nothing. */
  const headers = { origin, "content-type": "application/json" };

  test("agent-ui's seven calls, from its own origin", async () => {
    const preflight = await fetch(`${server.url}/agents`, {
      method: "OPTIONS",
      headers: { origin, "access-control-request-method": "GET", "access-control-request-headers": "authorization,content-type" },
    });
    expect(preflight.ok).toBe(true);
    expect(preflight.headers.get("access-control-allow-origin")).toBe(origin);
    expect(preflight.headers.get("access-control-allow-headers")?.toLowerCase()).toContain("content-type");

    expect((await sales.get("/health", headers)).status).toBe(200);
    expect((await sales.get("/teams", headers)).body).toEqual([]);
    const { body: agents, headers: answered } = await sales.get("/agents", headers);
    expect(answered.get("access-control-allow-origin")).toBe(origin);
    const [agent] = agents;
    expect(agent).toMatchObject({ id: "sales-assistant", name: "Sales assistant", db_id: expect.stringMatching(/.+/), model: { model: "demo" } });

    const message = `${LOOKUP} And put them on pro.`;
    const talk = await agentUi(`${server.url}/agents/${agent.id}/runs`, { message, stream: "true", session_id: "" });
    expect(talk.error).toBeUndefined();
    expect(talk.sessionId).toBeTruthy();
    expect(talk.streamed).toContain("Let me look up c-1001");
    expect(talk.content).toContain("c-1001");
    expect([...talk.tools.values()].map(({ tool_name, result }) => [tool_name, typeof result])).toEqual([["lookup_customer", "string"], ["update_crm", "string"]]);

    const query = `type=agent&component_id=${agent.id}&db_id=${agent.db_id}`;
    const listed = await until("the session to be listed", async () => (await sales.get(`/sessions?${query}`, headers)).body.data.find((one: any) => one.session_id === talk.sessionId));
    expect(listed).toMatchObject({ session_name: message, created_at: expect.stringMatching(/Z$/) });
    const { body: runs } = await sales.get(`/sessions/${talk.sessionId}/runs?type=agent&db_id=${agent.db_id}`, headers);
    expect(runs).toMatchObject([{ run_input: message, content: talk.content, tools: [{ tool_name: "lookup_customer" }, { tool_name: "update_crm" }], created_at: expect.any(String) }]);
    expect((await sales.json("DELETE", `/sessions/${talk.sessionId}?db_id=${agent.db_id}`)).status).toBe(204);

    // What it shows to people when something is wrong is the string at `detail`.
    expect((await sales.get("/sessions?type=agent&db_id=elsewhere", headers)).body.detail).toBe("No database found with id 'elsewhere'");
  });

  /** Reads a stream as agent-ui does: not as events, but as whatever JSON objects the text holds. */
  async function agentUi(url: string, fields: Record<string, string>) {
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.set(name, value);
    const response = await fetch(url, { method: "POST", body, headers: { origin } });
    const talk = { sessionId: undefined as string | undefined, streamed: "", content: "", error: undefined as unknown, tools: new Map<string, any>() };
    let last = "";
    for (const frame of objectsIn(await response.text())) {
      expect(frame).not.toHaveProperty("data");
      switch (frame.event) {
        case "RunStarted":
          talk.sessionId = frame.session_id;
          break;
        case "ToolCallStarted":
        case "ToolCallCompleted":
          talk.tools.set(frame.tool.tool_call_id, { ...talk.tools.get(frame.tool.tool_call_id), ...frame.tool });
          break;
        case "RunContent":
          // It takes the last delta out of the next one, in case that repeats it.
          talk.streamed += String(frame.content).replace(last, "");
          last = String(frame.content);
          break;
        case "RunCompleted":
          talk.content = frame.content;
          break;
        case "RunError":
          talk.error = frame.content;
          break;
      }
    }
    return talk;
  }

  function objectsIn(text: string): any[] {
    const found: any[] = [];
    for (let start = text.indexOf("{"); start !== -1; ) {
      let depth = 0;
      let inString = false;
      let at = start;
      do {
        const character = text[at]!;
        if (inString) {
          if (character === "\\") at += 1;
          else if (character === '"') inString = false;
        } else if (character === '"') inString = true;
        else if (character === "{") depth += 1;
        else if (character === "}") depth -= 1;
        at += 1;
      } while (depth > 0 && at < text.length);
      found.push(JSON.parse(text.slice(start, at)));
      start = text.indexOf("{", at);
    }
    return found;
  }

  test("a reader that knows only lines of `data: `, as the Python client is one", async () => {
    const response = await fetch(`${server.url}/agents/sales-assistant/runs`, { method: "POST", body: new URLSearchParams({ message: LOOKUP, stream: "true" }) });
    const lines = (await response.text()).split("\n");
    const events = lines.filter((line) => line.startsWith("data: ")).map((line) => JSON.parse(line.slice("data: ".length)) as WireEvent);
    expect(logProblems(events)).toEqual([]);
    const known = ["RunStarted", "ModelRequestStarted", "ModelRequestCompleted", "RunContent", "RunContentCompleted", "ReasoningStarted", "ReasoningContentDelta", "ReasoningCompleted", "ToolCallStarted", "ToolCallCompleted", "RunCompleted"];
    for (const { event } of events) expect(known).toContain(event);
  });
});

describe("the server is killed, and comes back on its folder", () => {
  test("S7 S117 the next turn knows the last, though nothing but the storage is left", async () => {
    const sessionId = newSession("kept");
    const first = await sales.run(`${LOOKUP} And put them on pro.`, { session_id: sessionId });
    expect(first.body.status).toBe("COMPLETED");
    const run: KnownRun = { runId: first.body.run_id, sessionId };
    const before = [await sales.read(run), (await sales.get(`/sessions/${sessionId}`)).body, (await sales.get(`/sessions/${sessionId}/runs`)).body];
    await server.kill();
    await server.start();
    expect([await sales.read(run), (await sales.get(`/sessions/${sessionId}`)).body, (await sales.get(`/sessions/${sessionId}/runs`)).body]).toEqual(before);
    const second = await sales.run("Put them back on free", { session_id: sessionId });
    expect(second.body.tools.map(({ tool_name, tool_args }: any) => [tool_name, tool_args])).toEqual([
      ["lookup_customer", { customer_id: "c-1001" }],
      ["update_crm", { customer_id: "c-1001", plan: "free" }],
    ]);
    expect(JSON.parse(second.body.tools[1].result)).toMatchObject({ plan_before: "pro", plan: "free" });
  });
});
