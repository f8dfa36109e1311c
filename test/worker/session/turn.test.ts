import { env } from "cloudflare:workers";
import { releaseGate } from "../../../src/models/scripted.ts";
import { describe, expect, it, vi } from "vitest";
import { toolRuns, wordsModel } from "./agents.ts";
import { ask, background, crash, evict, expectValidLog, fireAlarm, getRun, inObject, newSessionId, reading, readLog, request, rowsIn, shownText, start, untilStatus } from "./harness.ts";

const lastRequest = () => wordsModel.requests.at(-1)!;
const readLogUntilLive = async (sessionId: string, runId: string) => {
  const stream = reading(await request(`/agents/words/runs/${runId}/events?session_id=${sessionId}`, { headers: { accept: "text/event-stream" } }));
  await stream.until("RunStarted");
  return stream;
};
const runsIn = async (sessionId: string) => (await (await request(`/sessions/${sessionId}/runs`)).json()) as Record<string, unknown>[];

describe("one turn at a time", () => {
  it("S17 a second turn is refused before a stream opens, names the run, and leaves nothing", async () => {
    const session = newSessionId();
    const first = reading(await start(session, "one /gate:s17 two"));
    const { run_id } = await first.until("RunContent");
    for (const fields of [{}, { stream: "false" }, { background: "true" }, { stream: "false", background: "true" }] as Record<string, string>[]) {
      const refused = await start(session, "me too", fields);
      expect(refused.status).toBe(409);
      expect(await refused.json()).toMatchObject({ error_type: "session_busy", run_id, detail: expect.any(String) });
    }
    expect(await runsIn(session)).toHaveLength(1);
    expect(await rowsIn(session, "runs")).toHaveLength(1);
    releaseGate("s17");
    expectValidLog(await first.rest());
    expect((await ask(session, "now me")).content).toContain("now me");
  });

  it("S353 turns that were asked to wait start in the order they came, and an interrupting one goes first", async () => {
    const session = newSessionId();
    const holder = await background(session, "/gate:s353-a holder");
    const second = await background(session, "second", { on_busy: "enqueue" });
    const third = await background(session, "third", { on_busy: "enqueue" });
    expect((await getRun(session, second)).status).toBe("PENDING");
    const urgent = await background(session, "urgent", { on_busy: "interrupt" });
    expect((await untilStatus(session, holder, "CANCELLED")).status).toBe("CANCELLED");
    for (const run of [urgent, second, third]) await untilStatus(session, run, "COMPLETED");
    const started = (await Promise.all([urgent, second, third].map((run) => readLog(session, run)))).map(([first]) => first!.created_at as number);
    expect(started).toEqual([...started].sort((a, b) => a - b));
  });

  it("S353 a session takes a hundred waiting turns and refuses the next with 429", async () => {
    const session = newSessionId();
    await background(session, "/gate:s353-full holder");
    for (let count = 0; count < 100; count += 1) await background(session, `${count}`, { on_busy: "enqueue" });
    const refused = await start(session, "too many", { on_busy: "enqueue" });
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).not.toBeNull();
    expect(await rowsIn(session, "runs")).toHaveLength(101);
    await request(`/sessions/${session}`, { method: "DELETE" });
  });

  it("C016 ten starts at once on a session that does not exist yet: one is accepted", async () => {
    const session = newSessionId();
    const answers = await Promise.all(Array.from({ length: 10 }, (_, index) => start(session, "/gate:c016 x", index % 2 === 0 ? { background: "true", stream: "false" } : { background: "true" })));
    const statuses = answers.map((answer) => answer.status).sort();
    expect(statuses.filter((status) => status === 409)).toHaveLength(9);
    expect(await rowsIn(session, "runs")).toHaveLength(1);
    releaseGate("c016");
  });
});

describe("a turn that is lost", () => {
  it("S364 is taken up again by the alarm, with the same id and no undeclared gap", async () => {
    const session = newSessionId();
    const stream = reading(await start(session, "one two /gate:s364 three", { on_disconnect: "keep" }));
    const { run_id } = await stream.until("RunContent");
    await stream.until("RunContent");
    await crash();
    releaseGate("s364");
    await fireAlarm(session);
    await untilStatus(session, run_id, "COMPLETED");
    const log = await readLog(session, run_id);
    expectValidLog(log);
    expect(log.filter(({ event }) => event === "RunRetry")).toMatchObject([{ attempt: 2, max_attempts: 3, reason: "crash", discarded: { from: expect.any(Number), to: expect.any(Number) } }]);
    // What was told before the crash is in the log, or in the range that does not count.
    const [retry] = log.filter(({ event }) => event === "RunRetry");
    const { from, to } = retry!.discarded as { from: number; to: number };
    for (const seen of stream.events) expect(log.some((event) => event.event_index === seen.event_index && event.event === seen.event) || (from <= seen.event_index && seen.event_index <= to)).toBe(true);
    expect(shownText(log)).toBe((await getRun(session, run_id)).content);
  });

  it("P4 a finished call answers from the ledger: it does not run again", async () => {
    const session = newSessionId();
    const run = await background(session, '/call:charge:{"amount":5} /then:p4-done');
    await vi.waitFor(async () => expect((await getRun(session, run)).tools?.[0]?.result).toBe('{"charged":5}'), { timeout: 5_000 });
    await crash();
    releaseGate("p4-done");
    await fireAlarm(session);
    const ended = await untilStatus(session, run, "COMPLETED");
    expect(ended.content).toContain('results: {"charged":5}');
    expect(toolRuns.get("charge")!.filter((key) => key.startsWith(run))).toHaveLength(1);
  });

  it("P4 a call that was under way and may have happened is not repeated: the run waits for someone to say", async () => {
    const session = newSessionId();
    const run = await background(session, "/call:wait_for_ever");
    await vi.waitFor(() => expect(toolRuns.get("wait_for_ever")?.some((key) => key.startsWith(run))).toBe(true), { timeout: 5_000 });
    await crash();
    await fireAlarm(session);
    const waits = await untilStatus(session, run, "PAUSED");
    expect(waits.tools).toMatchObject([{ tool_name: "wait_for_ever", tool_call_error: true, result: expect.stringContaining("may have happened") }]);
    expect(toolRuns.get("wait_for_ever")!.filter((key) => key.startsWith(run))).toHaveLength(1);
    expect((await rowsIn(session, "effects")).map((row) => JSON.parse(row.data as string))).toMatchObject([{ status: "unknown", requirement: { kind: "unknown_outcome" } }]);
    // It does not hold the session, and the next turn sees nothing of it.
    expect((await ask(session, "still there?")).status).toBe("COMPLETED");
    expect(lastRequest().messages.map((message) => message.role)).toEqual(["user"]);
    const answered = await request(`/agents/words/runs/${run}/continue`, { form: { session_id: session, stream: "false", tools: JSON.stringify([{ tool_call_id: waits.tools[0].tool_call_id, outcome: "happened", result: "it did" }]) } });
    expect(await answered.json()).toMatchObject({ status: "COMPLETED", run_id: run, content: expect.stringContaining("it did") });
    expect(toolRuns.get("wait_for_ever")!.filter((key) => key.startsWith(run))).toHaveLength(1);
  });

  it("C050 attempts count since the last progress, and a run that makes none is given up", async () => {
    const session = newSessionId();
    const run = await background(session, "/hang");
    for (let lost = 0; lost < 3; lost += 1) {
      await crash();
      await fireAlarm(session);
    }
    const ended = await untilStatus(session, run, "ERROR");
    expect(ended.error_type).toBe("attempts_exhausted");
    const log = await readLog(session, run);
    expectValidLog(log);
    expect((await ask(session, "go on")).status).toBe("COMPLETED");
  });

  it("S275 S276 an attempt that was overtaken writes nothing more, and the one that has the run ends it", async () => {
    const session = newSessionId();
    const run = await background(session, "first /gate:s276 words");
    await vi.waitFor(async () => expect((await rowsIn(session, "events")).length).toBeGreaterThan(1), { timeout: 5_000 });
    await inObject(session, (state) => void state.storage.sql.exec("UPDATE runs SET attempt = 7"));
    releaseGate("s276");
    const ended = await untilStatus(session, run, "COMPLETED");
    expect(ended.messages.filter((message: { role: string }) => message.role === "assistant")).toHaveLength(1);
    const log = await readLog(session, run);
    expectValidLog(log);
    expect(log.filter(({ event }) => event === "RunRetry")).toHaveLength(1);
    expect((await rowsIn(session, "runs"))[0]).toMatchObject({ status: "completed" });
  });

  it("C012 a follower that resumes a lost run hears its end", async () => {
    const session = newSessionId();
    const stream = reading(await start(session, "a b c /gate:c012 d", { background: "true" }));
    const { run_id } = await stream.until("RunContent");
    await crash();
    releaseGate("c012");
    // Nothing but this request touches the object: it is what takes the turn up.
    const log = await readLog(session, run_id);
    expectValidLog(log);
  });
});

describe("cancel", () => {
  it("C001 C025 in the middle of a call frees the session at once and leaves a valid history", async () => {
    const session = newSessionId();
    const stream = reading(await start(session, "/call:wait_for_ever"));
    const { run_id } = await stream.until("ToolCallStarted");
    expect((await request(`/agents/words/runs/${run_id}/cancel?session_id=${session}`, { method: "POST" })).status).toBe(200);
    const next = await ask(session, "still there?");
    expect(next.status).toBe("COMPLETED");
    const log = await stream.rest();
    expectValidLog(log);
    expect(log.at(-1)).toMatchObject({ event: "RunCancelled", unfinished: [expect.any(String)] });
    const cancelled = await getRun(session, run_id);
    expect(cancelled.tools[0]).toMatchObject({ result: "cancelled while running; it may have happened", tool_call_error: true });
    expect(lastRequest().messages.every((message) => message.role !== "assistant" || message.toolCalls.length === 0)).toBe(true);
  });

  it("C023 keeps the partial answer", async () => {
    const session = newSessionId();
    const stream = reading(await start(session, "Step one is A. /gate:c023 Step two"));
    const { run_id } = await stream.until("RunContent");
    for (let words = 1; words < 4; words += 1) await stream.until("RunContent");
    await request(`/agents/words/runs/${run_id}/cancel?session_id=${session}`, { method: "POST" });
    const log = await stream.rest();
    const run = await getRun(session, run_id);
    expect(run).toMatchObject({ status: "CANCELLED", content: shownText(log) });
    expect(run.content).toContain("Step one is");
    expect(run.messages.map((message: { role: string }) => message.role)).toEqual(["user", "assistant"]);
  });

  it("S357 of a waiting turn: it never starts", async () => {
    const session = newSessionId();
    const holder = await background(session, "/gate:s357 x");
    const waiting = await background(session, "never", { on_busy: "enqueue" });
    await request(`/agents/words/runs/${waiting}/cancel?session_id=${session}`, { method: "POST" });
    expect((await getRun(session, waiting)).status).toBe("CANCELLED");
    releaseGate("s357");
    await untilStatus(session, holder, "COMPLETED");
    const log = await readLog(session, waiting);
    expect(log.map(({ event, event_index }) => [event, event_index])).toEqual([["RunCancelled", 0]]);
  });

  it("S32 of a run that nobody knows is accepted, and of a finished one changes nothing", async () => {
    const session = newSessionId();
    const { run_id } = await ask(session, "hello");
    for (const run of [run_id, crypto.randomUUID()]) {
      const answer = await request(`/agents/words/runs/${run}/cancel?session_id=${session}`, { method: "POST" });
      expect([answer.status, await answer.json()]).toEqual([200, {}]);
    }
    expect((await getRun(session, run_id)).status).toBe("COMPLETED");
  });
});

describe("a client that goes away", () => {
  it("C073 ends its run after the grace, unless someone comes to look", async () => {
    const session = newSessionId();
    const stream = reading(await start(session, "a /gate:c073 b", { on_disconnect: "60" }));
    const { run_id } = await stream.until("RunContent");
    await stream.drop();
    await vi.waitFor(async () => expect((await rowsIn(session, "timers")).map((row) => row.name)).toContain(`grace:${run_id}`), { timeout: 20_000 });
    // A look within the grace is a follower: the grace begins anew when it ends.
    await request(`/agents/words/runs/${run_id}/events?session_id=${session}`);
    expect((await getRun(session, run_id)).status).toBe("RUNNING");
    await inObject(session, (state) => void state.storage.sql.exec("UPDATE timers SET at = 0 WHERE name LIKE 'grace:%'"));
    await fireAlarm(session);
    expect((await untilStatus(session, run_id, "CANCELLED")).status).toBe("CANCELLED");
  });
});

describe("what is stored", () => {
  it("S116 S134 S136 runs, state, events and usage stay with the session, and the next turn sees them", async () => {
    const session = newSessionId();
    const first = await ask(session, '/call:remember:{"key":"plan","value":"pro"}', { session_state: '{"visits":1}' });
    expect(first).toMatchObject({ status: "COMPLETED", session_state: { visits: 1, plan: "pro" }, metrics: { input_tokens: 30 } });
    const run = await getRun(session, first.run_id);
    expect(run.events.at(-1).event).toBe("RunCompleted");
    expect(run.events.some((event: { event: string }) => event.event === "RunContent")).toBe(false);
    await ask(session, "and again");
    expect(await runsIn(session)).toHaveLength(2);
    const roles = lastRequest().messages.map((message) => message.role);
    expect(roles).toEqual(["user", "assistant", "tool", "assistant", "user"]);
    const detail = (await (await request(`/sessions/${session}`)).json()) as Record<string, any>;
    expect(detail).toMatchObject({ session_state: { visits: 1, plan: "pro" }, agent_id: "words" });
    expect(detail.total_tokens).toBe(first.metrics.total_tokens + 14);
  });

  it("reading a run while it is written leaves its log alone", async () => {
    const session = newSessionId();
    const run = await background(session, "a b /gate:read-1 c /gate:read-2 d");
    for (const name of ["read-1", "read-2"]) {
      await getRun(session, run);
      await request(`/agents/words/runs/${run}/events?session_id=${session}`);
      await (await readLogUntilLive(session, run)).drop();
      releaseGate(name);
    }
    await untilStatus(session, run, "COMPLETED");
    const log = await readLog(session, run);
    expect(log.map(({ event_index }) => event_index)).toEqual(log.map((_, index) => index));
    expectValidLog(log);
  });

  it("S170 S171 S270 a run keeps its own messages, and those it was shown only where the agent asks for it", async () => {
    const kept: Record<string, number[]> = { words: [], hoarder: [] };
    for (const agent of ["words", "hoarder"]) {
      const session = newSessionId();
      for (let turn = 0; turn < 4; turn += 1) {
        const { run_id } = await ask(session, `turn ${turn}`, {}, agent);
        kept[agent]!.push((await getRun(session, run_id, agent)).messages.length);
      }
      // Kept with the run or not, the model sees each earlier message once.
      expect(lastRequest().messages.filter((message) => message.role === "user").map((message) => message.content)).toEqual(["turn 0", "turn 1", "turn 2", "turn 3"]);
    }
    expect(kept).toEqual({ words: [2, 2, 2, 2], hoarder: [2, 4, 6, 8] });
  });

  it("S117 S274 an eviction changes nothing that can be read", async () => {
    const session = newSessionId();
    const { run_id } = await ask(session, "hello /call:ping");
    const before = [await getRun(session, run_id), await runsIn(session), await (await request(`/sessions/${session}`)).json()];
    await evict(session);
    expect([await getRun(session, run_id), await runsIn(session), await (await request(`/sessions/${session}`)).json()]).toEqual(before);
  });

  it("what others change in the state while a turn runs is not lost", async () => {
    const session = newSessionId();
    await ask(session, "hello", { session_state: '{"mine":1}' });
    const run = await background(session, '/call:remember:{"key":"theirs","value":"2"} /then:state');
    await vi.waitFor(async () => expect((await getRun(session, run)).tools?.[0]?.result).toBe("kept"), { timeout: 5_000 });
    await request(`/sessions/${session}`, { method: "PATCH", headers: { "content-type": "application/json" }, body: JSON.stringify({ session_state: { mine: 3, theirs: "2" } }) });
    releaseGate("state");
    await untilStatus(session, run, "COMPLETED");
    expect(((await (await request(`/sessions/${session}`)).json()) as Record<string, any>).session_state).toEqual({ mine: 3, theirs: "2" });
  });

  it("S81 after the retention the log is short and says the same", async () => {
    const session = newSessionId();
    const { run_id } = await ask(session, "a b c d /call:ping");
    const before = await readLog(session, run_id);
    await inObject(session, (state) => {
      state.storage.sql.exec("UPDATE runs SET ended_at = 1");
      state.storage.sql.exec("UPDATE timers SET at = 0 WHERE name = 'retention'");
    });
    await fireAlarm(session);
    const after = await readLog(session, run_id);
    const contentOf = (events: typeof before) => events.filter(({ event }) => event === "RunContent").map(({ content }) => content).join("");
    expect(contentOf(after)).toBe(contentOf(before));
    expect(after.filter(({ event }) => event !== "RunContent")).toEqual(before.filter(({ event }) => event !== "RunContent"));
    const compacted = after.filter(({ event }) => event === "RunContent");
    expect(compacted.length).toBeLessThan(before.filter(({ event }) => event === "RunContent").length);
    // A cursor inside a range gets the event that stands for it.
    const { from, to } = compacted[0]!.compacted as { from: number; to: number };
    expect(compacted[0]!.event_index).toBe(to);
    const [next] = await readLog(session, run_id, from);
    expect(next!.event_index).toBe(to);
  });

  it("reading what does not exist makes no tables", async () => {
    const session = newSessionId();
    expect((await request(`/sessions/${session}`)).status).toBe(404);
    expect((await request(`/agents/words/runs/${crypto.randomUUID()}?session_id=${session}`)).status).toBe(404);
    expect(await inObject(session, (state) => state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray())).toEqual([]);
  });

  it("C120 tables of a newer release are refused and not touched", async () => {
    const session = newSessionId();
    await ask(session, "hello");
    await inObject(session, (state) => void state.storage.sql.exec("UPDATE meta SET value = '99' WHERE key = 'schema'"));
    await evict(session);
    const refused = await start(session, "again");
    expect(refused.status).toBe(503);
    expect(((await refused.json()) as { detail: string }).detail).toContain("newer release");
    expect(await rowsIn(session, "runs")).toHaveLength(1);
  });
});

describe("D1", () => {
  it("P9 being down loses nothing: what it must know is delivered later", async () => {
    const session = newSessionId();
    await ask(session, "while D1 is there");
    await env.DB.exec("ALTER TABLE runs RENAME TO runs_away");
    const { run_id } = await ask(session, "while you were out");
    expect((await getRun(session, run_id)).status).toBe("COMPLETED");
    await env.DB.exec("ALTER TABLE runs_away RENAME TO runs");
    await fireAlarm(session);
    await vi.waitFor(async () => expect(await env.DB.prepare("SELECT status FROM runs WHERE run_id = ?").bind(run_id).first("status")).toBe("completed"), { timeout: 5_000 });
  });

  it("the end of a run is in the list when it is told", async () => {
    const session = newSessionId();
    const { run_id } = await ask(session, "hello");
    expect(await env.DB.prepare("SELECT status FROM runs WHERE run_id = ?").bind(run_id).first("status")).toBe("completed");
  });

  it("S7 fills an object that lost its storage, with history, and the lost run says so", async () => {
    const session = newSessionId();
    await ask(session, "remember the milk");
    const lost = await background(session, "/gate:lost x");
    await vi.waitFor(async () => expect(await env.DB.prepare("SELECT status FROM runs WHERE run_id = ?").bind(lost).first("status")).toBe("running"), { timeout: 5_000 });
    await inObject(session, (state) => state.storage.deleteAll());
    await crash();
    const next = await ask(session, "what?");
    expect(next.status).toBe("COMPLETED");
    expect(lastRequest().messages.map((message) => message.content)).toEqual(expect.arrayContaining(["remember the milk", "what?"]));
    expect(await getRun(session, lost)).toMatchObject({ status: "ERROR", error_type: "object_lost" });
    expect((await runsIn(session)).map((run) => run.status)).toEqual(["COMPLETED", "ERROR", "COMPLETED"]);
  });
});

describe("delete", () => {
  it("stops the turn, drops every row here and in D1, and lets the id be used again", async () => {
    const session = newSessionId();
    await ask(session, "first life");
    const stream = reading(await start(session, "/gate:never x"));
    await stream.until("RunStarted");
    expect((await request(`/sessions/${session}`, { method: "DELETE" })).status).toBe(204);
    expect((await stream.rest()).at(-1)?.event).toBe("RunCancelled");
    expect((await request(`/sessions/${session}`)).status).toBe(404);
    expect(await env.DB.prepare("SELECT COUNT(*) AS n FROM runs WHERE session_id = ?").bind(session).first("n")).toBe(0);
    expect(await env.DB.prepare("SELECT COUNT(*) AS n FROM sessions WHERE session_id = ?").bind(session).first("n")).toBe(0);
    const again = await ask(session, "second life");
    expect(again.status).toBe("COMPLETED");
    expect(lastRequest().messages.map((message) => message.content)).toEqual(["second life"]);
    expect(await runsIn(session)).toHaveLength(1);
    expect(await env.DB.prepare("SELECT COUNT(*) AS n FROM runs WHERE session_id = ?").bind(session).first("n")).toBe(1);
  });

  it("is idempotent", async () => {
    const session = newSessionId();
    expect((await request(`/sessions/${session}`, { method: "DELETE" })).status).toBe(204);
    expect((await request(`/sessions/${session}`, { method: "DELETE" })).status).toBe(204);
  });
});
