import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { gateReached, releaseGate } from "../../../src/testing.ts";
import { all, call, finish, form, frames, framesIn, framesOf, json, start, until } from "../http.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const read = async (agent: string, runId: string, sessionId: string) =>
  (await call(`/agents/${agent}/runs/${runId}?session_id=${encodeURIComponent(sessionId)}`)).json<Record<string, any>>();

/** Starts a run in the background that waits at the gate of this name. */
async function background(gate: string, fields: Record<string, string> = {}): Promise<{ run_id: string; session_id: string }> {
  const accepted = await (await start("held", { message: gate, stream: "false", background: "true", ...fields })).json<{ run_id: string; session_id: string }>();
  await gateReached(gate);
  return accepted;
}

const ended = (agent: string, { run_id, session_id }: { run_id: string; session_id: string }) =>
  vi.waitFor(async () => {
    const run = await read(agent, run_id, session_id);
    expect(run.status).not.toMatch(/PENDING|RUNNING/);
    return run;
  });

describe("starting a run", () => {
  it("S113 streams it by default: started first, the answer in pieces, the end last and whole", async () => {
    const answer = await start("echo", { message: "hello there" });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(answer.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(answer.headers.get("x-accel-buffering")).toBe("no");

    const seen = await framesOf(answer);
    expect(seen.map((frame) => frame.event)).toEqual([
      "RunStarted",
      "ModelRequestStarted",
      "RunContent",
      "RunContent",
      "RunContent",
      "RunContent",
      "ModelRequestCompleted",
      "RunContentCompleted",
      "RunCompleted",
    ]);
    expect(seen[0]!.data).toMatchObject({ event: "RunStarted", agent_id: "echo", agent_name: "Echo", session_id: expect.stringMatching(UUID), run_id: expect.stringMatching(UUID) });
    expect(seen.flatMap((frame) => (frame.event === "RunContent" ? [frame.data.content] : [])).join("")).toBe("You said: hello there");
    expect(seen.at(-1)!.data).toMatchObject({ content: "You said: hello there", content_type: "str" });
    expect(seen.map((frame) => [frame.id, frame.data.event_index])).toEqual(seen.map((_, index) => [String(index), index]));
  });

  it("frames are AgentOS's, with an id before", async () => {
    const text = await (await start("echo", { message: "hi" })).text();
    for (const block of text.split("\n\n").filter((block) => block !== "" && !block.startsWith(":"))) expect(block).toMatch(/^id: \d+\nevent: \w+\ndata: \{.*\}$/);
    expect(text).not.toContain("\r");
  });

  it("a stream without events has the text and the end alone", async () => {
    const seen = await framesOf(await start("echo", { message: "hi", stream_events: "false" }));
    expect([...new Set(seen.map((frame) => frame.event))]).toEqual(["RunContent", "RunCompleted"]);
  });

  it("not streaming waits for the end and answers with the run", async () => {
    const run = await finish("forecaster", { message: "Is it wet?", user_id: "ada", session_id: "weather talk" });
    expect(run).toMatchObject({
      status: "COMPLETED",
      agent_id: "forecaster",
      session_id: "weather talk",
      user_id: "ada",
      input: { input_content: "Is it wet?" },
      reasoning_content: "Where is it?",
      tools: [{ tool_name: "weather", tool_args: { city: "Leeds" }, result: "It is dry in Leeds.", tool_call_error: false }],
    });
    expect(run.content).toContain("It is dry in Leeds.");
    expect(Object.values(run)).not.toContain(null);
    expect(await read("forecaster", run.run_id, "weather talk")).toEqual(run);
  });

  it("S114 in the background answers 202 at once, and the run goes on alone", async () => {
    const answer = await start("held", { message: "bg-1", stream: "false", background: "true" });
    expect(answer.status).toBe(202);
    const accepted = await answer.json<{ run_id: string; session_id: string }>();
    expect(accepted).toMatchObject({ run_id: expect.stringMatching(UUID), session_id: expect.stringMatching(UUID) });
    expect(answer.headers.get("location")).toBe(`/agents/held/runs/${accepted.run_id}?session_id=${accepted.session_id}`);
    await gateReached("bg-1");
    expect(await read("held", accepted.run_id, accepted.session_id)).toMatchObject({ status: "RUNNING" });
    releaseGate("bg-1");
    expect(await ended("held", accepted)).toMatchObject({ status: "COMPLETED", content: "One two" });
  });

  it("in the background and streaming is the same stream, and leaving it ends nothing", async () => {
    const answer = await start("held", { message: "bg-2", background: "true" });
    const stream = frames(answer);
    const [first] = await until(stream, (frame) => frame.event === "RunContent");
    await stream.return();
    releaseGate("bg-2");
    expect(await ended("held", first!.data as any)).toMatchObject({ status: "COMPLETED" });
  });

  it("a provider's failure is 200 with the error in the run, and one RunError at the stream's end", async () => {
    const run = await finish("broken", { message: "hi" });
    expect(run).toMatchObject({ status: "ERROR", content: expect.stringContaining("The provider said no."), error_type: expect.any(String) });
    const seen = await framesOf(await start("broken", { message: "hi" }));
    expect(seen.at(-1)).toMatchObject({ event: "RunError", data: { content: expect.stringContaining("The provider said no."), error_type: run.error_type } });
    expect(seen.filter((frame) => /Completed$|Error$/.test(frame.event) && frame.event.startsWith("Run"))).toHaveLength(1);
  });

  it("S152 takes multipart, urlencoded and JSON alike", async () => {
    const fields = { message: "same", stream: "false" };
    const multipart = new FormData();
    for (const [name, value] of Object.entries(fields)) multipart.append(name, value);
    const answers = await Promise.all([
      call("/agents/echo/runs", { method: "POST", body: multipart }),
      call("/agents/echo/runs", form(fields)),
      call("/agents/echo/runs", json(fields)),
      call("/agents/echo/runs", json({ message: "same", stream: false })),
    ]);
    for (const answer of answers) expect([answer.status, ((await answer.json()) as any).content]).toEqual([200, "You said: same"]);
  });

  it("S116 S125 a session that is named is gone on with, and one that is not is new", async () => {
    const first = await finish("echo", { message: "one", session_id: "chat" });
    const second = await finish("echo", { message: "two", session_id: "chat" });
    const elsewhere = await finish("echo", { message: "three" });
    expect([first.session_id, second.session_id]).toEqual(["chat", "chat"]);
    expect(elsewhere.session_id).toMatch(UUID);
    const runs = await (await call("/agents/echo/runs?session_id=chat")).json<any[]>();
    expect(runs.map((run) => run.run_input)).toEqual(["one", "two"]);
  });

  it.each(["любая сессия", "a/b c?d#e&f", "%41", "it's \"quoted\"", "🚂".repeat(60)])("the session id %j is kept as it is", async (sessionId) => {
    const run = await finish("echo", { message: "hi", session_id: sessionId });
    expect(run.session_id).toBe(sessionId);
    expect(await read("echo", run.run_id, sessionId)).toMatchObject({ run_id: run.run_id, status: "COMPLETED" });
  });

  it("state, dependencies and metadata go into the run", async () => {
    const run = await finish("echo", { message: "hi", session_state: '{"plan":"free"}', metadata: '{"source":"test"}' });
    expect(run).toMatchObject({ session_state: { plan: "free" }, metadata: { source: "test" } });
  });

  it("S169 a component that keeps no events shows none on its runs", async () => {
    const run = await finish("quiet", { message: "hi" });
    expect(run.status).toBe("COMPLETED");
    expect(run).not.toHaveProperty("events");
    expect(await read("quiet", run.run_id, run.session_id)).not.toHaveProperty("events");
    expect((await finish("echo", { message: "hi" })).events.at(-1)).toMatchObject({ event: "RunCompleted" });
  });

  it("another version than the one that code carries is not found", async () => {
    expect((await start("echo", { message: "hi", version: "1", stream: "false" })).status).toBe(200);
    const other = await start("echo", { message: "hi", version: "2" });
    expect([other.status, await other.json()]).toMatchObject([404, { detail: "Agent not found" }]);
  });
});

describe("a busy session", () => {
  it("is 409 that names the run that holds it, for every shape of request, before any stream", async () => {
    const holder = await background("busy-1", { session_id: "busy" });
    const shapes: Record<string, string>[] = [{}, { stream: "false" }, { background: "true" }, { stream: "false", background: "true" }];
    for (const shape of shapes) {
      const answer = await start("echo", { message: "me too", session_id: "busy", ...shape });
      expect([answer.status, await answer.json()], JSON.stringify(shape)).toEqual([409, { detail: expect.stringContaining(holder.run_id), error_type: "session_busy", run_id: holder.run_id }]);
      expect(answer.headers.get("content-type")).toContain("application/json");
    }
    releaseGate("busy-1");
    await ended("held", holder);
    expect(await (await call("/agents/echo/runs?session_id=busy")).json()).toMatchObject({ detail: "Session not found" });
    expect(await finish("echo", { message: "now", session_id: "busy" })).toMatchObject({ status: "COMPLETED" });
  });

  it("lets a run wait that asks to", async () => {
    const holder = await background("busy-2", { session_id: "queue" });
    const waiting = await (await start("echo", { message: "after", session_id: "queue", on_busy: "enqueue", stream: "false", background: "true" })).json<any>();
    expect(waiting.status).toBe("PENDING");
    expect(await read("echo", waiting.run_id, "queue")).toMatchObject({ status: "PENDING" });
    releaseGate("busy-2");
    expect(await ended("echo", waiting)).toMatchObject({ status: "COMPLETED", content: "You said: after" });
    expect(await read("held", holder.run_id, "queue")).toMatchObject({ status: "COMPLETED" });
  });
});

describe("reading runs", () => {
  it("a run is read under its own component and session only", async () => {
    const run = await finish("echo", { message: "hi", session_id: "mine" });
    const paths = [`/agents/held/runs/${run.run_id}?session_id=mine`, `/agents/echo/runs/${run.run_id}?session_id=other`, `/agents/echo/runs/${crypto.randomUUID()}?session_id=mine`, `/agents/echo/runs/none?session_id=mine`];
    for (const path of paths) {
      const answer = await call(path);
      expect([answer.status, await answer.json()], path).toEqual([404, { detail: "Run not found", error_type: "not_found" }]);
    }
    const unnamed = await call(`/agents/echo/runs/${run.run_id}`);
    expect([unnamed.status, await unnamed.json()]).toMatchObject([422, { detail: [{ type: "missing", loc: ["query", "session_id"] }] }]);
  });

  it("a list has a session's runs of one component, by status", async () => {
    await finish("echo", { message: "one", session_id: "mixed" });
    await finish("broken", { message: "two", session_id: "mixed" });
    const list = async (agent: string, query: string) => (await call(`/agents/${agent}/runs?session_id=mixed${query}`)).json<any[]>();
    expect(await list("echo", "")).toMatchObject([{ run_input: "one", status: "COMPLETED", created_at: expect.stringMatching(/Z$/), parent_run_id: "", session_state: null }]);
    expect(await list("broken", "&status=ERROR")).toHaveLength(1);
    expect(await list("broken", "&status=error")).toEqual([]);
    expect(await list("held", "")).toMatchObject({ detail: "Session not found" });
    expect((await call("/agents/echo/runs?session_id=nowhere")).status).toBe(404);
    expect((await call("/agents/echo/runs")).status).toBe(422);
  });

  it("a session that its component has not run in yet has an empty list", async () => {
    expect((await call("/sessions", json({ session_id: "fresh", agent_id: "echo" }))).status).toBe(201);
    expect(await (await call("/agents/echo/runs?session_id=fresh")).json()).toEqual([]);
  });

  it("looking for what is not there makes nothing", async () => {
    for (const path of ["/agents/echo/runs?session_id=ghost", `/agents/echo/runs/${crypto.randomUUID()}?session_id=ghost`]) expect((await call(path)).status).toBe(404);
    const stub = env.SESSIONS.get(env.SESSIONS.idFromName("ghost"));
    expect(await (stub as any).readSession({ access: { rows: "all" } })).toMatchObject({ ok: false, error: { details: { empty: true } } });
  });
});

describe("cancelling", () => {
  it("ends the run with RunCancelled as the last frame, and the session is free", async () => {
    const stream = frames(await start("held", { message: "cancel-1", session_id: "stop" }));
    const [first] = await until(stream, (frame) => frame.event === "RunContent");
    const { run_id } = first!.data;
    const answer = await call(`/agents/held/runs/${run_id}/cancel?session_id=stop`, { method: "POST" });
    expect([answer.status, await answer.json()]).toEqual([200, {}]);
    const rest = await all(stream);
    expect(rest.at(-1)).toMatchObject({ event: "RunCancelled", data: { reason: expect.any(String) } });
    expect(rest.map((frame) => frame.event)).not.toContain("RunCompleted");
    expect(await read("held", run_id, "stop")).toMatchObject({ status: "CANCELLED", content: expect.stringContaining("One") });
    expect(await finish("echo", { message: "free", session_id: "stop" })).toMatchObject({ status: "COMPLETED" });
  });

  it("finds the session by itself where none is given", async () => {
    const run = await background("cancel-2");
    expect((await call(`/agents/held/runs/${run.run_id}/cancel`, { method: "POST" })).status).toBe(200);
    expect(await ended("held", run)).toMatchObject({ status: "CANCELLED" });
  });

  it("a run that is over stays as it is", async () => {
    const run = await finish("echo", { message: "hi" });
    expect(await (await call(`/agents/echo/runs/${run.run_id}/cancel?session_id=${run.session_id}`, { method: "POST" })).json()).toEqual({});
    expect(await read("echo", run.run_id, run.session_id)).toEqual(run);
  });

  it("an unknown run is {} too, and the wish is kept", async () => {
    const runId = crypto.randomUUID();
    for (const query of ["", "?session_id=nowhere"]) expect(await (await call(`/agents/echo/runs/${runId}/cancel${query}`, { method: "POST" })).json()).toEqual({});
    const { results } = await env.DB.prepare("SELECT wisher FROM cancel_wishes WHERE run_id = ?").bind(runId).all();
    expect(results).toEqual([{ wisher: "all" }]);
    expect(await (await call("/agents/echo/runs/none/cancel", { method: "POST" })).json()).toEqual({});
    expect((await call(`/agents/nobody/runs/${runId}/cancel`, { method: "POST" })).status).toBe(404);
  });

  it("S365 another component's run is not found, and goes on", async () => {
    const run = await background("cancel-3");
    for (const query of ["", `?session_id=${run.session_id}`]) expect((await call(`/agents/echo/runs/${run.run_id}/cancel${query}`, { method: "POST" })).status).toBe(404);
    expect(await read("held", run.run_id, run.session_id)).toMatchObject({ status: "RUNNING" });
    releaseGate("cancel-3");
    expect(await ended("held", run)).toMatchObject({ status: "COMPLETED" });
  });
});

describe("following again", () => {
  const resume = (agent: string, runId: string, fields: Record<string, string> = {}) => call(`/agents/${agent}/runs/${runId}/resume`, form({ x: "", ...fields }));

  it("a run that is over is replayed after the last index, framed as AgentOS does", async () => {
    const run = await finish("echo", { message: "one two" });
    const whole = await framesOf(await resume("echo", run.run_id, { session_id: run.session_id }));
    const count = whole.length - 1;
    expect(whole[0]).toEqual({
      event: "replay",
      data: { event: "replay", run_id: run.run_id, status: "COMPLETED", total_events: count, total_buffered: count, last_event_index_requested: -1, message: expect.any(String) },
    });
    expect(whole.slice(1).map((frame) => frame.data.event_index)).toEqual(Array.from({ length: count }, (_, index) => index));

    const rest = await framesOf(await resume("echo", run.run_id, { session_id: run.session_id, last_event_index: "3" }));
    expect(rest[0]!.data).toMatchObject({ total_events: count - 4, last_event_index_requested: 3 });
    expect(rest.slice(1)).toEqual(whole.slice(5));

    const beyond = await framesOf(await resume("echo", run.run_id, { session_id: run.session_id, last_event_index: "5000" }));
    expect(beyond).toMatchObject([{ event: "replay", data: { total_events: 0 } }]);
  });

  it("needs no session id, nor a body", async () => {
    const run = await finish("echo", { message: "hi" });
    const answer = await call(`/agents/echo/runs/${run.run_id}/resume`, { method: "POST" });
    expect((await framesOf(answer)).map((frame) => frame.event)).toContain("RunCompleted");
  });

  it("a run that goes on is caught up with, then followed to its end", async () => {
    const run = await background("resume-1");
    const stream = frames(await resume("held", run.run_id, { session_id: run.session_id, last_event_index: "0" }));
    const before = await until(stream, (frame) => frame.event === "subscribed");
    expect(before[0]).toMatchObject({ event: "catch_up", data: { status: "running", missed_events: before.length - 2, run_id: run.run_id } });
    expect(before[1]!.data.event_index).toBe(1);
    expect(before.at(-1)!.data).toMatchObject({ event: "subscribed", status: "running", run_id: run.run_id });
    releaseGate("resume-1");
    const after = await all(stream);
    expect(after.at(-1)).toMatchObject({ event: "RunCompleted", data: { content: "One two" } });
    const indices = [...before, ...after].flatMap((frame) => frame.data.event_index ?? []);
    expect(indices).toEqual(indices.map((_, place) => place + 1));
  });

  it("beyond the last event of a run that goes on is just subscribed", async () => {
    const run = await background("resume-2");
    const stream = frames(await resume("held", run.run_id, { session_id: run.session_id, last_event_index: "5000" }));
    expect(await until(stream, () => true)).toMatchObject([{ event: "subscribed" }]);
    releaseGate("resume-2");
    await stream.return();
    await ended("held", run);
  });

  it("S365 an unknown run, another session's or another component's, is one error frame", async () => {
    const run = await finish("echo", { message: "hi" });
    const cases = [resume("echo", crypto.randomUUID()), resume("echo", crypto.randomUUID(), { session_id: "nowhere" }), resume("echo", run.run_id, { session_id: "nowhere" }), resume("held", run.run_id), resume("held", run.run_id, { session_id: run.session_id }), resume("echo", "none")];
    for (const answer of await Promise.all(cases)) {
      expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "text/event-stream; charset=utf-8"]);
      expect(await framesOf(answer)).toEqual([{ event: "error", data: { event: "error", error: expect.stringContaining("not found") } }]);
    }
    expect((await resume("nobody", run.run_id)).status).toBe(404);
  });

  it.each(["x", "1.5", "-2", "1e999"])("last_event_index=%s is 422", async (index) => {
    const answer = await resume("echo", crypto.randomUUID(), { last_event_index: index });
    expect([answer.status, await answer.json()]).toMatchObject([422, { detail: [{ loc: ["body", "last_event_index"] }] }]);
  });

  it("-1 is nothing seen", async () => {
    const run = await finish("echo", { message: "hi" });
    const answer = await resume("echo", run.run_id, { last_event_index: "-1" });
    expect((await framesOf(answer))[1]!.data.event_index).toBe(0);
  });
});

describe("a run's events", () => {
  const events = (run: { run_id: string }, query = "", headers: Record<string, string> = {}) => call(`/agents/held/runs/${run.run_id}/events${query}`, { headers });
  const sse = { accept: "text/event-stream" };

  it("are JSON after a cursor, the same as the stream's", async () => {
    const run = await background("events-1");
    const first = await (await events(run)).json<any>();
    expect(first).toMatchObject({ run_id: run.run_id, status: "RUNNING", ended: false });
    expect(first.events.map((event: any) => event.event_index)).toEqual(first.events.map((_: unknown, index: number) => index));
    const last = first.events.at(-1).event_index;

    expect(await (await events(run, `?after=${last}&session_id=${run.session_id}`)).json()).toMatchObject({ events: [], ended: false });
    const waiting = events(run, `?after=${last}&wait=20&session_id=${run.session_id}`);
    releaseGate("events-1");
    expect((await (await waiting).json<any>()).events[0].event_index).toBe(last + 1);
    await ended("held", run);

    const whole = await (await events(run)).json<any>();
    expect(whole).toMatchObject({ status: "COMPLETED", ended: true });
    const streamed = framesIn(await (await events(run, "", sse)).text());
    expect(streamed.map((frame) => frame.data)).toEqual(whole.events);
    expect(await (await events(run, "?after=5000")).json()).toMatchObject({ events: [], ended: true });
  });

  it("are a stream for an EventSource, which comes back with the id it has", async () => {
    const run = await background("events-2");
    const answer = await events(run, "", sse);
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const stream = frames(answer);
    const before = await until(stream, (frame) => frame.event === "RunContent");
    await stream.return();
    releaseGate("events-2");
    const rest = framesIn(await (await events(run, "?after=0", { ...sse, "last-event-id": before.at(-1)!.id! })).text());
    expect(rest[0]!.data.event_index).toBe(before.at(-1)!.data.event_index + 1);
    expect(rest.at(-1)!.event).toBe("RunCompleted");
    expect([...before, ...rest].map((frame) => frame.event)).not.toContain("subscribed");

    const over = await events(run, "", { ...sse, "last-event-id": rest.at(-1)!.id! });
    expect([over.status, await over.text()]).toEqual([204, ""]);
    expect((await events(run, "?after=5000", sse)).status).toBe(204);
  });

  it("HEAD opens no stream", async () => {
    const run = await background("events-3");
    const answer = await call(`/agents/held/runs/${run.run_id}/events?session_id=${run.session_id}`, { method: "HEAD", headers: sse });
    expect([answer.status, answer.headers.get("content-type"), await answer.text()]).toEqual([200, "text/event-stream; charset=utf-8", ""]);
    releaseGate("events-3");
    await ended("held", run);
  });

  it("S365 of an unknown run, another session's or another component's, are not found", async () => {
    const run = await finish("echo", { message: "hi" });
    for (const headers of [{}, sse]) {
      const cases = [call(`/agents/held/runs/${run.run_id}/events`, { headers }), call(`/agents/echo/runs/${run.run_id}/events?session_id=nowhere`, { headers }), call(`/agents/echo/runs/none/events`, { headers })];
      for (const answer of await Promise.all(cases)) expect([answer.status, await answer.json()]).toEqual([404, { detail: "Run not found", error_type: "not_found" }]);
    }
  });

  it.each(["after=x", "after=-2", "wait=31", "wait=-1", "wait=soon"])("?%s is 422", async (query) => {
    expect((await call(`/agents/echo/runs/${crypto.randomUUID()}/events?${query}`)).status).toBe(422);
  });

  it("a Last-Event-ID that is no index is 422", async () => {
    expect((await call(`/agents/echo/runs/${crypto.randomUUID()}/events`, { headers: { "last-event-id": "abc" } })).status).toBe(422);
  });
});

describe("a session's socket", () => {
  it("opens with an upgrade, with or without an origin, and without one says what is wanted", async () => {
    const openings: Record<string, string>[] = [{ upgrade: "websocket" }, { upgrade: "WebSocket", origin: "http://localhost:3000", "x-request-id": "mine" }];
    for (const headers of openings) {
      const opened = await call("/sessions/talk/socket", { headers });
      expect(opened.status).toBe(101);
      const socket = opened.webSocket!;
      const said = new Promise<any>((resolve) => socket.addEventListener("message", (message) => resolve(JSON.parse(message.data as string)), { once: true }));
      socket.accept();
      expect(await said).toMatchObject({ event: "connected", session_id: "talk" });
      socket.close(1000, "Enough.");
    }
    const plain = await call("/sessions/talk/socket");
    expect([plain.status, plain.headers.get("upgrade"), await plain.json()]).toMatchObject([426, "websocket", { detail: expect.stringContaining("Upgrade: websocket") }]);
  });

  it("there is none for what can be no session", async () => {
    expect((await call(`/sessions/${"x".repeat(300)}/socket`, { headers: { upgrade: "websocket" } })).status).toBe(404);
  });
});

describe("when the session's object is reset in mid-turn", () => {
  it("a client that waits for the run's end still gets it", async () => {
    const waiting = start("held", { message: "reset-1", session_id: "reset", stream: "false" });
    await gateReached("reset-1");
    await abortAllDurableObjects();
    // The wait finds its stream broken and follows again, which is what wakes the object: the model is asked once more.
    await gateReached("reset-1", 2);
    releaseGate("reset-1");
    expect(await (await waiting).json()).toMatchObject({ status: "COMPLETED", content: "One two" });
  });

  it("a stream breaks without an end, and goes on where it was when the client comes back", async () => {
    const stream = frames(await start("held", { message: "reset-2", session_id: "reset" }));
    const before = await until(stream, (frame) => frame.event === "RunContent");
    await abortAllDurableObjects();
    const rest = await all(stream).catch(() => []);
    expect(rest.map((frame) => frame.event)).not.toContain("RunCompleted");
    const { run_id } = before[0]!.data;
    const again = frames(await call(`/agents/held/runs/${run_id}/events?session_id=reset&after=${before.at(-1)!.id}`, { headers: { accept: "text/event-stream" } }));
    const retried = await until(again, (frame) => frame.event === "RunRetry");
    expect(retried.at(-1)!.data).toMatchObject({ reason: "crash", attempt: 2 });
    releaseGate("reset-2");
    expect((await all(again)).at(-1)).toMatchObject({ event: "RunCompleted", data: { content: "One two" } });
  });
});

describe("when the session's object is lost", () => {
  it("a run that has ended is still read, listed and replayed from the database", async () => {
    const run = await finish("echo", { message: "keep me", session_id: "lost" });
    await vi.waitFor(async () => expect(await env.DB.prepare("SELECT status FROM runs WHERE run_id = ?").bind(run.run_id).first("status")).toBe("completed"));
    // The rows of another object's life: D1 knows the session, and the object of this name has never run.
    await env.DB.batch([
      env.DB.prepare("UPDATE sessions SET session_id = 'moved', document = replace(document, '\"lost\"', '\"moved\"') WHERE session_id = 'lost'"),
      env.DB.prepare("UPDATE runs SET session_id = 'moved', document = replace(document, '\"lost\"', '\"moved\"') WHERE session_id = 'lost'"),
    ]);
    expect(await read("echo", run.run_id, "moved")).toMatchObject({ run_id: run.run_id, content: "You said: keep me", status: "COMPLETED" });
    expect(await (await call("/agents/echo/runs?session_id=moved")).json()).toMatchObject([{ run_id: run.run_id }]);
    expect((await call(`/agents/held/runs/${run.run_id}?session_id=moved`)).status).toBe(404);

    const resumed = await framesOf(await call(`/agents/echo/runs/${run.run_id}/resume`, form({ session_id: "moved" })));
    expect(resumed[0]).toMatchObject({ event: "replay", data: { status: "COMPLETED", total_events: resumed.length - 1 } });
    expect(resumed.at(-1)).toMatchObject({ event: "RunCompleted", data: { content: "You said: keep me", session_id: "moved" } });
    const polled = await (await call(`/agents/echo/runs/${run.run_id}/events?session_id=moved&after=0`)).json<any>();
    expect(polled).toMatchObject({ ended: true, status: "COMPLETED" });
    const last = polled.events.at(-1).event_index;
    expect((await call(`/agents/echo/runs/${run.run_id}/events?session_id=moved&after=${last}`, { headers: { accept: "text/event-stream" } })).status).toBe(204);
  });
});
