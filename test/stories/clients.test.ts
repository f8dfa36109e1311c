// Under another name: what runs in a tab must mean the browser's own.
import { EventSource as EventSourcePackage } from "eventsource";
import { type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { call, end, gate, say, script, wait } from "../fakes/script.ts";
import { browserPath, startBrowser, startPage } from "./harness/browser.ts";
import { logProblems } from "./harness/checks.ts";
import type { KnownRun } from "./harness/client.ts";
import { isTerminal, type WireEvent } from "./harness/event-stream.ts";
import { startProxy } from "./harness/proxy.ts";
import { answer, startStory } from "./harness/story.ts";
import { until } from "./harness/until.ts";

const page = await startPage();
afterAll(() => page.close());

const story = await startStory({ vars: { CORS_ORIGINS: page.origin } });
const { chat, provider, server } = story;
const proxy = await startProxy(server.url);
afterAll(() => proxy.close());

/** An EventSource hears named events only by their names. */
const NAMES = [
  "RunStarted",
  "ModelRequestStarted",
  "RunContent",
  "ModelRequestCompleted",
  "RunContentCompleted",
  "ToolCallStarted",
  "ToolCallCompleted",
  "ToolCallError",
  "RunRetry",
  "RunCompleted",
  "RunError",
  "RunCancelled",
];

const eventsPath = (run: KnownRun) => `/agents/chat/runs/${run.runId}/events?session_id=${run.sessionId}`;
const requestsFor = (run: KnownRun) => proxy.requests.filter(({ path }) => path.includes(run.runId));
const words = (count: number) => Array.from({ length: count }, (_, word) => [say(`${word} `), wait(10)]).flat();

describe("the eventsource package", () => {
  /** Follows a run as any program does that knows nothing but EventSource. */
  function follow(run: KnownRun) {
    const source = new EventSourcePackage(proxy.url + eventsPath(run));
    onTestFinished(() => source.close());
    const seen: { id: string; event: WireEvent }[] = [];
    for (const name of NAMES) source.addEventListener(name, ({ lastEventId, data }) => seen.push({ id: lastEventId, event: JSON.parse(data) }));
    return { source, seen };
  }

  test("comes back by Last-Event-ID when its connection is cut: no loss, no repetition, and 204 stops it at the end", async () => {
    const key = story.key("es");
    story.play(key, script(...words(20), gate(`${key}-1`), ...words(20), gate(`${key}-2`), ...words(20), end()));
    const run = await chat.background(`go #${key}`);
    const { source, seen } = follow(run);
    await until("the first words", () => seen.length >= 20);
    proxy.cut();
    provider.release(`${key}-1`);
    await until("more words, on the second connection", () => seen.length >= 40, { withinMs: 20_000 });
    proxy.cut();
    provider.release(`${key}-2`);
    await until("the source to be stopped", () => source.readyState === source.CLOSED, { withinMs: 30_000, instead: () => ({ seen: seen.length, requests: requestsFor(run) }) });

    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    expect(seen.map(({ event }) => event)).toEqual(log);
    expect(seen.map(({ id }) => id)).toEqual(log.map(({ event_index }) => String(event_index)));
    const requests = requestsFor(run);
    expect(requests[0]).toMatchObject({ status: 200, lastEventId: undefined });
    expect(requests.at(-1)).toMatchObject({ status: 204, lastEventId: String(log.at(-1)!.event_index) });
    expect(requests.filter(({ status }) => status === 200)).toHaveLength(3);
  });

  test("is stopped as well on a run that was over before it came", async () => {
    const key = story.key("es-late");
    story.play(key, answer("done"));
    const run = await chat.background(`go #${key}`);
    await chat.over(run);
    const { source, seen } = follow(run);
    await until("the source to be stopped", () => source.readyState === source.CLOSED, { withinMs: 20_000 });
    expect(seen.map(({ event }) => event)).toEqual(await chat.log(run));
    expect(requestsFor(run).map(({ status }) => status)).toEqual([200, 204]);
  });

  test("goes on over a restart of the server, from where it was", async () => {
    const key = story.key("es-restart");
    story.play(key, script(...words(20), gate(key)), script(say("and now it goes on."), end()));
    const run = await chat.background(`go #${key}`);
    const { source, seen } = follow(run);
    await until("the first words", () => seen.length >= 20);
    await server.kill();
    await server.start();
    await until("the source to be stopped", () => source.readyState === source.CLOSED, { withinMs: 60_000, instead: () => ({ seen: seen.length, requests: requestsFor(run) }) });
    const log = await chat.log(run);
    expect(logProblems(log)).toEqual([]);
    expect(log.at(-1)).toMatchObject({ event: "RunCompleted", content: "and now it goes on." });
    const indices = seen.map(({ event }) => event.event_index);
    expect(indices).toEqual(indices.toSorted((a, b) => a - b));
    expect(new Set(indices).size).toBe(indices.length);
    const retry = log.find(({ event }) => event === "RunRetry")!;
    expect(seen.filter(({ event }) => event.event_index >= retry.event_index).map(({ event }) => event)).toEqual(log.filter(({ event_index }) => event_index >= retry.event_index));
  });
});

describe.skipIf(browserPath === undefined)("a browser", () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser?.close());

  async function tab(): Promise<Page> {
    const opened = await browser.newPage();
    onTestFinished(() => opened.close());
    await opened.goto(page.origin);
    return opened;
  }

  /** Opens an EventSource in a tab and keeps what it hears there. */
  const listen = (where: Page, run: KnownRun) =>
    where.evaluate(
      ({ url, names }) => {
        const tab = globalThis as any;
        tab.seen = [];
        const source = (tab.source = new EventSource(url));
        for (const name of names) source.addEventListener(name, (event) => tab.seen.push(JSON.parse((event as MessageEvent).data)));
      },
      { url: proxy.url + eventsPath(run), names: NAMES },
    );
  const seenIn = (where: Page): Promise<WireEvent[]> => where.evaluate(() => (globalThis as any).seen);
  const isStopped = (where: Page): Promise<boolean> => where.evaluate(() => (globalThis as any).source.readyState === 2);

  test("its own EventSource, on another origin, comes back after a cut and is stopped at the end", async () => {
    const key = story.key("tab");
    story.play(key, script(...words(20), gate(key), ...words(20), end()));
    const run = await chat.background(`go #${key}`);
    const one = await tab();
    await listen(one, run);
    await until("the first words", async () => (await seenIn(one)).length >= 20);
    proxy.cut();
    provider.release(key);
    await until("the source to be stopped", () => isStopped(one), { withinMs: 30_000, everyMs: 100, instead: () => requestsFor(run) });
    expect(await seenIn(one)).toEqual(await chat.log(run));
    const requests = requestsFor(run);
    expect(requests.map(({ status }) => status)).toEqual([200, 200, 204]);
    expect(Number(requests[1]!.lastEventId)).toBeGreaterThan(10);
  });

  test("starts and streams a run with fetch, and stops it from there", async () => {
    const key = story.key("fetch");
    story.play(key, script(say("Let me. "), ...words(5), gate(key)));
    const one = await tab();
    const told = await one.evaluate(
      async ({ url, message }) => {
        const body = new FormData();
        body.set("message", message);
        const response = await fetch(`${url}/agents/chat/runs`, { method: "POST", body });
        const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
        let text = "";
        while (!text.includes("4 ")) text += (await reader.read()).value ?? "";
        const run = JSON.parse(text.split("\n")[2]!.slice("data: ".length));
        // As clients of AgentOS do: a JSON content type on a request without a body, and a token nobody asked for.
        const headers = { "content-type": "application/json", authorization: "Bearer none" };
        const cancelled = await fetch(`${url}/agents/chat/runs/${run.run_id}/cancel?session_id=${run.session_id}`, { method: "POST", headers });
        for (let next = await reader.read(); !next.done; next = await reader.read()) text += next.value;
        const health = await fetch(`${url}/health`, { headers });
        return { status: cancelled.status, text, run, health: await health.json<{ status: string }>(), requestId: health.headers.get("x-request-id") };
      },
      { url: server.url, message: `go #${key}` },
    );
    expect(told.status).toBe(200);
    expect(told.health.status).toBe("ok");
    expect(told.requestId).toBeTruthy();
    expect(told.text.trimEnd().split("\n").at(-1)).toContain('"event":"RunCancelled"');
    expect(await chat.read({ runId: told.run.run_id, sessionId: told.run.session_id })).toMatchObject({ status: "CANCELLED" });
  });

  test("its own WebSocket starts a run, follows it, and hears the whole of it", async () => {
    const key = story.key("ws");
    story.play(key, script(say("I look. "), call("l1", "lookup", { tag: key }), end("tool")), answer("Found."));
    const sessionId = `tab-${key}`;
    const one = await tab();
    const frames = await one.evaluate(
      ({ url, message }) =>
        new Promise<any[]>((resolve, reject) => {
          const socket = new WebSocket(url);
          const heard: any[] = [];
          socket.addEventListener("open", () => socket.send(JSON.stringify({ action: "start", agent_id: "chat", message, ref: "mine" })));
          socket.addEventListener("error", () => reject(new Error("the socket failed")));
          socket.addEventListener("message", ({ data }) => {
            heard.push(JSON.parse(String(data)));
            if (heard.at(-1).event === "RunCompleted") socket.close();
          });
          // A close that the server does not answer would never come to this.
          socket.addEventListener("close", ({ wasClean }) => resolve([...heard, { wasClean }]));
        }),
      { url: `${server.url.replace("http", "ws")}/sessions/${sessionId}/socket`, message: `go #${key}` },
    );
    expect(frames[0]).toMatchObject({ event: "connected", session_id: sessionId });
    expect(frames[1]).toMatchObject({ event: "accepted", ref: "mine", session_id: sessionId });
    expect(frames.at(-1)).toEqual({ wasClean: true });
    expect(frames.slice(2, -1)).toEqual(await chat.log({ runId: frames[1].run_id, sessionId }));
  });

  test("two tabs: one stops the run while the other is cut off, which comes back and sees the end", async () => {
    const key = story.key("tabs");
    story.play(key, script(...words(10), gate(key)));
    const run = await chat.background(`go #${key}`);
    const [a, b] = [await tab(), await tab()];
    await listen(a, run);
    await listen(b, run);
    for (const each of [a, b]) await until("the first words", async () => (await seenIn(each)).length >= 12);
    await b.evaluate(() => {
      const { source } = globalThis as any;
      source.addEventListener("error", () => ((globalThis as any).wasCut = true));
    });
    proxy.refuse(true);
    proxy.cut();
    await until("the other tab to notice", () => b.evaluate(() => (globalThis as any).wasCut === true));
    const status = await a.evaluate(
      async ({ url }) => (await fetch(url, { method: "POST" })).status,
      { url: `${server.url}/agents/chat/runs/${run.runId}/cancel?session_id=${run.sessionId}` },
    );
    expect(status).toBe(200);
    proxy.refuse(false);
    for (const each of [a, b]) {
      await until("the tab to be stopped", () => isStopped(each), { withinMs: 30_000, everyMs: 100, instead: () => requestsFor(run) });
      const seen = await seenIn(each);
      expect(seen).toEqual(await chat.log(run));
      expect(seen.filter(isTerminal)).toMatchObject([{ event: "RunCancelled" }]);
    }
  });
});
