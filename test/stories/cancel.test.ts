import { describe, expect, test } from "vitest";
import { call, callScript, calls, end, gate, http, say, script } from "../fakes/script.ts";
import { historyProblems, holesIn, logProblems, seenProblems } from "./harness/checks.ts";
import type { Client, KnownRun, WireRun } from "./harness/client.ts";
import { isTerminal } from "./harness/event-stream.ts";
import { answer, startStory } from "./harness/story.ts";
import { until } from "./harness/until.ts";

const story = await startStory();
const { chat, provider, world } = story;

const plain = chat.as("plain");
const patient = chat.as("patient");

const runsOf = async (sessionId: string) => (await chat.get<WireRun[]>(`/sessions/${sessionId}/runs`)).body;

/** The run that a session has, for a client whose answer only comes at the run's end. */
async function runIn(sessionId: string, place = 0): Promise<KnownRun> {
  const run = await until("the session to have the run", async () => {
    const { status, body } = await chat.get<WireRun[]>(`/sessions/${sessionId}/runs`);
    return status === 200 && body[place];
  });
  return { runId: run.run_id, sessionId };
}

/** Ends a test as every case does: the session takes a normal turn, and the model sees a history that is valid. */
async function takesTheNextTurn(client: Client, sessionId: string): Promise<Record<string, any>[]> {
  const key = story.key("next");
  story.play(key, answer("yes"));
  expect((await client.run(`still there? #${key}`, { session_id: sessionId })).body).toMatchObject({ status: "COMPLETED", content: "yes" });
  const requests = provider.requests(key);
  expect(requests).toHaveLength(1);
  expect(historyProblems(requests, [`still there? #${key}`])).toEqual([]);
  return requests[0]!.body.messages as Record<string, any>[];
}

describe("cancelled in the middle of a tool", () => {
  test.each([
    ["chat", "streamed"],
    ["claude", "streamed"],
    ["chat", "non-streamed"],
    ["claude", "background"],
    ["plain", "background"],
  ])("C001 the session of %s lives on after a %s run was cancelled in a tool", async (agent, shape) => {
    const client = chat.as(agent);
    const key = story.key("c001");
    const sessionId = `s-${key}`;
    story.play(key, script(say("Let me see. "), call("t1", "slow", { ms: 60_000 }), end("tool")));
    const message = `please #${key}`;
    const pending =
      shape === "streamed" ? client.started(message, { session_id: sessionId }) : shape === "background" ? client.background(message, { session_id: sessionId }) : client.run(message, { session_id: sessionId });
    const run = await runIn(sessionId);
    await until("the tool to run", async () => (await client.log(run)).some(({ event }) => event === "ToolCallStarted"));

    expect(await client.cancel(run)).toMatchObject({ status: 200, body: {} });
    const read = await client.over(run, 1_000);
    expect(read).toMatchObject({ status: "CANCELLED", content: "Let me see. " });
    const log = await client.log(run);
    expect(logProblems(log)).toEqual([]);
    // The call was under way: nobody may say that it did not happen, or that it did.
    expect(read.tools).toMatchObject([{ tool_call_id: "t1", tool_call_error: true, result: expect.stringContaining("may have happened") }]);
    expect(log.at(-1)).toMatchObject({ event: "RunCancelled", unfinished: ["t1"] });
    if (shape === "non-streamed") expect(await pending).toMatchObject({ status: 200, body: { status: "CANCELLED" } });

    const history = await takesTheNextTurn(client, sessionId);
    const shown = JSON.stringify(history);
    // Both the call and its result, or neither: by default what was cancelled is left out as a whole.
    expect(shown.includes("t1")).toBe(agent !== "plain");
    expect(shown.includes("may have happened")).toBe(agent !== "plain");
  });

  const twoCalls = (key: string) => script(calls(callScript("s1", "slow_alone", { ms: 60_000 }), callScript("p1", "charge_alone", { tag: key })), end("tool"));

  /** What holds in all variants: heard within a second, the stream closed, nothing more was called or asked. */
  async function endsWithin(aSecond: number, run: KnownRun, key: string, requests: number): Promise<void> {
    const read = await chat.over(run, aSecond);
    expect(read.status).toBe("CANCELLED");
    expect(logProblems(await chat.log(run))).toEqual([]);
    await takesTheNextTurn(chat, run.sessionId);
    expect(world.acts(key)).toEqual([]);
    expect(provider.requests(key)).toHaveLength(requests);
  }

  test("C025 the stream ends, the next tool does not start, the model is not asked again", async () => {
    const key = story.key("c025");
    story.play(key, twoCalls(key));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("the first tool", ({ event }) => event === "ToolCallStarted");
    await chat.cancel(run);
    const seen = await stream.ended(1_000);
    expect(seen.at(-1)).toMatchObject({ event: "RunCancelled" });
    await endsWithin(1_000, run, key, 1);
  });

  test("C025 a tool that is deaf to its signal changes nothing any more, whatever it does later", async () => {
    const key = story.key("deaf");
    story.play(key, script(call("d1", "deaf", { tag: `${key}-late`, g: key }), end("tool")));
    const { run, stream } = await chat.started(`go #${key}`);
    await world.reached(key);
    await chat.cancel(run);
    const seen = await stream.ended(1_000);
    await endsWithin(1_000, run, key, 1);
    const before = await chat.read(run);
    const log = await chat.log(run);

    world.release(key);
    await until("the deaf tool to act after all", () => world.effects(`${key}-late`) === 1);
    await takesTheNextTurn(chat, run.sessionId);
    expect(await chat.read(run)).toEqual(before);
    expect(await chat.log(run)).toEqual(log);
    expect(log).toEqual(seen);
  });

  test("C025 S357 a cancel during the model's second call closes that call", async () => {
    const key = story.key("second");
    story.play(key, script(call("l1", "lookup", { tag: `${key}-read` }), end("tool")), script(say("I found"), gate(key), say(" it"), end()));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("the second reply", ({ event }) => event === "RunContent");
    await chat.cancel(run);
    await stream.ended(1_000);
    await until("the model to be let go", () => provider.requests(key)[1]?.state === "closed-by-client", { withinMs: 1_000 });
    await endsWithin(1_000, run, key, 2);
    expect(await chat.read(run)).toMatchObject({ content: "I found" });
  });

  test("C025 the page was reloaded, and the cancel comes from the new connection", async () => {
    const key = story.key("reload");
    story.play(key, twoCalls(key));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("the first tool", ({ event }) => event === "ToolCallStarted");
    stream.drop();
    const resumed = await chat.resume(run, stream.lastIndex);
    await chat.cancel(run);
    const seen = await resumed.ended(1_000);
    expect(seen.at(-1)).toMatchObject({ event: "RunCancelled" });
    await endsWithin(1_000, run, key, 1);
  });
});

describe("what a cancel keeps and leaves", () => {
  test.each(["chat", "claude"])("C023 the partial answer is kept, and %s is shown it", async (agent) => {
    const client = chat.as(agent);
    const key = story.key("c023");
    story.play(key, script(say("Step one is A. "), say("Step two"), gate(key)));
    const { run, stream } = await client.started(`explain #${key}`);
    await stream.until("the second step", ({ content }) => content === "Step two");
    await client.cancel(run);
    await stream.ended(1_000);
    const read = await client.read(run);
    expect(read).toMatchObject({ status: "CANCELLED", content: "Step one is A. Step two" });
    expect(read.messages.map(({ role, content }) => ({ role, content }))).toEqual([
      { role: "user", content: `explain #${key}` },
      { role: "assistant", content: "Step one is A. Step two" },
    ]);
    await until("the model to be let go", () => provider.requests(key)[0]?.state === "closed-by-client", { withinMs: 1_000 });
    expect(JSON.stringify(await takesTheNextTurn(client, run.sessionId))).toContain("Step one is A. Step two");
  });

  test("S267 S273 by default a cancelled run is no history, and is still there to read", async () => {
    const key = story.key("s267");
    story.play(key, script(say("half an ans"), gate(key)));
    const { run, stream } = await plain.started(`ask #${key}`);
    await stream.until("half an answer", ({ event }) => event === "RunContent");
    await plain.cancel(run);
    await stream.ended(1_000);
    const shown = JSON.stringify(await takesTheNextTurn(plain, run.sessionId));
    expect(shown).not.toContain("half an ans");
    expect(shown).not.toContain(key);
    const read = await plain.read(run);
    expect(read.status).toBe("CANCELLED");
    expect(read.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  });

  test("S357 a run that waits for the line is cancelled where it stands, and never starts", async () => {
    const key = story.key("waits");
    story.play(`${key}-holder`, script(gate(key), say("held"), end()));
    const holder = await chat.background(`hold #${key}-holder`);
    const waiting = await chat.background(`wait #${key}-waiting`, { session_id: holder.sessionId, on_busy: "enqueue" });
    expect(await chat.read(waiting)).toMatchObject({ status: "PENDING" });
    const follower = await chat.follow(waiting);
    await chat.cancel(waiting);
    expect(await chat.over(waiting, 2_000)).toMatchObject({ status: "CANCELLED" });
    expect((await follower.ended(2_000)).map(({ event }) => event)).toEqual(["RunCancelled"]);
    provider.release(key);
    expect(await chat.over(holder)).toMatchObject({ status: "COMPLETED", content: "held" });
    await takesTheNextTurn(chat, holder.sessionId);
    expect(provider.requests(`${key}-waiting`)).toEqual([]);
    expect(await chat.read(waiting)).toMatchObject({ status: "CANCELLED" });
  });

  test("S357 a run between two retries is cancelled, and no attempt follows", async () => {
    const key = story.key("retries");
    story.play(key, script(http(503)));
    const { run, stream } = await patient.started(`go #${key}`);
    await stream.until("the retry to be told", ({ event }) => event === "RunRetry");
    await patient.cancel(run);
    const seen = await stream.ended(1_000);
    expect(seen.at(-1)?.event).toBe("RunCancelled");
    expect(logProblems(seen)).toEqual([]);
    await takesTheNextTurn(patient, run.sessionId);
    expect(provider.requests(key)).toHaveLength(1);
  });
});

describe("everyone who listens hears of the end", () => {
  /** Listeners of all kinds that take up the run again when their connection breaks, as real clients do. */
  async function listeners(run: KnownRun) {
    const socket = await chat.socket(run.sessionId);
    socket.send({ action: "follow", run_id: run.runId });
    const following = async (open: (after: number) => ReturnType<typeof chat.follow>) => {
      const seen = [];
      for (let broken = 0; broken < 20; broken += 1) {
        const stream = await open(seen.at(-1)?.event_index ?? -1);
        await stream.closed;
        seen.push(...stream.events);
        if (seen.some(isTerminal)) return seen;
      }
      throw new Error("The stream broke again and again.");
    };
    const listeners = [
      following((after) => chat.follow(run, { lastEventId: after })),
      following((after) => chat.resume(run, after)),
      (async () => {
        const seen = [];
        while (true) {
          const { status, body } = await chat.poll(run, seen.at(-1)?.event_index ?? -1, 5);
          // The object went down with the question; ask again.
          if (status >= 500) continue;
          seen.push(...body.events);
          if (body.ended) return seen;
        }
      })(),
    ];
    await socket.until("the socket to follow", () => true);
    return { socket, listeners };
  }

  test("C027 all of them get the cancel before their stream closes, and so does one that comes later", async () => {
    const key = story.key("c027");
    story.play(key, script(say("so far"), call("g1", "gate", { g: key }), end("tool")));
    const { run, stream } = await chat.started(`go #${key}`);
    const { socket, listeners: others } = await listeners(run);
    await world.reached(key);
    await chat.cancel(run);
    const log = await stream.ended(2_000);
    expect(log.at(-1)).toMatchObject({ event: "RunCancelled" });
    for (const seen of await Promise.all(others)) expect(seen).toEqual(log);
    await socket.end(run.runId, 2_000);
    expect(socket.of(run.runId)).toEqual(log);
    expect((await (await chat.resume(run)).ended()).at(-1)).toMatchObject({ event: "RunCancelled" });
    socket.drop();
    await takesTheNextTurn(chat, run.sessionId);
  });

  test("C027 all of them get a failure that came of a crash", async () => {
    const key = story.key("c027-crash");
    story.play(key, script(say("so far"), call("g1", "gate", { g: key }), end("tool")));
    const { run, stream } = await chat.started(`go #${key}`);
    const { socket, listeners: others } = await listeners(run);
    await world.reached(key);
    const closed = socket.closed;
    await story.evict(run.sessionId);
    expect(await stream.closed).toBe("broken");

    const read = await chat.over(run);
    expect(read).toMatchObject({ status: "ERROR", error_type: "tool_outcome_unknown" });
    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    for (const seen of await Promise.all(others)) expect([seenProblems(seen, log), holesIn(seen, -1, log)]).toEqual([[], []]);
    // A socket either outlives the object, or breaks and is opened again with the cursor that it had.
    if (!socket.of(run.runId).some(isTerminal)) {
      await closed;
      const again = await chat.socket(run.sessionId);
      again.send({ action: "follow", run_id: run.runId, after: socket.of(run.runId).at(-1)?.event_index ?? -1 });
      await again.end(run.runId);
      expect(holesIn([...socket.events, ...again.events], -1, log)).toEqual([]);
      again.drop();
    }
    socket.drop();
    // The gate was reached once: what may have happened was not repeated.
    expect(read.tools).toMatchObject([{ tool_call_id: "g1", tool_call_error: true }]);
    await takesTheNextTurn(chat, run.sessionId);
  });
});

describe("the session is free after every way in which a turn can end", () => {
  async function isFreeAfter(sessionId: string, client = chat) {
    const run = await runIn(sessionId);
    await client.over(run);
    expect(logProblems(await client.log(run))).toEqual([]);
    await takesTheNextTurn(client, sessionId);
  }

  test("C020 the model answers 500", async () => {
    const key = story.key("c020");
    story.play(key, script(http(500)));
    expect((await chat.run(`go #${key}`, { session_id: key })).body).toMatchObject({ status: "ERROR" });
    await isFreeAfter(key);
  });

  test("C020 a tool throws", async () => {
    const key = story.key("c020");
    story.play(key, script(call("b1", "breaks", { message: "no such luck" }), end("tool")), answer("it broke"));
    expect((await chat.run(`go #${key}`, { session_id: key })).body).toMatchObject({ status: "COMPLETED", content: "it broke" });
    expect(historyProblems(provider.requests(key))).toEqual([]);
    expect(JSON.stringify(provider.requests(key)[1]?.body.messages)).toContain("no such luck");
    await isFreeAfter(key);
  });

  test("C020 the client drops at once after its POST", async () => {
    const key = story.key("c020");
    story.play(key, script(say("a"), gate(key), say("b"), end()));
    const gone = new AbortController();
    const posted = chat.run(`go #${key}`, { session_id: key, stream: true }, { signal: gone.signal });
    await runIn(key);
    gone.abort();
    await expect(posted).rejects.toThrow();
    provider.release(key);
    await isFreeAfter(key);
  });

  test("C020 the client drops in mid-stream, and the run ends without it", async () => {
    const key = story.key("c020");
    story.play(key, script(say("a"), gate(key), say("b"), end()));
    const { run, stream } = await chat.started(`go #${key}`, { session_id: key });
    await stream.until("the first delta", ({ event }) => event === "RunContent");
    stream.drop();
    provider.release(key);
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED", content: "ab" });
    await isFreeAfter(key);
  });

  test("C020 the object is evicted", async () => {
    const key = story.key("c020");
    story.play(key, script(say("a"), gate(key)), script(say("again"), end()));
    const { stream } = await chat.started(`go #${key}`, { session_id: key });
    await stream.until("the first delta", ({ event }) => event === "RunContent");
    await story.evict(key);
    await isFreeAfter(key);
  });

  test("C020 a request that is refused leaves no lock behind", async () => {
    const key = story.key("c020");
    for (const fields of [{ on_busy: "perhaps" }, { session_state: '{"a": "\\ud800"}' }, { run_id: "mine" }, { message: "" }]) {
      expect((await chat.run("x", { session_id: key, ...fields })).status).toBe(422);
    }
    const files = new FormData();
    files.set("message", "see this");
    files.set("session_id", key);
    files.set("files", new File(["x"], "a.exe", { type: "application/octet-stream" }));
    expect((await chat.post("/agents/chat/runs", {}, { body: files })).status).toBe(422);
    expect((await chat.get(`/sessions/${key}/runs`)).status).toBe(404);
    await takesTheNextTurn(chat, key);
  });
});

describe("a client that goes away", () => {
  test("C073 its run goes on, finishes, and can be seen whole afterwards", async () => {
    const key = story.key("c073");
    story.play(key, script(say("First. "), call("g1", "gate", { g: key }), end("tool")), script(call("p1", "charge", { tag: key }), end("tool")), answer("Done."));
    const { run, stream } = await chat.started(`go #${key}`);
    await world.reached(key);
    stream.drop();
    world.release(key);
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED", content: "First. Done." });
    expect(world.effects(key)).toBe(1);
    const log = await (await chat.resume(run)).ended();
    expect(logProblems(log)).toEqual([]);
    expect(seenProblems(stream.events, log)).toEqual([]);
    await takesTheNextTurn(chat, run.sessionId);
  });

  test("C073 with on_disconnect=0 it is cancelled as soon as that is noticed", async () => {
    const key = story.key("zero");
    // Going away shows when something is written: the model talks on.
    story.play(key, script(...Array.from({ length: 400 }, (_, word) => [say(`${word} `), { type: "wait", ms: 25 } as const]).flat(), end()));
    const { run, stream } = await chat.started(`go #${key}`, { on_disconnect: 0 });
    await stream.until("some words", ({ event_index }) => event_index > 10);
    stream.drop();
    expect(await chat.over(run, 5_000)).toMatchObject({ status: "CANCELLED" });
    expect((await chat.log(run)).at(-1)).toMatchObject({ event: "RunCancelled", reason: "The client went away" });
    await until("the model to be let go", () => provider.requests(key)[0]?.state === "closed-by-client", { withinMs: 1_000 });
    await takesTheNextTurn(chat, run.sessionId);
  });

  test("C073 the run of a request without streaming goes on without it", async () => {
    const key = story.key("post");
    story.play(key, script(say("a"), gate(key), say("b"), end()));
    const gone = new AbortController();
    const posted = chat.run(`go #${key}`, { session_id: key }, { signal: gone.signal });
    const run = await runIn(key);
    await until("the model to be asked", () => provider.requests(key).length === 1);
    gone.abort();
    await expect(posted).rejects.toThrow();
    provider.release(key);
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED", content: "ab" });
    await takesTheNextTurn(chat, key);
  });

  test("C073 whoever follows within the grace keeps the run; when the last one leaves, it is cancelled", async () => {
    const key = story.key("grace");
    const talk = Array.from({ length: 800 }, (_, word) => [say(`${word} `), { type: "wait", ms: 25 } as const]).flat();
    story.play(key, script(...talk, end()));
    const { run, stream } = await chat.started(`go #${key}`, { on_disconnect: 1 });
    await stream.until("some words", ({ event_index }) => event_index > 5);
    const follower = await chat.follow(run, { after: stream.lastIndex });
    stream.drop();
    const graceOver = Date.now() + 2_500;
    await follower.until("more words, beyond the grace", () => Date.now() > graceOver && follower.events.length > 0);
    expect(await chat.read(run)).toMatchObject({ status: "RUNNING" });
    follower.drop();
    const read = await chat.over(run, 6_000);
    expect(read.status).toBe("CANCELLED");
    await takesTheNextTurn(chat, run.sessionId);
  });

  test("C073 a poll or a socket is a follower too", async () => {
    const key = story.key("poller");
    const talk = Array.from({ length: 200 }, (_, word) => [say(`${word} `), { type: "wait", ms: 25 } as const]).flat();
    story.play(key, script(...talk, end()));
    const { run, stream } = await chat.started(`go #${key}`, { on_disconnect: 1 });
    await stream.until("some words", ({ event_index }) => event_index > 5);
    const socket = await chat.socket(run.sessionId);
    socket.send({ action: "follow", run_id: run.runId, after: stream.lastIndex });
    await socket.until("the socket to follow", () => true);
    stream.drop();
    expect((await socket.end(run.runId, 30_000)).event).toBe("RunCompleted");
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED" });
    socket.drop();
  });

  test("C073 with on_disconnect=keep it finishes", async () => {
    const key = story.key("keep");
    story.play(key, script(say("a"), gate(key), say("b"), end()));
    const { run, stream } = await chat.started(`go #${key}`, { on_disconnect: "keep" });
    await stream.until("the first delta", ({ event }) => event === "RunContent");
    stream.drop();
    provider.release(key);
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED", content: "ab" });
  });
});

describe("turns that wait", () => {
  test("on_busy=enqueue takes them in the order they came", async () => {
    const key = story.key("queue");
    story.play(`${key}-0`, script(gate(key), say("0"), end()));
    const holder = await chat.background(`turn 0 #${key}-0`);
    const waiting: KnownRun[] = [];
    for (let place = 1; place <= 4; place += 1) {
      story.play(`${key}-${place}`, answer(`${place}`));
      waiting.push(await chat.background(`turn ${place} #${key}-${place}`, { session_id: holder.sessionId, on_busy: "enqueue" }));
    }
    // A stream of a waiting turn is open before the turn begins.
    story.play(`${key}-5`, answer("5"));
    const streamed = await chat.stream(`turn 5 #${key}-5`, { session_id: holder.sessionId, on_busy: "enqueue" });
    expect(streamed.response.headers.get("content-type")).toContain("text/event-stream");
    expect((await runsOf(holder.sessionId)).map(({ status }) => status)).toEqual(["RUNNING", ...Array(5).fill("PENDING")]);
    // Nobody else gets past those who wait.
    expect(await chat.run(`too late #${key}-6`, { session_id: holder.sessionId })).toMatchObject({ status: 409, body: { error_type: "session_busy", run_id: holder.runId } });

    provider.release(key);
    const seen = await streamed.ended();
    expect(logProblems(seen)).toEqual([]);
    expect((await runsOf(holder.sessionId)).map(({ status, content }) => [status, content])).toEqual(["0", "1", "2", "3", "4", "5"].map((content) => ["COMPLETED", content]));
    const asked = [0, 1, 2, 3, 4, 5].map((place) => provider.requests(`${key}-${place}`)[0]!);
    expect(asked.map(({ receivedAt }) => receivedAt)).toEqual(asked.map(({ receivedAt }) => receivedAt).toSorted((a, b) => a - b));
    // Each saw those before it.
    expect(JSON.stringify(asked[5]!.body.messages)).toContain("turn 4");
    expect(historyProblems(asked)).toEqual([]);
    for (const run of waiting) expect(logProblems(await chat.log(run))).toEqual([]);
  });

  test("on_busy=interrupt cancels the holder and goes before those who wait", async () => {
    const key = story.key("cut-in");
    story.play(`${key}-holder`, script(say("I was say"), gate(key)));
    const { run: holder, stream } = await chat.started(`hold #${key}-holder`);
    await stream.until("the first delta", ({ event }) => event === "RunContent");
    story.play(`${key}-waiting`, answer("waited"));
    const waiting = await chat.background(`wait #${key}-waiting`, { session_id: holder.sessionId, on_busy: "enqueue" });
    story.play(`${key}-urgent`, answer("urgent"));
    const urgent = await chat.run(`urgent #${key}-urgent`, { session_id: holder.sessionId, on_busy: "interrupt" });
    expect(urgent).toMatchObject({ status: 200, body: { status: "COMPLETED", content: "urgent" } });
    expect((await stream.ended(2_000)).at(-1)).toMatchObject({ event: "RunCancelled", reason: expect.stringContaining(urgent.body.run_id) });
    expect(await chat.over(waiting)).toMatchObject({ status: "COMPLETED", content: "waited" });
    const [first] = provider.requests(`${key}-urgent`);
    const [second] = provider.requests(`${key}-waiting`);
    expect(first!.receivedAt).toBeLessThanOrEqual(second!.receivedAt);
    expect(historyProblems([first!, second!])).toEqual([]);
    await takesTheNextTurn(chat, holder.sessionId);
  });

  test("a hundred may wait, the next is answered 429, and deleting the session ends them all", async () => {
    const key = story.key("bound");
    story.play(`${key}-holder`, script(gate(key)));
    const holder = await chat.background(`hold #${key}-holder`);
    const fields = { session_id: holder.sessionId, on_busy: "enqueue" };
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(Array.from({ length: 10 }, () => chat.background(`wait #${key}-waiting`, fields)));
    }
    const refused = await chat.run(`one too many #${key}-waiting`, { ...fields, background: true });
    expect(refused).toMatchObject({ status: 429, body: { error_type: "queue_full" } });
    expect(refused.headers.get("retry-after")).toBe("5");
    expect(await runsOf(holder.sessionId)).toHaveLength(101);

    const follower = await chat.follow(holder);
    await follower.until("what was told", ({ event }) => event === "RunStarted");
    expect((await chat.json("DELETE", `/sessions/${holder.sessionId}`)).status).toBe(204);
    expect((await follower.ended(2_000)).at(-1)).toMatchObject({ event: "RunCancelled" });
    await until("the model to be let go", () => provider.requests(`${key}-holder`)[0]?.state === "closed-by-client");
    expect((await chat.get(`/sessions/${holder.sessionId}`)).status).toBe(404);
    await until("D1 to have forgotten them", async () => (await story.rowsOf(holder.sessionId)).length === 0);
    expect(provider.requests(`${key}-waiting`)).toEqual([]);
    await takesTheNextTurn(chat, holder.sessionId);
    expect(await runsOf(holder.sessionId)).toHaveLength(1);
  });
});
