import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it, vi } from "vitest";
import type { Approval } from "../../../src/domain/approval.ts";
import type { RunReading } from "../../../src/session/commands.ts";
import { fireAlarm, inObject, newSessionId, rowsIn } from "./harness.ts";
import { doneBy, pauseModel } from "./pause-agents.ts";
import { ALL, approvalsIn, begin, cancel, drop, expectSoundLog, go, goUntil, logOf, makeDue, object, type Paused, paused, read, requestProblems, resolve, until } from "./pause-harness.ts";

/** Small, seeded, and the same everywhere: a failing sequence can be run again by its seed. */
function random(seed: number) {
  let state = seed;
  const next = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
  return { below: (limit: number) => Math.floor(next() * limit), pick: <T>(choices: readonly T[]): T => choices[Math.floor(next() * choices.length)] as T };
}

const MOVES: Record<string, (waiting: Paused) => Promise<unknown>> = {
  approve: ({ sessionId, approval }) => resolve(sessionId, approval.id, { by: "ann" }),
  "approve with other arguments": ({ sessionId, approval }) => resolve(sessionId, approval.id, { by: "ann", data: { edited_args: { id: 8 } } }),
  "approve and continue": ({ sessionId, approval }) => resolve(sessionId, approval.id, { by: "ann", thenContinue: true }),
  reject: ({ sessionId, approval }) => resolve(sessionId, approval.id, { by: "bob", decision: "rejected" }),
  continue: ({ sessionId, runId }) => go(sessionId, runId),
  "continue with a yes": ({ sessionId, runId }) => go(sessionId, runId, { answers: { c00: { confirmed: true } } }),
  cancel: ({ sessionId, runId }) => cancel(sessionId, runId),
  "delete the approval": ({ sessionId, approval }) => drop(sessionId, approval.id),
  expire: async ({ sessionId }) => {
    await makeDue(sessionId, "expiry:%");
    await fireAlarm(sessionId);
  },
  // The object of this session alone, in the middle of whatever it does.
  crash: ({ sessionId }) => inObject(sessionId, (state) => state.abort("A crash.")),
};

/** What tends to happen, so that most stories get as far as the call. */
const LIKELY = ["approve", "approve", "approve with other arguments", "approve and continue", "reject", "continue", "continue", "continue", "continue with a yes", "cancel", "delete the approval", "expire", "crash", "crash"];

/** Steps one after the other; what is in one step happens at once. */
function storyOf(seed: number): string[][] {
  const { below, pick } = random(seed);
  return Array.from({ length: 2 + below(4) }, () => Array.from({ length: 1 + below(3) }, () => pick(LIKELY)));
}

/** The run when nothing moves any more: at its end, or where it waits for people, and everybody has been told. */
const atRest = ({ sessionId, runId }: Paused): Promise<RunReading> =>
  vi.waitFor(
    async () => {
      const reading = await read(sessionId, runId);
      expect(["paused", "completed", "cancelled", "failed"]).toContain(reading.record.status);
      expect((await rowsIn(sessionId, `runs WHERE run_id = '${runId}'`))[0]?.status).toBe(reading.record.status);
      return reading;
    },
    { timeout: 10_000, interval: 2 },
  );

/** How the stories ended: each of these ways must be among them, or the stories are too tame to show anything. */
const ways = new Map<string, number>();

/** What the ledger, the approval and the world say must be one story. */
function expectOneStory({ runId }: Paused, { record }: RunReading, approval: Approval | undefined): void {
  const [effect] = record.effects;
  const { requirement } = effect!;
  const made = doneBy(runId);
  expect(made.length).toBeLessThanOrEqual(1);
  switch (effect!.status) {
    case "planned":
    case "rejected":
    case "skipped":
      expect(made).toEqual([]);
      break;
    case "done":
      expect(made).toHaveLength(1);
      break;
    default:
      // It was under way when its run was cancelled or lost: nobody may say more.
      expect(effect!.status).toBe("unknown");
  }
  // The world was only touched on somebody's yes, and with what they said yes to.
  if (requirement?.kind === "confirmation") {
    const { resolution } = requirement;
    const isYes = resolution?.kind === "confirmation" && resolution.confirmed;
    if (!isYes) expect(made).toEqual([]);
    else expect(made.every(({ args }) => args.id === (resolution.arguments?.id ?? 7))).toBe(true);
    if (approval !== undefined) {
      const status = resolution === undefined ? ["pending", "cancelled"] : isYes ? ["approved"] : ["rejected", "expired"];
      expect(status).toContain(approval.status);
    }
  } else if (approval !== undefined) expect(approval.status).toBe("approved");
  if (record.status === "completed") expect(["done", "rejected"]).toContain(effect!.status);
  if (approval !== undefined && record.status !== "paused") expect(approval.runStatus).toBe(record.status);
  ways.set(`${record.status}, ${effect!.status}`, (ways.get(`${record.status}, ${effect!.status}`) ?? 0) + 1);
}

const STORIES = 100;
/** So many sessions at once, each with one story after the other: a run that waits, or has ended, is in nobody's way. */
const LANES = 8;

async function play(seed: number, sessionId: string): Promise<void> {
  const story = storyOf(seed);
  // A schema that takes its time lets others in between a look and its commit.
  const waiting = await paused(`${seed % 3 === 0 ? "checked_crm" : "slow_crm"} {"id":7}`, { sessionId, onBusy: "enqueue" });
  const { runId } = waiting;
  try {
    // A crash takes the answers along of what happens at the same time.
    for (const step of story) await Promise.allSettled(step.map((move) => MOVES[move]!(waiting)));
    const first = await atRest(waiting);
    const [approval] = await approvalsIn(sessionId, runId);
    expectOneStory(waiting, first, approval);
    expectSoundLog(await logOf(sessionId, runId));

    // Whatever was left open is brought to its end, which changes nothing about what was decided.
    const before = doneBy(runId).length;
    const [effect] = first.record.effects;
    if (first.record.status === "paused") {
      const isUnknown = effect!.requirement!.kind === "unknown_outcome";
      const isDecided = effect!.requirement!.resolution !== undefined && approval !== undefined;
      if (isUnknown) await goUntil(sessionId, runId, "completed", { answers: { c00: { outcome: "skip" } } });
      else if (isDecided) await goUntil(sessionId, runId, "completed");
      else {
        expect((await go(sessionId, runId)).ok).toBe(false);
        await cancel(sessionId, runId);
      }
      const last = await atRest(waiting);
      if (!isUnknown) expectOneStory(waiting, last, (await approvalsIn(sessionId, runId))[0]);
      if (isUnknown || !isDecided) expect(doneBy(runId)).toHaveLength(before);
    }

    // What costs more to look at is looked at less often.
    if (seed % 5 === 0) await expectHistoryAgrees(waiting);
    if (seed % 10 === 0) await expectD1Agrees(waiting);
  } catch (error) {
    throw new Error(`Story ${seed}, ${JSON.stringify(story)}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

describe("whatever people, clients and clocks do to one paused run, in whatever order", () => {
  it.each(Array.from({ length: 10 }, (_, part) => part))(`C040 P4 ${STORIES} stories: the call is made once or not at all, and everything agrees (part %i)`, async (part) => {
    const seeds = Array.from({ length: STORIES }, (_, round) => part * STORIES + round);
    const lane = async () => {
      const sessionId = newSessionId();
      for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) await play(seed, sessionId);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  }, 240_000);

  afterAll(() => {
    for (const way of ["completed, done", "completed, rejected", "cancelled, skipped", "cancelled, unknown", "paused, planned", "paused, unknown"]) expect([...ways.keys()], JSON.stringify([...ways])).toContain(way);
  });
});

/** The next turn sees what came of each run that was completed, and nothing of the others. */
async function expectHistoryAgrees({ sessionId }: Paused): Promise<void> {
  const runs = await object(sessionId).readRuns({ access: ALL });
  // A continue of what was completed already makes a sibling, which holds the same result; it is read once.
  const came = (runs.ok ? runs.value : []).filter(({ record }) => record.status === "completed" && record.forkedFromRunId === undefined).flatMap(({ record }) => record.effects.map(({ result }) => result));
  await until(sessionId, await begin(sessionId, "next", { onBusy: "enqueue" }), "completed");
  const request = pauseModel.requests.findLast((one) => one.sessionId === sessionId)!;
  expect(requestProblems(request)).toEqual([]);
  const results = request.messages.flatMap((message) => (message.role === "tool" ? [message.content] : []));
  expect(results).toEqual(came);
}

/** What D1 lists is what the object holds. */
async function expectD1Agrees({ sessionId, runId, approval: { id } }: Paused): Promise<void> {
  await vi.waitFor(
    async () => {
      await fireAlarm(sessionId);
      const [held] = await approvalsIn(sessionId, runId);
      const document = await env.DB.prepare("SELECT document FROM approvals WHERE approval_id = ?").bind(id).first<string>("document");
      expect(document === null ? undefined : JSON.parse(document)).toEqual(held);
      expect(await env.DB.prepare("SELECT status FROM runs WHERE run_id = ?").bind(runId).first("status")).toBe((await read(sessionId, runId)).record.status);
    },
    { timeout: 10_000, interval: 10 },
  );
}
