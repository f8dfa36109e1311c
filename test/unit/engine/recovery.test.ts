import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/define/tool.ts";
import type { Message } from "../../../src/domain/message.ts";
import { call, type Cue, end, fail, reply, type Reply, say, type ScriptedModel, scripted, think } from "../../../src/models/scripted.ts";
import { agentOf, type CrashPoint, type End, expectSoundLog, expectSoundPause, HeldClock, Lab, pairingProblems, requestProblems, seeded, settle, shownText } from "./harness.ts";

/** What tools did to a world that remembers it, also when the process that called them does not. */
class World {
  /** How often each call was carried out, by its key. */
  readonly made = new Map<string, number>();
  /** What a receiver with idempotency keys has. */
  readonly kept = new Map<string, unknown>();

  make(key: string): void {
    this.made.set(key, (this.made.get(key) ?? 0) + 1);
  }
}

const args = z.object({ n: z.number() });

/** Tools of every kind. What they do they do at once; some only answer later. */
function toolsOf(world: World) {
  const later = async (n: number) => {
    for (let turn = 0; turn < n % 4; turn += 1) await Promise.resolve();
  };
  return [
    defineTool({ name: "read", description: "", effect: "none", input: args, execute: async ({ n }) => (await later(n), `read ${n}`) }),
    defineTool({
      name: "upsert",
      description: "",
      effect: "idempotent",
      input: args,
      execute: async ({ n }, { idempotencyKey, session }) => {
        world.kept.set(idempotencyKey, n);
        session.state[`upsert${n}`] = true;
        await later(n);
        return { kept: n };
      },
    }),
    defineTool({
      name: "charge",
      description: "",
      input: args,
      probe: async (key) => (world.made.has(key) ? { happened: true, result: `receipt for ${key}` } : { happened: false }),
      execute: async ({ n }, { idempotencyKey }) => {
        world.make(idempotencyKey);
        await later(n);
        return `receipt for ${idempotencyKey}`;
      },
    }),
    defineTool({ name: "wait_turn", description: "", effect: "none", sequential: true, input: args, execute: async ({ n }) => (await later(n), n) }),
    defineTool({ name: "breaks", description: "", effect: "none", input: args, execute: ({ n }) => Promise.reject(new Error(`no ${n}`)) }),
    defineTool({ name: "answer", description: "", effect: "none", stopAfterCall: true, input: args, execute: ({ n }) => `the answer is ${n}` }),
    defineTool({
      name: "wire",
      description: "",
      input: args,
      execute: async ({ n }, { idempotencyKey }) => {
        world.make(idempotencyKey);
        await later(n);
        return "wired";
      },
    }),
  ];
}

const SAFE = ["read", "upsert", "charge", "wait_turn", "breaks", "gone"];

interface Script {
  replies: Reply[];
  retries: number;
}

function randomScript(seed: number, tools: readonly string[]): Script {
  const random = seeded(seed);
  const replies: Reply[] = [];
  const steps = 1 + random.below(3);
  for (let step = 0; step < steps; step += 1) {
    const cues: Cue[] = [];
    if (random.below(3) === 0) cues.push(think(`Thought ${step}.`));
    if (random.below(2) === 0) cues.push(say(`Step ${step} begins. `));
    const calls = 1 + random.below(3);
    for (let position = 0; position < calls; position += 1) {
      // Servers use ids again; some calls are not JSON.
      const id = random.below(4) === 0 ? { id: "same" } : {};
      cues.push(call(random.pick(tools), random.below(8) === 0 ? "{broken" : { n: random.below(100) }, id));
    }
    replies.push(reply(...cues));
  }
  if (random.below(3) === 0) replies.push(reply(call("answer", { n: seed })));
  else replies.push(random.below(4) === 0 ? reply(say("I would rather not."), end("refusal")) : reply(say("All of it is done."), ...(random.below(3) === 0 ? [end("length")] : [])));
  return { replies, retries: random.below(2) };
}

/** One story: the model, the world and the lab. A model that may be asked again fails first, after half a sentence. */
function begin({ replies, retries }: Script) {
  const world = new World();
  const clock = new HeldClock();
  let asked = 0;
  const model: ScriptedModel = scripted((_request, { step }) => {
    asked += 1;
    return retries > 0 && asked % 2 === 1 ? reply(say("Half a sentence that"), fail("overloaded")) : replies[step]!;
  });
  const lab = new Lab({ agent: agentOf({ tools: toolsOf(world), retries, delayBetweenRetries: 0 }), model, clock, state: { mine: 1 } });
  return { world, model, lab };
}

/** An attempt, with time going on wherever it waits. */
async function attempt(lab: Lab, crash?: CrashPoint): Promise<End> {
  let over = false;
  const ended = lab.attempt(crash).finally(() => (over = true));
  for (await settle(); !over; await settle()) await lab.clock.pass(lab.clock.nextMs ?? 0);
  return ended;
}

/** A history without what differs between two runs of one story: ids and times. */
const essence = (messages: readonly Message[]) =>
  messages.map((message) => {
    if (message.role === "assistant") return { role: "assistant", content: message.content, calls: message.toolCalls.map(({ id, name, arguments: given }) => ({ id, name, given })) };
    return message.role === "tool" ? { role: "tool", id: message.toolCallId, content: message.content, isError: message.isError } : { role: message.role, content: message.content };
  });

function expectWhole({ lab, model }: ReturnType<typeof begin>, end: End) {
  expectSoundLog(lab);
  expect(pairingProblems(lab.history)).toEqual([]);
  expect(model.requests.flatMap(requestProblems)).toEqual([]);
  expect(shownText(lab.told)).toBe("content" in end ? end.content : "");
  // What is missing in storage was told to be missing, and whatever is there is what was told.
  const discarded = lab.eventsOf("run.retried").flatMap((event) => (event.discarded === undefined ? [] : [event.discarded]));
  const stored = new Map(lab.events.map((event) => [event.index, event]));
  for (const event of lab.told) {
    if (stored.has(event.index)) expect(stored.get(event.index)).toEqual(event);
    else expect(discarded.some(({ from, to }) => event.index >= from && event.index <= to)).toBe(true);
  }
}

const points = (commits: number): CrashPoint[] => Array.from({ length: commits - 1 }, (_, index) => index + 2).flatMap((commit) => [{ commit, when: "before" as const }, { commit, when: "after" as const }]);

describe("a turn that is lost and taken up again", () => {
  it.each(Array.from({ length: 24 }, (_, seed) => seed))("ends as it would have ended, whatever commit the crash was at (story %i)", async (seed) => {
    const script = randomScript(seed, SAFE);
    const reference = begin(script);
    const expected = await attempt(reference.lab);
    expectWhole(reference, expected);

    for (const crash of points(reference.lab.commits.length)) {
      const story = begin(script);
      const first = await attempt(story.lab, crash);
      expect(first, `attempt that dies ${crash.when} commit ${crash.commit}`).toEqual({ status: "crashed" });
      // A crash after the last commit left nothing to take up: the run has ended.
      if (story.lab.told.some((event) => event.type === "run.completed" || event.type === "run.failed")) {
        expect(crash).toEqual({ commit: reference.lab.commits.length, when: "after" });
        continue;
      }
      const end = await attempt(story.lab);
      expect(end, `after a crash ${crash.when} commit ${crash.commit}, "${story.lab.commits[crash.commit - 1]}"`).toEqual(expected);
      expectWhole(story, end);
      expect(essence(story.lab.history)).toEqual(essence(reference.lab.history));
      expect(Object.fromEntries(story.world.made)).toEqual(Object.fromEntries(reference.world.made));
      expect([...story.world.made.values()].every((times) => times === 1)).toBe(true);
      expect(new Map([...story.world.kept].sort())).toEqual(new Map([...reference.world.kept].sort()));
      expect(story.lab.sessionState).toEqual(reference.lab.sessionState);
    }
  });

  it("ends so after several crashes, too", async () => {
    const random = seeded(99);
    for (let trial = 0; trial < 60; trial += 1) {
      const script = randomScript(1_000 + trial, SAFE);
      const reference = begin(script);
      const expected = await attempt(reference.lab);
      const story = begin(script);
      let end: End = { status: "crashed" };
      for (let crash = 0; crash < 4 && end.status === "crashed"; crash += 1) {
        const ahead = 1 + random.below(6);
        end = await attempt(story.lab, { commit: story.lab.commits.length + ahead, when: random.pick(["before", "after"]) });
        if (story.lab.told.some((event) => event.type === "run.completed" || event.type === "run.failed")) break;
      }
      if (end.status === "crashed" && !story.lab.told.some((event) => event.type === "run.completed" || event.type === "run.failed")) end = await attempt(story.lab);
      if (end.status !== "crashed") expect(end).toEqual(expected);
      expectSoundLog(story.lab);
      expect(essence(story.lab.history)).toEqual(essence(reference.lab.history));
      expect([...story.world.made.values()].every((times) => times === 1)).toBe(true);
    }
  });

  it.each(Array.from({ length: 8 }, (_, seed) => seed))("never makes a `once` call twice that nobody can ask about; at worst it says so (story %i)", async (seed) => {
    const script = randomScript(500 + seed, ["wire", "wire", "read", "charge"]);
    const reference = begin(script);
    const expected = await attempt(reference.lab);
    for (const crash of points(reference.lab.commits.length - 1)) {
      const story = begin(script);
      await attempt(story.lab, crash);
      const left = story.lab.effects.filter((effect) => effect.toolName === "wire" && effect.status === "started");
      const end = await attempt(story.lab);
      if (left.length === 0) expectWhole(story, end);
      else expectSoundPause(story.lab);
      expect([...story.world.made.values()].every((times) => times === 1)).toBe(true);
      if (left.length === 0) {
        expect(end).toEqual(expected);
      } else {
        expect(end).toEqual({ status: "paused", waiting: left.map(({ callId }) => callId) });
        for (const effect of left) {
          const row = story.lab.effects.find(({ step, position }) => step === effect.step && position === effect.position);
          expect(row).toMatchObject({ status: "unknown", requirement: { kind: "unknown_outcome" } });
        }
      }
    }
  });

  it("asks the model nothing that it has answered, and calls no tool that has", async () => {
    const script: Script = { replies: [reply(say("I'll see. "), call("charge", { n: 3 }), call("upsert", { n: 5 })), reply("Done.")], retries: 0 };
    const reference = begin(script);
    await attempt(reference.lab);
    const replies = reference.lab.commits.indexOf("reply") + 1;
    for (const crash of points(reference.lab.commits.length).filter(({ commit, when }) => commit > replies || (commit === replies && when === "after"))) {
      const story = begin(script);
      await attempt(story.lab, crash);
      const asked = story.model.requests.length;
      const end = story.lab.told.at(-1)?.type === "run.completed" ? undefined : await attempt(story.lab);
      const firstStep = story.model.requests.filter((request) => request.messages.length === 1);
      expect(firstStep).toHaveLength(1);
      if (end !== undefined && asked === 1) expect(story.model.requests).toHaveLength(2);
    }
  });
});
