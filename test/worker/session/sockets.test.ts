import { describe, expect, it, vi } from "vitest";
import { releaseGate } from "../../../src/models/scripted.ts";
import { ask, background, crash, evict, expectValidLog, fireAlarm, newSessionId, readLog, request, rowsIn, untilStatus, type WireEvent } from "./harness.ts";

/** A client's end of a session's socket, with everything it was told. */
async function connect(sessionId: string) {
  const response = await request(`/sessions/${encodeURIComponent(sessionId)}/socket`, { headers: { upgrade: "websocket" } });
  expect(response.status).toBe(101);
  const socket = response.webSocket as WebSocket;
  const frames: WireEvent[] = [];
  socket.addEventListener("message", (message) => frames.push(JSON.parse(message.data as string)));
  socket.accept();
  return {
    frames,
    say: (message: object) => socket.send(JSON.stringify(message)),
    raw: (text: string) => socket.send(text),
    close: () => socket.close(1000),
    until: (name: string) =>
      vi.waitFor(
        () => {
          const found = frames.find(({ event }) => event === name);
          expect(found, `${name} among ${frames.map(({ event }) => event).join(" ")}`).toBeDefined();
          return found as WireEvent;
        },
        { timeout: 5_000, interval: 5 },
      ),
    indexed: () => frames.filter(({ event_index }) => event_index !== undefined),
  };
}

describe("a session's socket", () => {
  it("starts a run, follows it to its end, and answers by ref", async () => {
    const socket = await connect(newSessionId());
    await socket.until("connected");
    socket.say({ action: "start", agent_id: "words", message: "hello /call:ping", ref: "r1" });
    expect(await socket.until("accepted")).toMatchObject({ ref: "r1", run_id: expect.any(String) });
    await socket.until("RunCompleted");
    expectValidLog(socket.indexed());
  });

  it("follows any run from a cursor, with nothing lost and nothing twice", async () => {
    const session = newSessionId();
    const run = await background(session, "a b c /gate:socket-follow d");
    const socket = await connect(session);
    socket.say({ action: "follow", run_id: run, after: 2 });
    await vi.waitFor(() => expect(socket.indexed().length).toBeGreaterThan(0), { timeout: 5_000 });
    releaseGate("socket-follow");
    await socket.until("RunCompleted");
    const log = await readLog(session, run);
    expect(socket.indexed()).toEqual(log.filter(({ event_index }) => event_index > 2));
  });

  it("P12 hibernates and goes on where it was", async () => {
    const session = newSessionId();
    await ask(session, "before");
    const socket = await connect(session);
    await socket.until("connected");
    await evict(session);
    socket.say({ action: "start", agent_id: "words", message: "after" });
    const { run_id } = await socket.until("accepted");
    await socket.until("RunCompleted");
    expect(socket.indexed()).toEqual(await readLog(session, run_id));
    expect(await rowsIn(session, "timers")).not.toContainEqual(expect.objectContaining({ name: "lease" }));
  });

  it("C027 a socket hears of a cancel that came from elsewhere", async () => {
    const session = newSessionId();
    const run = await background(session, "a /gate:socket-cancel b");
    const socket = await connect(session);
    socket.say({ action: "follow", run_id: run });
    await socket.until("RunContent");
    await request(`/agents/words/runs/${run}/cancel?session_id=${session}`, { method: "POST" });
    await socket.until("RunCancelled");
    expectValidLog(socket.indexed());
  });

  it("cancels", async () => {
    const session = newSessionId();
    const socket = await connect(session);
    socket.say({ action: "start", agent_id: "words", message: "a /gate:socket-cancels b" });
    const { run_id } = await socket.until("accepted");
    socket.say({ action: "cancel", run_id, ref: "c" });
    expect(await socket.until("cancel_accepted")).toMatchObject({ run_id, ref: "c" });
    await socket.until("RunCancelled");
    await untilStatus(session, run_id, "CANCELLED");
  });

  it("S353 refuses a second turn, by name", async () => {
    const session = newSessionId();
    const run = await background(session, "/gate:socket-busy x");
    const socket = await connect(session);
    socket.say({ action: "start", agent_id: "words", message: "me too", ref: "busy" });
    expect(await socket.until("error")).toMatchObject({ error_type: "session_busy", run_id: run, ref: "busy" });
    releaseGate("socket-busy");
  });

  it("C076 junk gets an error frame each, and hurts nobody", async () => {
    const session = newSessionId();
    const socket = await connect(session);
    const junk = ["not json", '"text"', "[]", '{"action":"dance"}', '{"action":"follow"}', '{"action":"follow","run_id":"nobody"}', '{"action":"start","agent_id":"nobody","message":"x"}', '{"action":"start","agent_id":"words","message":""}'];
    for (const text of junk) socket.raw(text);
    await vi.waitFor(() => expect(socket.frames.filter(({ event }) => event === "error")).toHaveLength(junk.length), { timeout: 5_000 });
    for (const frame of socket.frames.slice(1)) expect(frame).toMatchObject({ error: expect.any(String), error_type: expect.any(String) });
    socket.say({ action: "start", agent_id: "words", message: "still here" });
    await socket.until("RunCompleted");
  });

  it("answers a ping without waking the object", async () => {
    const session = newSessionId();
    const socket = await connect(session);
    await evict(session);
    socket.raw('{"action":"ping"}');
    await socket.until("pong");
  });

  it("is asked for with an upgrade, or told so", async () => {
    const answer = await request(`/sessions/${newSessionId()}/socket`);
    expect(answer.status).toBe(426);
  });

  it("C027 a follower of a run that a crash took hears the next attempt and the end", async () => {
    const session = newSessionId();
    const run = await background(session, "a b /gate:socket-crash c");
    await vi.waitFor(async () => expect((await rowsIn(session, "events")).length).toBeGreaterThan(1), { timeout: 5_000 });
    await crash();
    releaseGate("socket-crash");
    await fireAlarm(session);
    const socket = await connect(session);
    socket.say({ action: "follow", run_id: run });
    await socket.until("RunCompleted");
    expectValidLog(socket.indexed());
  });
});
