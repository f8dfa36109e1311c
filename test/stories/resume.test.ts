import { describe, expect, test } from "vitest";
import { call, callScript, calls, cut, end, gate, http, say, script, think, wait } from "../fakes/script.ts";
import { historyProblems, holesIn, logProblems, seenProblems, textOf } from "./harness/checks.ts";
import type { KnownRun } from "./harness/client.ts";
import { type EventStream, isTerminal, type WireEvent } from "./harness/event-stream.ts";
import { random, storySeed } from "./harness/random.ts";
import type { Socket } from "./harness/socket.ts";
import { answer, startStory } from "./harness/story.ts";
import { until } from "./harness/until.ts";

const story = await startStory();
const { chat, provider, server, world } = story;

const seed = storySeed();

const indices = (events: readonly WireEvent[]): number[] => events.map(({ event_index }) => event_index);
const upTo = (last: number, from = 0): number[] => Array.from({ length: last - from + 1 }, (_, place) => from + place);
const deltas = (count: number, everyMs = 0) => Array.from({ length: count }, (_, word) => (everyMs === 0 ? [say(`${word} `)] : [say(`${word} `), wait(everyMs)])).flat();

describe("a stream", () => {
  test("S113 S214 begins with RunStarted, ends with the terminal event, and is server-sent events byte by byte", async () => {
    const key = story.key("s113");
    story.play(key, answer("Hello you."));
    const { stream } = await chat.started(`hello #${key}`);
    const log = await stream.ended();
    expect(stream.response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(stream.response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(stream.response.headers.get("x-accel-buffering")).toBe("no");
    expect(log.map(({ event }) => event)).toEqual(["RunStarted", "ModelRequestStarted", "RunContent", "ModelRequestCompleted", "RunContentCompleted", "RunCompleted"]);
    expect(stream.raw).toBe(log.map((event) => `id: ${event.event_index}\nevent: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
  });

  test("S129 tells tools and text in the order in which they happen", async () => {
    const key = story.key("s129");
    story.play(key, script(call("l1", "lookup", { tag: key }), end("tool")), script(say("It is "), say("there."), end()));
    const { stream } = await chat.started(`look #${key}`);
    const names = (await stream.ended()).map(({ event }) => event).filter((event) => !event.startsWith("ModelRequest"));
    expect(names).toEqual(["RunStarted", "ToolCallStarted", "ToolCallCompleted", "RunContent", "RunContent", "RunContentCompleted", "RunCompleted"]);
  });

  test("S359 holds both attempts of a run that failed after a retry, in order, with one end", async () => {
    const key = story.key("s359");
    story.play(key, script(say("first try"), wait(20), cut()), script(say("second try"), wait(20), { type: "error", error: "invalid_request", message: "no more" }));
    const { run, stream } = await chat.as("stubborn").started(`go #${key}`);
    const seen = await stream.ended();
    const log = await chat.as("stubborn").log(run);
    expect(seen).toEqual(log);
    expect(logProblems(log)).toEqual([]);
    expect(log.filter(({ event }) => event === "RunContent").map(({ content }) => content)).toEqual(["first try", "second try"]);
    const retry = log.find(({ event }) => event === "RunRetry");
    expect(retry).toMatchObject({ attempt: 2, reason: "model_error", discarded: { from: 2, to: 2 } });
    expect(log.at(-1)?.event).toBe("RunError");
    expect(await chat.as("stubborn").read(run)).toMatchObject({ status: "ERROR", content: "second try" });
  });
});

describe("coming back", () => {
  test("C009 as often and as many at once as one likes: each gets the rest once", async () => {
    const key = story.key("c009");
    story.play(key, script(...deltas(20), gate(key), ...deltas(20), end()));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("index 9", ({ event_index }) => event_index >= 9);
    stream.drop();
    const first = stream.events.filter(({ event_index }) => event_index <= 9);

    const resumed = await Promise.all([chat.resume(run, 9), chat.resume(run, 9)]);
    for (const one of resumed) await one.until("what was told so far", ({ event_index }) => event_index >= 21);
    resumed.push(await chat.resume(run, 9));
    provider.release(key);
    const whole = await chat.over(run);
    const log = await chat.log(run);
    for (const one of resumed) {
      const seen = await one.ended();
      expect(indices(seen)).toEqual(upTo(log.length - 1, 10));
      expect(one.notices.map(({ event }) => event)).toEqual(["catch_up", "subscribed"]);
      expect(textOf([...first, ...seen])).toBe(whole.content);
    }
  });

  test(`C010 S161 at any index, in any way, while it runs: nothing is lost, repeated or out of order (seed ${seed})`, async () => {
    const chance = random(seed);
    const key = story.key("c010");
    story.play(key, script(...deltas(600, 5), end()));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("the first delta", ({ event }) => event === "RunContent");

    const readers: { how: string; after: number; seen: () => WireEvent[]; whole: boolean; done: Promise<unknown> }[] = [];
    for (let reader = 0; reader < 200; reader += 1) {
      const dice = chance.fork(`reader-${reader}`);
      const begin = dice.next() * 3_000;
      const opened = performance.now();
      readers.push(await open(dice));
      // Spread over the time the run takes.
      await until("the next reader's turn", () => performance.now() - opened >= begin / 200, { everyMs: 2 });
    }

    async function open(dice: typeof chance) {
      const after = dice.between(-1, Math.max(-1, stream.lastIndex));
      const how = dice.pick(["follow", "resume", "socket", "slow"]);
      const whole = dice.next() < 0.7;
      if (how === "socket") {
        const socket = await chat.socket(run.sessionId);
        socket.send({ action: "follow", run_id: run.runId, after });
        if (!whole) setTimeout(() => socket.drop(), dice.between(0, 200));
        return { how, after, whole, seen: () => socket.of(run.runId), done: whole ? socket.end(run.runId).then(() => socket.drop()) : socket.closed };
      }
      const paceMs = how === "slow" ? 20 : 0;
      const one = how === "resume" ? await chat.resume(run, after, { paceMs }) : await chat.follow(run, { after, paceMs });
      if (!whole) setTimeout(() => one.drop(), dice.between(0, 200));
      return { how, after, whole, seen: () => one.events, done: one.closed };
    }

    await stream.ended(60_000);
    await Promise.all(readers.map(({ done }) => done));
    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    expect(stream.events).toEqual(log);
    for (const { how, after, seen, whole } of readers) {
      const events = seen();
      const expected = log.slice(after + 1);
      // Whoever left early has the beginning of it, and nothing else.
      expect({ how, after, events }).toEqual({ how, after, events: whole ? expected : expected.slice(0, events.length) });
    }
    expect(new Set(readers.map(({ how }) => how)).size).toBe(4);
  });

  test("C010 while the model is silent: what there is comes at once, with a marker that it is all", async () => {
    const key = story.key("parked");
    story.play(key, script(...deltas(8), gate(key), say("end"), end()));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("the eighth delta", ({ event_index }) => event_index === 9);
    const resumed = await chat.resume(run, 3);
    await until("the marker", () => resumed.notices.some(({ event }) => event === "subscribed"), { withinMs: 1_000, instead: () => resumed.frames });
    expect(resumed.frames.map(({ event }) => event)).toEqual(["catch_up", ...Array(6).fill("RunContent"), "subscribed"]);
    expect(resumed.notices[0]).toMatchObject({ event: "catch_up", run_id: run.runId, status: "running", missed_events: 6, current_event_count: 10 });
    expect(resumed.notices[1]).toMatchObject({ event: "subscribed", run_id: run.runId, status: "running", current_event_count: 10 });
    provider.release(key);
    expect(indices(await resumed.ended())).toEqual(upTo(13, 4));
  });

  test("one cursor serves server-sent events, polling and a socket, changed in mid-run", async () => {
    const chance = random(seed).fork("hop");
    const key = story.key("hop");
    story.play(key, script(...deltas(250, 8), end()));
    const run = await chat.background(`go #${key}`);
    const seen: WireEvent[] = [];
    const used = new Set<string>();
    const cursor = () => seen.at(-1)?.event_index ?? -1;
    const ways: Record<string, () => Promise<void>> = {
      async poll() {
        seen.push(...(await chat.poll(run, cursor(), 1)).body.events);
      },
      async follow() {
        await taken(await chat.follow(run, { lastEventId: cursor() }));
      },
      async resume() {
        await taken(await chat.resume(run, cursor()));
      },
      async socket() {
        const socket = await chat.socket(run.sessionId);
        socket.send({ action: "follow", run_id: run.runId, after: cursor() });
        await until("a few events on the socket", () => socket.events.length >= 5 || socket.events.some(isTerminal));
        seen.push(...socket.events);
        socket.drop();
      },
    };
    /** Takes a few events of a stream, and leaves. */
    async function taken(stream: EventStream): Promise<void> {
      await until("a few events", () => stream.events.length >= 5 || stream.events.some(isTerminal));
      stream.drop();
      seen.push(...stream.events);
      await stream.closed;
    }
    while (!seen.some(isTerminal)) {
      const way = chance.pick(Object.keys(ways));
      used.add(way);
      await ways[way]!();
    }
    expect(seen).toEqual(await chat.log(run));
    expect(logProblems(seen)).toEqual([]);
    expect(used.size).toBe(4);
  });

  test("C010 a reader that takes one event in 20 ms loses nothing of a run that is far ahead of it", async () => {
    const key = story.key("slow");
    const page = "x".repeat(8_000);
    story.play(key, script(...Array.from({ length: 300 }, (_, place) => say(`${place} ${page}`)), end()));
    const stream = await chat.stream(`go #${key}`, {}, { paceMs: 20 });
    const [first] = [await stream.until("the run to start", () => true)];
    const run = { runId: first.run_id, sessionId: first.session_id };
    await chat.over(run);
    // The run is over long before its reader is.
    expect(stream.events.some(isTerminal)).toBe(false);
    await stream.ended(60_000);
    expect(stream.events).toEqual(await chat.log(run));
  });

  test("C012 a stream whose producer is gone goes on with the next attempt", async () => {
    const key = story.key("c012");
    story.play(key, script(...deltas(10), gate(key)), script(say("And on it goes."), end()));
    const { run, stream } = await chat.started(`go #${key}`);
    await stream.until("ten deltas", ({ event_index }) => event_index === 11);
    await story.evict(run.sessionId);
    expect(await stream.closed).toBe("broken");
    const resumed = await chat.resume(run, 4);
    const seen = await resumed.ended();
    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    expect([seenProblems(seen, log), seenProblems(stream.events, log), holesIn(seen, 4, log)]).toEqual([[], [], []]);
    expect(log.find(({ event }) => event === "RunRetry")).toMatchObject({ attempt: 2, reason: "crash", discarded: { from: 2 } });
    expect(log.at(-1)).toMatchObject({ event: "RunCompleted", content: "And on it goes." });
    expect(await chat.read(run)).toMatchObject({ status: "COMPLETED", content: "And on it goes." });
    await until("D1 to agree", async () => (await story.rowsOf(run.sessionId))[0]?.status === "COMPLETED");
    expect(historyProblems(provider.requests(key), [`go #${key}`])).toEqual([]);
  });

  test("C014 parallel tools that report in any order: live and replayed are the same bytes, from every index", async () => {
    const key = story.key("c014");
    const tools = [50, 10, 40, 20, 30].map((ms, place) => callScript(`c${place}`, "slow", { ms }));
    story.play(key, ...Array.from({ length: 20 }, () => script(calls(...tools), end("tool"))));
    // Twenty first requests take the scripts with calls; what is asked afterwards is answered by default.
    const runs = await Promise.all(Array.from({ length: 20 }, () => chat.started(`go #${key}`)));
    for (const [place, { run, stream }] of runs.entries()) {
      const live = await stream.ended();
      expect(logProblems(live)).toEqual([]);
      expect(live.filter(({ event }) => event === "CustomEvent")).toHaveLength(5);
      const frames = stream.raw.split(/(?<=\n\n)/);
      expect(frames).toHaveLength(live.length);
      // Every index of every run as JSON; as a stream, of every fifth run.
      for (const { event_index } of live) {
        expect(JSON.stringify(await chat.log(run, event_index))).toBe(JSON.stringify(live.slice(event_index + 1)));
        if (place % 5 !== 0) continue;
        const again = await chat.follow(run, { lastEventId: event_index });
        await again.ended();
        expect(again.raw).toBe(frames.slice(event_index + 1).join(""));
      }
    }
    expect(historyProblems(provider.requests(key))).toEqual([]);
  });
});

describe("what goes over the wire", () => {
  const NASTY = 'a\r\rdata: {"event":"RunCompleted"}\n\nevent: RunError\rid: 9\u2028b\u2029\u0085';

  test("C070 text that looks like an event stays text", async () => {
    const play = async (text: string) => {
      const key = story.key("c070");
      story.play(
        key,
        script(say(text), callScripted("e1", "echo", { text }), end("tool")),
        script(callScripted("b1", "breaks", { message: text }), end("tool")),
        script(callScripted("u1", `no tool ${text}`, {}), end("tool")),
        script(say(text), end()),
      );
      const { run, stream } = await chat.started(`go #${key}`);
      await stream.ended();
      return { key, run, stream };
    };
    const callScripted = (id: string, name: string, args: Record<string, unknown>) => call(id, name, [JSON.stringify(args)]);
    const tame = await play("tame");
    const nasty = await play(NASTY);
    expect(nasty.stream.frames.map(({ id, event }) => ({ id, event }))).toEqual(tame.stream.frames.map(({ id, event }) => ({ id, event })));
    expect(nasty.stream.raw).not.toMatch(/\r/);
    for (const frame of nasty.stream.raw.split("\n\n").slice(0, -1)) expect(frame).toMatch(/^id: \d+\nevent: [A-Za-z]+\ndata: \{[^\n]*\}$/);
    expect(logProblems(nasty.stream.events)).toEqual([]);
    expect(nasty.stream.events.at(-1)).toMatchObject({ event: "RunCompleted", content: NASTY + NASTY });
    expect(nasty.stream.events.find(({ event }) => event === "ToolCallCompleted")?.tool?.result).toBe(NASTY);
    expect(nasty.stream.events.find(({ event }) => event === "ToolCallError")?.error).toContain(NASTY);
    expect(historyProblems(provider.requests(nasty.key))).toEqual([]);

    // Replayed it is the same, and so it is where a session is named so.
    const again = await chat.resume(nasty.run);
    await again.ended();
    expect(again.events).toEqual(nasty.stream.events);
    expect((await chat.json("POST", `/sessions/${nasty.run.sessionId}/rename`, { session_name: NASTY })).body.session_name).toBe(NASTY);
    expect((await chat.get(`/sessions/${nasty.run.sessionId}`)).body.session_name).toBe(NASTY);
  });

  test("C072 what is too large for a socket's frame is named there, and fetched elsewhere", async () => {
    const key = story.key("c072");
    const sizes = [200_000, 900_000, 3_000_000];
    const paragraph = "0123456789".repeat(400);
    story.play(
      key,
      ...sizes.map((bytes, place) => script(call(`big${place}`, "big", { bytes }), end("tool"))),
      // A long answer comes in small pieces; its last event holds all of it.
      script(...Array.from({ length: 300 }, () => say(paragraph)), end()),
    );
    const sessionId = `big-${key}`;
    const socket = await chat.socket(sessionId);
    socket.send({ action: "start", agent_id: "chat", message: `go #${key}`, ref: "r" });
    const accepted = await socket.frame("the run to be accepted", ({ event }) => event === "accepted");
    const run: KnownRun = { runId: String(accepted.run_id), sessionId };
    expect((await socket.end(run.runId)).event).toBe("RunCompleted");
    expect(socket.largest).toBeLessThan(1_048_576);

    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    expect(indices(socket.of(run.runId))).toEqual(indices(log));
    const large = socket.of(run.runId).filter((event) => event.oversized !== undefined);
    expect(large.map(({ event }) => event)).toEqual(["RunCompleted"]);
    const { path, bytes } = large[0]!.oversized as { path: string; bytes: number };
    expect(bytes).toBeGreaterThan(1_200_000);
    const fetched = (await chat.get<{ events: WireEvent[] }>(path)).body.events;
    expect(fetched).toEqual(log.slice(-1));
    expect(fetched[0]?.content).toBe(paragraph.repeat(300));
    const stream = await chat.follow(run);
    expect(await stream.ended()).toEqual(log);

    // A result that no model could read is shortened with a word about it, and is the same wherever it is read.
    const results = (await chat.read(run)).tools!.map(({ result }) => result!);
    expect(results[0]).toHaveLength(sizes[0]!);
    for (const [place, result] of results.entries()) {
      if (place > 0) expect(result).toMatch(/^[0-9a-f]{200000,}.*characters/s);
      expect(result.length).toBeLessThan(300_000);
      expect(log.filter(({ event }) => event === "ToolCallCompleted")[place]?.tool?.result).toBe(result);
      expect(JSON.stringify(provider.requests(key)[place + 1]?.body.messages)).toContain(JSON.stringify(result));
    }

    // Coming back with the index before it is no loop: the same frame, and then the end.
    const again = await chat.socket(sessionId);
    again.send({ action: "follow", run_id: run.runId, after: large[0]!.event_index - 1 });
    await again.end(run.runId);
    expect(again.events).toEqual(large);

    // What the client sends has a limit too; beyond it there is one answer, and the socket can be used on.
    again.send({ action: "start", agent_id: "chat", message: "y".repeat(1_100_000), ref: "too-long" });
    expect(await again.frame("the refusal", ({ error_type }) => error_type === "payload_too_large")).toMatchObject({ event: "error" });
    again.send({ action: "ping", ref: "alive" });
    expect(await again.frame("the pong", ({ ref }) => ref === "alive")).toMatchObject({ event: "pong" });
    expect(again.frames.filter(({ event }) => event === "error")).toHaveLength(1);
    again.drop();
    socket.drop();
  });

});

/** Side by side, because most of it is waiting. */
describe.concurrent("what takes its time", () => {
  test("C012 nobody need ask: the object's own alarm takes the run up again", async () => {
    const key = story.key("untouched");
    story.play(key, script(say("a"), gate(key)), script(say("b"), end()));
    const run = await chat.background(`go #${key}`);
    await until("the model to be asked", () => provider.requests(key).length === 1);
    await story.evict(run.sessionId);
    await until("the model to be asked again", () => provider.requests(key).length === 2, { withinMs: 40_000 });
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED", content: "b" });
  });

  test("C074 a silent tool: every stream hears a comment within 20 seconds, and nothing is missing afterwards", async () => {
    const key = story.key("c074");
    story.play(key, script(call("g1", "gate", { g: key }), end("tool")), answer("at last"));
    const begun = Date.now();
    const { run, stream } = await chat.started(`go #${key}`);
    await world.reached(key);
    const waiting = await chat.background(`wait #${key}-waiting`, { session_id: run.sessionId, on_busy: "enqueue" });
    const streams = [stream, await chat.resume(run), await chat.follow(run), await chat.follow(waiting)];
    const finished = chat.run(`another #${key}-unary`, { session_id: `${key}-unary` });
    for (const one of streams) {
      await until("a comment", () => one.comments.length > 0, { withinMs: 20_000 - (Date.now() - begun), instead: () => ({ connection: one.state, raw: one.raw }) });
      expect(one.comments[0]).toBe("keepalive");
      expect(one.response.headers.get("x-accel-buffering")).toBe("no");
      expect(one.response.headers.get("cache-control")).toContain("no-cache");
    }
    world.release(key);
    const log = await stream.ended();
    expect(logProblems(log)).toEqual([]);
    expect(streams[1]!.events).toEqual(await streams[1]!.ended());
    expect(streams[1]!.events).toEqual(log);
    expect(await streams[2]!.ended()).toEqual(log);
    expect(logProblems(await streams[3]!.ended())).toEqual([]);
    expect((await finished).body.status).toBe("COMPLETED");
  });

  test(`C076 a storm of reconnects leaves those who stay in peace, and the object comes to rest (seed ${seed})`, async () => {
    const chance = random(seed).fork("storm");
    const key = story.key("c076");
    story.play(key, script(...deltas(300, 15), gate(key), say("over"), end()));
    const run = await chat.background(`go #${key}`);
    await until("the run to speak", async () => (await chat.log(run)).length > 3);
    const stay: Socket[] = await Promise.all(Array.from({ length: 5 }, () => chat.socket(run.sessionId)));
    for (const socket of stay) socket.send({ action: "follow", run_id: run.runId });

    for (let round = 0; round < 20; round += 1) {
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          const socket = await chat.socket(run.sessionId);
          socket.send({ action: "follow", run_id: run.runId, after: chance.between(-1, 200) });
          if (chance.next() < 0.2) socket.send({ action: "follow", run_id: run.runId, after: chance.between(-1, 200) });
          if (chance.next() < 0.2) socket.send(chance.pick(["junk", "[]", '{"action":"fly"}', '{"action":"follow"}', "\u0000", '{"action":"follow","run_id":"none"}']));
          const due = performance.now() + chance.between(0, 200);
          await until("the moment to go", () => performance.now() >= due, { everyMs: 5 });
          socket.drop();
          await socket.closed;
        }),
      );
    }
    // Two reconnects on one socket, and junk: an error frame each, and nobody else is hurt.
    const odd = await chat.socket(run.sessionId);
    odd.send("this is no JSON");
    odd.send({ action: "fly" });
    odd.sendBytes(new Uint8Array([1, 2, 3]));
    odd.send({ action: "follow", run_id: run.runId, after: 3 });
    odd.send({ action: "follow", run_id: run.runId, after: 5 });
    await until("three refusals", () => odd.frames.filter(({ event }) => event === "error").length === 3, { instead: () => odd.frames.slice(0, 5) });

    provider.release(key);
    await Promise.all([...stay, odd].map((socket) => socket.end(run.runId)));
    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    for (const socket of stay) expect(socket.of(run.runId)).toEqual(log);

    // At rest: with five sockets still open the platform takes the object out of memory, which it never does while anything runs in it.
    const instance = await story.instance(run.sessionId);
    await until("the object to sleep", async () => (await story.instance(run.sessionId)) !== instance, { withinMs: 70_000, everyMs: 12_000 });
    for (const socket of stay) {
      expect(socket.state).toBe("open");
      socket.send({ action: "ping", ref: "after the sleep" });
      await socket.frame("the pong of an object that was woken", ({ ref }) => ref === "after the sleep");
      expect(socket.of(run.runId)).toEqual(log);
      socket.drop();
    }
  });
});

describe("after the whole server was killed", () => {
  test("S81 S117 S137 S161 C004 everything that was seen is there, whatever the last event was", async () => {
    const key = story.key("s137");
    const again = script(say("again"), end());
    /** Runs that stand still right after an event of each kind, and what they tell last. */
    const parked: [name: string, last: string, agent: string, ...scripts: Parameters<typeof story.play>[1][]][] = [
      ["asked", "ModelRequestStarted", "chat", script(gate(key)), again],
      ["thinking", "ReasoningContentDelta", "chat", script(think(["I ", "wonder"]), gate(key)), again],
      ["thought", "RunContent", "chat", script(think(["I ", "wonder"]), say("so"), gate(key)), again],
      ["speaking", "RunContent", "claude", script(say("one "), say("two "), gate(key)), again],
      ["in-once-tool", "ToolCallStarted", "chat", script(call("g1", "gate", { g: key }), end("tool"))],
      ["in-harmless-tool", "ToolCallStarted", "chat", script(call("s1", "slow", { ms: 4_000 }), end("tool")), again],
      ["after-tool", "ModelRequestStarted", "claude", script(call("l1", "charge", { tag: `${key}-after` }), end("tool")), script(gate(key)), again],
      ["after-failed-tool", "ModelRequestStarted", "chat", script(call("b1", "breaks", { message: "oh" }), end("tool")), script(gate(key)), again],
      ["progress", "CustomEvent", "chat", script(calls(callScript("s1", "slow", { ms: 5 }), callScript("g1", "gate", { g: key })), end("tool"))],
      ["retrying", "RunRetry", "patient", script(http(503)), again],
      ["completed", "RunCompleted", "chat", script(call("r1", "remember", { name: "color", value: "green" }), end("tool")), answer("Done.")],
      ["failed", "RunError", "chat", script(http(400))],
    ];
    const opened = await Promise.all(
      parked.map(async ([name, last, agent, ...scripts]) => {
        story.play(`${key}-${name}`, ...scripts);
        const { run, stream } = await chat.as(agent).started(`${name} #${key}-${name}`, { user_id: "ada" });
        return { name, last, agent, run, stream };
      }),
    );
    for (const { name, last, stream } of opened) await stream.until(`${name} to stand at ${last}`, ({ event }) => event === last);
    const cancelled = await chat.started(`cancel #${key}-cancelled`);
    await chat.cancel(cancelled.run);
    await cancelled.stream.ended();
    const holder = opened.find(({ name }) => name === "asked")!;
    story.play(`${key}-queued`, answer("my turn"));
    const queued = await chat.background(`queued #${key}-queued`, { session_id: holder.run.sessionId, user_id: "ada", on_busy: "enqueue" });

    // Everything else has come to its place too, so that what is read now is what was told.
    await world.reached(key, 2);
    await until("every tool's result", () => opened.every(({ name, stream }) => name !== "progress" || stream.events.some(({ event }) => event === "ToolCallCompleted")));
    const finished = opened.filter(({ last }) => last === "RunCompleted" || last === "RunError").concat({ name: "cancelled", last: "RunCancelled", agent: "chat", ...cancelled });
    const before = await Promise.all(
      finished.map(async ({ agent, run }) => ({
        run: await chat.as(agent).read(run),
        session: (await chat.get(`/sessions/${run.sessionId}`)).body,
        runs: (await chat.get(`/sessions/${run.sessionId}/runs`)).body,
      })),
    );

    await server.kill();
    for (const { stream, name } of opened) expect([name, await stream.closed]).toEqual([name, name === "completed" || name === "failed" ? "ended" : "broken"]);
    await server.start();

    // What was over is as it was, in every way of reading it.
    for (const [place, { agent, run, stream }] of finished.entries()) {
      expect(await chat.as(agent).read(run)).toEqual(before[place]!.run);
      expect((await chat.get(`/sessions/${run.sessionId}`)).body).toEqual(before[place]!.session);
      expect((await chat.get(`/sessions/${run.sessionId}/runs`)).body).toEqual(before[place]!.runs);
      const replay = await chat.as(agent).resume(run, -1);
      const events = await replay.ended();
      expect(replay.frames[0]?.event).toBe("replay");
      expect(replay.notices).toMatchObject([{ event: "replay", run_id: run.runId, total_events: events.length, total_buffered: events.length, last_event_index_requested: -1 }]);
      expect(events).toEqual(stream.events);
      expect(logProblems(events)).toEqual([]);
    }
    const { run: done } = finished.find(({ name }) => name === "completed")!;
    expect((await chat.get(`/sessions/${done.sessionId}`)).body.session_state).toEqual({ color: "green" });

    // What was not is at least where its client saw it, and comes to an end.
    for (const { name, agent, run, stream, last } of opened) {
      if (finished.some((one) => one.run === run)) continue;
      const read = await chat.as(agent).read(run);
      const resumed = await chat.as(agent).resume(run, stream.lastIndex);
      const log = await until(`${name} to be over`, async () => {
        const { body } = await chat.as(agent).poll(run, -1, 5);
        return body.ended && body.events;
      }, { withinMs: 30_000 });
      expect([name, logProblems(log)]).toEqual([name, []]);
      expect([name, seenProblems(stream.events, log)]).toEqual([name, []]);
      expect([name, holesIn([...stream.events, ...(await resumed.ended())], -1, log)]).toEqual([name, []]);
      expect([name, log.find(({ event }) => event === "RunRetry")?.event]).toEqual([name, "RunRetry"]);
      for (const message of read.messages) expect(message.role === "assistant" && message.content === "" && message.tool_calls === undefined).toBe(false);
      const over = await chat.as(agent).over(run);
      const mayHaveHappened = name === "in-once-tool" || last === "CustomEvent";
      expect([name, over.status, over.error_type]).toEqual([name, mayHaveHappened ? "ERROR" : "COMPLETED", mayHaveHappened ? "tool_outcome_unknown" : undefined]);
      await until("D1 to agree", async () => (await story.rowsOf(run.sessionId))[0]?.status === over.status);
    }
    expect(await chat.over(queued)).toMatchObject({ status: "COMPLETED", content: "my turn" });
    expect(world.effects(`${key}-after`)).toBe(1);

    // And every session takes the next turn, which sees the one before.
    for (const { name, agent, run } of opened) {
      const next = `${key}-${name}-next`;
      story.play(next, answer("next"));
      expect((await chat.as(agent).run(`next #${next}`, { session_id: run.sessionId, user_id: "ada" })).body).toMatchObject({ status: "COMPLETED", content: "next" });
      const [request] = provider.requests(next);
      expect([name, historyProblems([request!], [`next #${next}`])]).toEqual([name, []]);
      expect(JSON.stringify(request!.body.messages)).toContain(`${name} #${key}-${name}`);
    }
  });
});
