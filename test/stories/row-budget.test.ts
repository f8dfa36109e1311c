import { afterAll, describe, expect, test } from "vitest";
import { buildBundle } from "../bench/bundle.ts";
import { product, run } from "../bench/client.ts";
import { countsOf, D1_ROW_BUDGET, objectRowBudget, written } from "../bench/counts.ts";
import { serve, startFakeModel } from "../bench/server.ts";

// The bench's own server: the bundle as a deploy would upload it, with a counter between each session and its storage.
const model = await startFakeModel();
const bundle = await buildBundle("worker");
const server = await serve("worker", bundle, { modelUrl: model.url, counting: true });
const chat = product(server.url);

afterAll(async () => {
  await server.stop();
  await model.stop();
  await bundle.remove();
});

interface Turn {
  message: string;
  tools?: boolean;
}

/** What one more turn of a session writes. */
async function countTurn(sessionId: string, turn: Turn) {
  const before = await countsOf(server.url, sessionId);
  const reading = await run(chat, { ...turn, sessionId });
  return { reading, ...written(before, await countsOf(server.url, sessionId)) };
}

const begin = async (turn: Turn = { message: "Hello #n=5,ms=0#" }): Promise<string> => (await run(chat, turn)).sessionId;

const runsOf = async (sessionId: string) => (await (await fetch(`${server.url}/sessions/${sessionId}/runs`)).json()) as { status: string; messages: unknown[]; metrics: { input_tokens: number } }[];

describe("rows that a turn writes", () => {
  test("S170 a turn of 400 deltas in four seconds stays within the budget", async () => {
    const turn = await countTurn(await begin(), { message: "Hello #n=400,ms=10#" });

    expect(turn.reading.tokens).toBe(400);
    const seconds = (turn.reading.endedAt - turn.reading.firstEventAt) / 1000;
    expect(turn.rows, JSON.stringify(turn.byStatement)).toBeLessThanOrEqual(objectRowBudget({ seconds: Math.ceil(seconds) }));
    expect(turn.d1Rows).toBeLessThanOrEqual(D1_ROW_BUDGET);
    // A count of nothing would pass as well.
    expect(turn.rows).toBeGreaterThan(10);
    expect(turn.d1Rows).toBeGreaterThan(2);
  });

  test("S170 a turn with one tool call stays within the budget", async () => {
    const turn = await countTurn(await begin(), { message: "Look #n=20,ms=0,tool=1#", tools: true });

    expect(turn.byStatement).toHaveProperty("INSERT INTO effects (run,");
    const seconds = (turn.reading.endedAt - turn.reading.firstEventAt) / 1000;
    expect(turn.rows, JSON.stringify(turn.byStatement)).toBeLessThanOrEqual(objectRowBudget({ seconds: Math.floor(seconds), toolCalls: 1 }));
    expect(turn.d1Rows).toBeLessThanOrEqual(D1_ROW_BUDGET);
  });

  test("a session's first turn stays within the budget of D1", async () => {
    const first = await countsOf(server.url, await begin({ message: "Hello #n=20,ms=0#" }));

    expect(first.d1Rows).toBeLessThanOrEqual(D1_ROW_BUDGET);
    expect(first.d1Rows).toBeGreaterThan(2);
  });
});

describe("growth", () => {
  test("S170 C117 turn 100 of a session writes and stores what turn 2 did, with the whole history shown to the model", async () => {
    const TURNS = 100;
    const turn: Turn = { message: `${"What was said before? ".repeat(45)}#n=20,ms=0,tool=1#`, tools: true };
    const sessionId = await begin(turn);
    const second = await countTurn(sessionId, turn);
    const early = await countsOf(server.url, sessionId);
    let middle = early;
    for (let count = 3; count < TURNS; count += 1) {
      await run(chat, { ...turn, sessionId });
      if (count === TURNS / 2) middle = await countsOf(server.url, sessionId);
    }
    const hundredth = await countTurn(sessionId, turn);
    const end = await countsOf(server.url, sessionId);

    for (const figure of ["rows", "bytes", "d1Rows", "d1Bytes"] as const) {
      expect(hundredth[figure], figure).toBeGreaterThan(0);
      expect(hundredth[figure], figure).toBeLessThanOrEqual(second[figure] * 1.2);
    }
    // Pages of the database file: as many for the second half of the turns as for the first.
    const [firstHalf, secondHalf] = [middle.databaseSize - early.databaseSize, end.databaseSize - middle.databaseSize];
    expect(secondHalf).toBeGreaterThan(0);
    expect(secondHalf).toBeLessThanOrEqual(firstHalf * 1.2);

    const runs = await runsOf(sessionId);
    expect(runs).toHaveLength(TURNS);
    // The fake model counts messages as tokens: a system message, four of each turn before, and the turn's own, twice.
    expect(runs.at(-1)?.metrics.input_tokens).toBe(2 * (1 + 4 * (TURNS - 1)) + 1 + 3);
    expect(new Set(runs.map(({ status, messages }) => `${status} ${messages.length}`))).toEqual(new Set([`COMPLETED ${runs[0]?.messages.length}`]));
  });
});
