import { describe, expect, it } from "vitest";
import { z } from "zod";
import { getUserInput } from "../../../src/define/ask-person.ts";
import { defineTool } from "../../../src/define/tool.ts";
import type { Resolution } from "../../../src/domain/requirement.ts";
import { effectKey } from "../../../src/domain/tool-call.ts";
import { call, type Cue, reply, type Reply, say, scripted } from "../../../src/models/scripted.ts";
import { agentOf, type CrashPoint, type End, expectSoundLog, expectSoundPause, HeldClock, Lab, pairingProblems, requestProblems, seeded, settle, shownText } from "./harness.ts";

const input = z.object({ n: z.number() });

/** Tools that people are asked about, and a world that remembers what they did. `once` promises nothing and has no probe. */
function worldOf() {
  const made = new Map<string, unknown[]>();
  const execute = async ({ n }: { n: number }, { idempotencyKey }: { idempotencyKey: string }) => {
    made.set(idempotencyKey, [...(made.get(idempotencyKey) ?? []), n]);
    for (let turn = 0; turn < n % 4; turn += 1) await Promise.resolve();
    return `done ${n}`;
  };
  const tools = [
    defineTool({ name: "once", description: "", input, requiresConfirmation: true, execute }),
    defineTool({ name: "filled", description: "", input, requiresUserInput: true, execute }),
    defineTool({ name: "outside", description: "", input, externalExecution: true, execute }),
    defineTool({ name: "free", description: "", input, execute }),
    defineTool({ name: "read", description: "", input, effect: "none", execute: ({ n }) => n }),
    getUserInput,
  ];
  return { made, tools };
}

const NAMES = ["once", "once", "once", "filled", "outside", "free", "read", "get_user_input"] as const;

/** What the model asks for, and what people say about each call whenever they are asked, by call id. */
interface Script {
  replies: Reply[];
  answers: Map<string, Resolution>;
  /** What they say of a call that may have happened. */
  unknown: Extract<Resolution, { kind: "unknown_outcome" }>;
}

function randomScript(seed: number): Script {
  const random = seeded(seed);
  const answers = new Map<string, Resolution>();
  const replies: Reply[] = [];
  for (let step = 0, steps = 1 + random.below(3); step < steps; step += 1) {
    const cues: Cue[] = random.below(2) === 0 ? [say(`Step ${step}. `)] : [];
    for (let position = 0, calls = 1 + random.below(3); position < calls; position += 1) {
      const name = random.pick(NAMES);
      const id = `c${step}${position}`;
      const n = random.below(100);
      cues.push(call(name, name === "get_user_input" ? { fields: [{ name: "n", type: "int" }] } : { n }, { id }));
      if (name === "once") answers.set(id, random.pick([{ kind: "confirmation", confirmed: true }, { kind: "confirmation", confirmed: true, arguments: { n: n + 1_000 } }, { kind: "confirmation", confirmed: false, note: "No." }, { kind: "rejected" }]));
      if (name === "filled" || name === "get_user_input") answers.set(id, { kind: "user_input", values: { n: n + 2_000 } });
      if (name === "outside") answers.set(id, { kind: "external_execution", result: `from outside ${n}` });
    }
    replies.push(reply(...cues));
  }
  return { replies: [...replies, reply("All of it is done.")], answers, unknown: random.pick([{ kind: "unknown_outcome", decision: "happened", result: "it did" }, { kind: "unknown_outcome", decision: "run" }, { kind: "unknown_outcome", decision: "skip" }]) };
}

function begin({ replies }: Script) {
  const { made, tools } = worldOf();
  const model = scripted((_request, { step }) => replies[step] as Reply);
  const lab = new Lab({ agent: agentOf({ tools: tools as never }), model, clock: new HeldClock() });
  return { made, model, lab };
}

/** An attempt, with time going on wherever it waits. */
async function attempt(lab: Lab, crash?: CrashPoint): Promise<End> {
  let over = false;
  const ended = lab.attempt(crash).finally(() => (over = true));
  for (await settle(); !over; await settle()) await lab.clock.pass(lab.clock.nextMs ?? 0);
  return ended;
}

/** People answer all that they are asked. */
function answerAll(lab: Lab, { answers, unknown }: Script): void {
  for (const [callId, kind] of Object.entries(lab.open)) lab.answer(callId, kind === "unknown_outcome" ? unknown : (answers.get(callId) as Resolution));
}

/** Attempts and answers until the run has ended. `crash` gives the place where the next attempt dies, if it does. */
async function toTheEnd(lab: Lab, script: Script, crash: () => CrashPoint | undefined = () => undefined): Promise<End> {
  for (let round = 0; round < 50; round += 1) {
    const end = await attempt(lab, crash());
    if (end.status === "paused") {
      expectSoundPause(lab);
      expect(Object.keys(lab.open).length).toBeGreaterThan(0);
      answerAll(lab, script);
    } else if (end.status === "crashed") {
      if (lab.told.some((event) => event.type === "run.completed")) return end;
      // The pause was stored, and only the word of it was lost.
      if (lab.events.at(-1)?.type === "run.paused") answerAll(lab, script);
    } else return end;
  }
  throw new Error("The run does not end.");
}

function expectWhole({ lab, model, made }: ReturnType<typeof begin>, script: Script): void {
  expectSoundLog(lab);
  expect(pairingProblems(lab.history)).toEqual([]);
  expect(model.requests.flatMap(requestProblems)).toEqual([]);
  for (const effect of lab.effects) {
    const runs = made.get(effectKey(effect)) ?? [];
    const wasUnknown = effect.requirement?.kind === "unknown_outcome";
    // Twice only where a person has said that it did not happen, or does no harm.
    expect(runs.length, `${effect.callId} ${effect.toolName} ${effect.status}`).toBeLessThanOrEqual(wasUnknown && script.unknown.decision === "run" ? 2 : 1);
    const answer = script.answers.get(effect.callId);
    if (answer?.kind === "rejected" || (answer?.kind === "confirmation" && !answer.confirmed) || answer?.kind === "external_execution") expect(runs).toEqual([]);
    // Each time with what a person has approved.
    if (answer?.kind === "confirmation" && answer.confirmed && answer.arguments !== undefined) expect(runs.every((n) => n === answer.arguments?.n)).toBe(true);
    if (answer?.kind === "user_input") expect(runs.every((n) => n === answer.values.n)).toBe(true);
  }
}

const points = (commits: number): CrashPoint[] => Array.from({ length: commits - 1 }, (_, index) => index + 2).flatMap((commit) => [{ commit, when: "before" as const }, { commit, when: "after" as const }]);

describe("a turn that waits for people, and is lost and taken up again", () => {
  it.each(Array.from({ length: 24 }, (_, seed) => seed))("does each thing once at most, or asks, whatever commit the crash was at (story %i)", async (seed) => {
    const script = randomScript(seed);
    const reference = begin(script);
    const expected = await toTheEnd(reference.lab, script);
    expect(expected).toMatchObject({ status: "completed" });
    expectWhole(reference, script);

    for (const crash of points(reference.lab.commits.length)) {
      const story = begin(script);
      // A lost attempt adds commits of its own, so the place of the crash is passed once.
      const end = await toTheEnd(story.lab, script, () => crash);
      expect(end.status === "crashed" ? story.lab.told.at(-1)?.type : end.status).toMatch(/completed/);
      expectWhole(story, script);
      const asked = story.lab.effects.some((effect) => effect.requirement?.kind === "unknown_outcome");
      if (!asked) {
        expect(Object.fromEntries(story.made)).toEqual(Object.fromEntries(reference.made));
        expect(story.lab.effects.map(({ status, result }) => [status, result])).toEqual(reference.lab.effects.map(({ status, result }) => [status, result]));
      }
      expect(shownText(story.lab.told)).toBe(shownText(reference.lab.told));
    }
  });

  it("does so after several crashes, too", async () => {
    const random = seeded(7);
    for (let trial = 0; trial < 80; trial += 1) {
      const script = randomScript(2_000 + trial);
      const story = begin(script);
      let crashes = 0;
      await toTheEnd(story.lab, script, () => {
        crashes += 1;
        return crashes > 6 ? undefined : { commit: story.lab.commits.length + 1 + random.below(6), when: random.pick(["before", "after"]) };
      });
      expectSoundLog(story.lab);
      expect(pairingProblems(story.lab.history)).toEqual([]);
      for (const effect of story.lab.effects) {
        const runs = story.made.get(effectKey(effect)) ?? [];
        // Several losses are several questions; without one there is one run.
        if (effect.requirement?.kind !== "unknown_outcome") expect(runs.length).toBeLessThanOrEqual(1);
        const answer = script.answers.get(effect.callId);
        if (answer?.kind === "rejected" || (answer?.kind === "confirmation" && !answer.confirmed)) expect(runs).toEqual([]);
        if (answer?.kind === "confirmation" && answer.arguments !== undefined) expect(runs.every((n) => n === answer.arguments?.n)).toBe(true);
      }
    }
  });

  it("never runs a `once` call in a batch before its own decision, whichever of its siblings were decided or lost", async () => {
    for (let seed = 0; seed < 12; seed += 1) {
      const script = randomScript(300 + seed);
      const story = begin(script);
      const random = seeded(seed);
      for (let round = 0; round < 60; round += 1) {
        const end = await attempt(story.lab, random.below(2) === 0 ? { commit: story.lab.commits.length + 1 + random.below(4), when: random.pick(["before", "after"]) } : undefined);
        if (end.status === "completed" || story.lab.told.some((event) => event.type === "run.completed")) break;
        const open = Object.keys(story.lab.open);
        for (const callId of open) {
          const effect = story.lab.effect(callId);
          const isFirstQuestion = effect.status === "planned";
          if (isFirstQuestion) expect(story.made.get(effectKey(effect)) ?? []).toEqual([]);
        }
        // The engine waits for all of them; one answer alone makes nothing run that waits.
        if (open.length > 1) {
          const [first, second] = open as [string, string];
          const before = story.made.get(effectKey(story.lab.effect(second)))?.length ?? 0;
          story.lab.answer(first, story.lab.open[first] === "unknown_outcome" ? script.unknown : (script.answers.get(first) as Resolution));
          await attempt(story.lab);
          expect(story.made.get(effectKey(story.lab.effect(second)))?.length ?? 0).toBe(before);
        }
        if (story.lab.events.at(-1)?.type === "run.paused") answerAll(story.lab, script);
      }
    }
  });
});
