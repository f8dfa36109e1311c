import { describe, expect, test } from "vitest";
import { end, gate, say, script, wait } from "../fakes/script.ts";
import { historyProblems, logProblems } from "./harness/checks.ts";
import type { WireRun } from "./harness/client.ts";
import { isTerminal } from "./harness/event-stream.ts";
import { random, storySeed } from "./harness/random.ts";
import { answer, startStory } from "./harness/story.ts";
import { until } from "./harness/until.ts";

const story = await startStory();
const { chat, provider } = story;

const seed = storySeed();
const chance = random(seed);

const runsOf = async (sessionId: string) => (await chat.get<WireRun[]>(`/sessions/${sessionId}/runs`)).body;

describe("many turns at once", () => {
  const POSTS = 50;

  /** Posts 50 turns in one moment and gives back what each got; the turn that was accepted is held at the gate. */
  async function rush(sessionId: string, key: string) {
    const refused: { status: number; type: string | null; body: any }[] = [];
    const accepted: { shape: string; response: Response }[] = [];
    const shapes = ["stream", "non-stream", "background", "streamed background"];
    const posts = Array.from({ length: POSTS }, async (_, place) => {
      const shape = shapes[place % shapes.length]!;
      const body = new FormData();
      body.set("message", `number ${place} #${key}`);
      body.set("session_id", sessionId);
      body.set("stream", String(shape.startsWith("stream")));
      body.set("background", String(shape.endsWith("background")));
      const response = await fetch(`${chat.url}/agents/chat/runs`, { method: "POST", body });
      if (response.ok) return accepted.push({ shape, response });
      return refused.push({ status: response.status, type: response.headers.get("content-type"), body: await response.json() });
    });
    // The one that is accepted may be one that answers at its end.
    await until("all others to be refused", () => refused.length === POSTS - 1, { withinMs: 60_000, instead: () => ({ refused: refused.length, accepted: accepted.length }) });
    return { refused, accepted, all: Promise.all(posts) };
  }

  test.each(["a session that exists", "a session that does not exist yet"])("C016 S16 S17 S73 S74 S353 one of 50 wins on %s, and the others leave nothing", async (which) => {
    const key = story.key("rush");
    const sessionId = `rush-${key}`;
    const before = which === "a session that exists" ? 1 : 0;
    if (before > 0) {
      story.play(`${key}-first`, answer("first"));
      expect((await chat.run(`first #${key}-first`, { session_id: sessionId })).body.status).toBe("COMPLETED");
    }

    story.play(key, script(say("I am the one. "), gate(key), say("Done."), end()));
    const { refused, accepted, all } = await rush(sessionId, key);

    const runs = await runsOf(sessionId);
    expect(runs).toHaveLength(before + 1);
    const winner = runs.at(-1)!;
    for (const refusal of refused) {
      expect(refusal.status).toBe(409);
      expect(refusal.type).toContain("application/json");
      expect(refusal.body).toMatchObject({ error_type: "session_busy", run_id: winner.run_id, detail: expect.stringContaining(winner.run_id) });
    }
    // A refusal through a socket leaves as little.
    const socket = await chat.socket(sessionId);
    socket.send({ action: "start", agent_id: "chat", message: `by socket #${key}`, ref: "s" });
    expect(await socket.frame("the refusal", ({ ref }) => ref === "s")).toMatchObject({ event: "error", error_type: "session_busy", run_id: winner.run_id });
    socket.drop();

    provider.release(key);
    await all;
    expect(accepted).toHaveLength(1);
    const over = await chat.over({ runId: winner.run_id, sessionId });
    expect(over).toMatchObject({ status: "COMPLETED", content: "I am the one. Done." });
    expect(provider.requests(key)).toHaveLength(1);
    expect(await runsOf(sessionId)).toHaveLength(before + 1);
    expect((await story.rowsOf(sessionId)).map((row) => row.status)).toEqual(Array(before + 1).fill("COMPLETED"));
    expect(logProblems(await chat.log({ runId: winner.run_id, sessionId }))).toEqual([]);
  });

  test("C016 ten turns after each other are all there, in order", async () => {
    const key = story.key("row");
    const sessionId = `row-${key}`;
    for (let turn = 0; turn < 10; turn += 1) {
      story.play(key, answer(`answer ${turn}`));
      expect((await chat.run(`turn ${turn} #${key}`, { session_id: sessionId })).body.status).toBe("COMPLETED");
    }
    expect((await runsOf(sessionId)).map((run) => run.run_input)).toEqual(Array.from({ length: 10 }, (_, turn) => `turn ${turn} #${key}`));
    expect(historyProblems(provider.requests(key))).toEqual([]);
  });

  test("S90 two sessions of one user and agent run at the same time", async () => {
    const key = story.key("two");
    story.play(key, script(gate(key), say("one"), end()), script(gate(key), say("two"), end()));
    const runs = await Promise.all([chat.background(`a #${key}`, { user_id: "u" }), chat.background(`b #${key}`, { user_id: "u" })]);
    await until("both to be asked", () => provider.requests(key).filter(({ state }) => state === "open").length === 2);
    provider.release(key);
    for (const run of runs) expect((await chat.over(run)).status).toBe("COMPLETED");
  });
});

describe("cancel against what happens at the same time", () => {
  /** Runs jobs, so many at a time. */
  async function side<T>(jobs: readonly T[], atOnce: number, run: (job: T) => Promise<void>): Promise<void> {
    const waiting = jobs.values();
    await Promise.all(Array.from({ length: atOnce }, async () => {
      for (const job of waiting) await run(job);
    }));
  }

  test(`C026 200 times: one terminal event, the same for everyone (seed ${seed})`, { timeout: 240_000 }, async () => {
    const outcomes: string[] = [];
    // How long such a run takes here and now, so that the cancels fall around its end.
    const probeKey = story.key("pace");
    story.play(probeKey, script(wait(30), say("done"), end()));
    const begun = performance.now();
    await chat.run(`pace #${probeKey}`);
    const usual = performance.now() - begun;

    await side(Array.from({ length: 200 }, (_, place) => place), 8, async (place) => {
      const dice = chance.fork(`cancel-${place}`);
      const key = story.key("race");
      story.play(key, script(wait(30), say("done"), end()));
      const { run, stream } = await chat.started(`go #${key}`);
      const cancels = Array.from({ length: dice.between(1, 5) }, async () => {
        const wish = dice.next() * usual * 1.2;
        const due = performance.now() + wish;
        await until("the moment to cancel", () => performance.now() >= due, { everyMs: 1 });
        return chat.cancel(run);
      });
      for (const answered of await Promise.all(cancels)) expect(answered).toMatchObject({ status: 200, body: {} });

      const seen = await stream.ended();
      expect(seen.filter(isTerminal)).toHaveLength(1);
      const read = await chat.over(run);
      const log = await chat.log(run);
      expect(logProblems(log)).toEqual([]);
      expect(log).toEqual(seen);
      expect(read.status).toBe(log.at(-1)?.event === "RunCompleted" ? "COMPLETED" : "CANCELLED");
      outcomes.push(read.status);

      // Once more, when it is long over: nothing changes.
      expect(await chat.cancel(run)).toMatchObject({ status: 200, body: {} });
      expect((await chat.read(run)).status).toBe(read.status);
      expect(await chat.log(run)).toEqual(log);
      await until("D1 to have the end", async () => (await story.rowsOf(run.sessionId))[0]?.status === read.status);
      expect(await story.rowsOf(run.sessionId)).toHaveLength(1);
    });

    // Both must have happened, or the test has raced nothing.
    expect(new Set(outcomes)).toEqual(new Set(["COMPLETED", "CANCELLED"]));
  });

  test(`C022 100 times: a cancel as soon as the id is known is heard (seed ${seed})`, { timeout: 240_000 }, async () => {
    const outcomes: string[] = [];
    await side(Array.from({ length: 100 }, (_, place) => place), 8, async (place) => {
      const key = story.key("early");
      const delay = [0, 1, 5, 20, 100][place % 5]!;
      story.play(key, script(wait(2_000), say("x"), end()));
      const start = async () => {
        if (place % 2 === 0) return chat.background(`go #${key}`, { stream: false });
        const { run, stream } = await chat.started(`go #${key}`);
        void stream.ended();
        return run;
      };
      const run = await start();
      const due = performance.now() + delay;
      await until("the moment to cancel", () => performance.now() >= due, { everyMs: 1 });
      expect(await chat.cancel(run)).toMatchObject({ status: 200, body: {} });
      const heardAt = Date.now();

      const read = await chat.over(run);
      outcomes.push(read.status);
      expect(logProblems(await chat.log(run))).toEqual([]);
      await until("the model to be let go", () => provider.requests(key).every(({ state }) => state === "closed-by-client"));
      expect(provider.requests(key).filter(({ receivedAt }) => receivedAt > heardAt + 100)).toEqual([]);

      story.play(`${key}-next`, answer("free"));
      expect((await chat.run(`next #${key}-next`, { session_id: run.sessionId })).body).toMatchObject({ status: "COMPLETED" });
      expect(historyProblems(provider.requests(`${key}-next`))).toEqual([]);
    });
    expect(new Set(outcomes)).toEqual(new Set(["CANCELLED"]));
  });

  test("C022 S365 the cancel of an unknown id and of another agent's run does nothing", async () => {
    const key = story.key("foreign");
    story.play(key, script(say("a"), gate(key), say("b"), end()));
    const run = await chat.background(`go #${key}`);
    expect(await chat.cancel({ ...run, runId: "01900000-0000-7000-8000-000000000000" })).toMatchObject({ status: 200, body: {} });
    expect(await chat.cancel({ ...run, runId: "no-run-has-such-an-id" })).toMatchObject({ status: 200, body: {} });
    expect((await story.claude.cancel(run)).status).toBe(404);
    provider.release(key);
    expect(await chat.over(run)).toMatchObject({ status: "COMPLETED", content: "ab" });
  });
});
