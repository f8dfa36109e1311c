import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { releaseGate } from "../../../src/models/scripted.ts";
import { toolRuns, wordsModel } from "./agents.ts";
import { ask, crash, expectValidLog, fireAlarm, newSessionId, readLog, request, rowsIn, shownText, start, getRun } from "./harness.ts";

/** Small, seeded, and the same everywhere: a failing sequence can be run again by its seed. */
function random(seed: number) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return { chance: (share: number) => next() < share, pick: <T>(choices: readonly T[]): T => choices[Math.floor(next() * choices.length)] as T };
}

const FINISHED = ["COMPLETED", "ERROR", "CANCELLED"];

/** Every call has exactly one result, right behind the reply that asked for it and in its order. */
function expectValidHistory(): void {
  for (const { messages } of wordsModel.requests) {
    messages.forEach((message, index) => {
      if (message.role === "assistant") {
        const results = messages.slice(index + 1, index + 1 + message.toolCalls.length);
        expect(results.map((result) => (result.role === "tool" ? result.toolCallId : result.role))).toEqual(message.toolCalls.map((call) => call.id));
      }
      if (message.role === "tool") expect(["assistant", "tool"]).toContain(messages[index - 1]?.role);
    });
  }
}

describe("whatever happens in whatever order", () => {
  it.each(Array.from({ length: 12 }, (_, index) => index + 1))("seed %i: one turn at a time, a log without gaps, no call twice, D1 agrees", async (seed) => {
    const { chance, pick } = random(seed);
    const session = newSessionId();
    const runs: string[] = [];
    const gates: string[] = [];
    let step = 0;

    const startSomething = async () => {
      const gate = `random-${seed}-${step}`;
      const message = pick([`hello there`, `a b /gate:${gate} c`, `/call:ping`, `x /call:charge:{"amount":${step}} /then:${gate}`, `/call:ping /call:remember:{"key":"k${step}","value":"v"}`]);
      gates.push(gate);
      const response = await start(session, message, { stream: "false", background: "true", on_busy: pick(["reject", "enqueue", "enqueue", "interrupt"]) });
      expect([202, 409]).toContain(response.status);
      if (response.status === 202) runs.push((await response.json<{ run_id: string }>()).run_id);
    };
    const actions = [
      startSomething,
      startSomething,
      async () => releaseGate(pick(gates.length === 0 ? ["none"] : gates)),
      async () => void (runs.length > 0 && (await request(`/agents/words/runs/${pick(runs)}/cancel?session_id=${session}`, { method: "POST" }))),
      async () => void (runs.length > 0 && (await getRun(session, pick(runs)))),
      async () => void (runs.length > 0 && chance(0.5) && (await readTold(session, pick(runs)))),
      crash,
      async () => void (await fireAlarm(session)),
    ];
    for (step = 0; step < 30; step += 1) {
      await pick(actions)();
      const open = runs.length === 0 ? [] : await rowsIn(session, "runs WHERE status = 'running'");
      expect(open.length).toBeLessThanOrEqual(1);
    }

    for (const gate of gates) releaseGate(gate);
    await vi.waitFor(
      async () => {
        for (const run of runs) expect(FINISHED).toContain((await getRun(session, run)).status);
      },
      { timeout: 10_000, interval: 20 },
    );
    await ask(session, "the session takes the next turn");

    for (const run of runs) {
      const log = await readLog(session, run);
      expectValidLog(log);
      const record = await getRun(session, run);
      // A run that ended badly without having said anything says why in its content, as AgentOS's do.
      const last = log.at(-1)!;
      expect(shownText(log) || ((last.content ?? last.reason ?? "") as string)).toBe(record.content ?? "");
      const once = toolRuns.get("charge")?.filter((key) => key.startsWith(run)) ?? [];
      expect(once.length).toBe(new Set(once).size);
    }
    expectValidHistory();
    await vi.waitFor(
      async () => {
        await fireAlarm(session);
        const told = await env.DB.prepare("SELECT run_id, status FROM runs WHERE session_id = ? ORDER BY ordinal").bind(session).all();
        const held = (await rowsIn(session, "runs")).map(({ run_id, status }) => ({ run_id, status }));
        expect(told.results).toEqual(held);
      },
      { timeout: 10_000, interval: 20 },
    );
  });
});

/** What a poll shows is never taken back: the same indices say the same things later. */
async function readTold(session: string, run: string): Promise<void> {
  const poll = async () => (await (await request(`/agents/words/runs/${run}/events?session_id=${session}`)).json()) as { events: { event_index: number; event: string }[] };
  const [before, after] = [await poll(), await poll()];
  expect(after.events.slice(0, before.events.length)).toEqual(before.events);
}
