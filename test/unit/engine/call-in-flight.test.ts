import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { AgentOptions } from "../../../src/define/agent.ts";
import { defineTool, type ProbeResult, type ToolContext, type ToolOptions } from "../../../src/define/tool.ts";
import { call, reply, scripted } from "../../../src/models/scripted.ts";
import { agentOf, deferred, expectSoundLog, expectSoundPause, Lab, settle } from "./harness.ts";

const TIME = 1_000;

/** A tool that hangs in its first tries and then answers. */
function slow(options: Partial<ToolOptions<z.ZodType>> & { hangs?: number } = {}) {
  const tries: { input: unknown; context: ToolContext; abortedAtStart: boolean; reason?: string; outcome: ReturnType<typeof deferred<unknown>> }[] = [];
  const { hangs = 1, ...rest } = options;
  const tool = defineTool({
    name: "tool",
    description: "",
    input: z.object({}).loose(),
    timeoutMs: TIME,
    execute: (input, context) => {
      const outcome = deferred<unknown>();
      const made: (typeof tries)[number] = { input, context, abortedAtStart: context.signal.aborted, outcome };
      context.signal.addEventListener("abort", () => (made.reason = (context.signal.reason as Error).name));
      tries.push(made);
      if (tries.length > hangs) outcome.resolve("ok");
      return outcome.promise;
    },
    ...rest,
  });
  return { tool, tries };
}

function labOf(tool: NonNullable<AgentOptions["tools"]>[number], options: Partial<AgentOptions> = {}, args: Record<string, unknown> = {}) {
  const model = scripted([reply(call("tool", args, { id: "c1" })), reply("Done.")]);
  return { model, lab: new Lab({ agent: agentOf({ tools: [tool as never], ...options }), model }) };
}

/** The turn's end, with time going on until there is one. */
async function endOf(lab: Lab, crash?: Parameters<Lab["attempt"]>[0]) {
  let over = false;
  const ended = lab.attempt(crash).finally(() => (over = true));
  for (await settle(); !over; await settle()) await lab.clock.pass(lab.clock.nextMs ?? 0);
  return ended;
}

/** The run waits for someone to say what became of the call. */
const UNKNOWN = { status: "paused", waiting: ["c1"] };

describe("a call whose time is up", () => {
  it.each(["none", "idempotent"] as const)("that is %s is made again with the same key and arguments, and a fresh signal", async (effect) => {
    const { tool, tries } = slow({ effect, retries: 2, hangs: 2 });
    const { lab } = labOf(tool, {}, { a: 1 });
    expect(await endOf(lab)).toMatchObject({ status: "completed", content: "Done." });
    expect(tries.map(({ input, context }) => [input, context.idempotencyKey])).toEqual(Array.from({ length: 3 }, () => [{ a: 1 }, "run-1:0:0"]));
    expect(tries.map(({ abortedAtStart }) => abortedAtStart)).toEqual([false, false, false]);
    // The last one's is aborted with the turn, which is over.
    expect(tries.map(({ reason }) => reason)).toEqual(["TimeoutError", "TimeoutError", "AbortError"]);
    expect(lab.effect("c1")).toMatchObject({ status: "done", result: "ok" });
    expect(lab.eventsOf("tool-call.started")).toHaveLength(1);
    expect(lab.eventsOf("tool-call.completed")[0]?.durationMs).toBe(2 * TIME);
  });

  it("each try has the whole time", async () => {
    const { tool, tries } = slow({ effect: "none", retries: 1, hangs: 2 });
    const { lab } = labOf(tool);
    const ended = lab.attempt();
    await lab.clock.pass(TIME - 1);
    expect(tries).toHaveLength(1);
    await lab.clock.pass(1);
    expect(tries).toHaveLength(2);
    await lab.clock.pass(TIME - 1);
    expect(lab.effect("c1").status).toBe("started");
    await lab.clock.pass(1);
    expect(await ended).toMatchObject({ status: "completed" });
    expect(lab.effect("c1")).toMatchObject({ status: "failed", result: `The tool failed: it took longer than ${TIME} ms.` });
  });

  it("a try that changes its input does not change the next one's", async () => {
    const inputs: string[] = [];
    const tool = defineTool({
      name: "tool",
      description: "",
      input: z.object({ list: z.array(z.string()) }),
      effect: "none",
      timeoutMs: TIME,
      retries: 1,
      execute: ({ list }) => {
        inputs.push(list.join());
        list.push("changed");
        return new Promise(() => {});
      },
    });
    await endOf(labOf(tool, {}, { list: ["a"] }).lab);
    expect(inputs).toEqual(["a", "a"]);
  });

  it("when its retries are used up the model is told the error, and the run goes on", async () => {
    const { tool, tries } = slow({ effect: "idempotent", hangs: 9 });
    const { lab, model } = labOf(tool);
    expect(await endOf(lab)).toMatchObject({ status: "completed" });
    expect(tries).toHaveLength(1);
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ isError: true, content: `The tool failed: it took longer than ${TIME} ms.` });
  });

  it("that is `once` has an unknown outcome: the run waits for someone to say, and the model is not asked again", async () => {
    const { tool, tries } = slow({ retries: 5 });
    const { lab, model } = labOf(tool);
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(tries).toHaveLength(1);
    expect(model.requests).toHaveLength(1);
    expect(lab.effect("c1")).toMatchObject({
      status: "unknown",
      result: expect.stringContaining("may have happened"),
      requirement: { id: expect.any(String), kind: "unknown_outcome", shownHash: lab.effect("c1").argumentsHash },
    });
    expect(lab.open).toEqual({ c1: "unknown_outcome" });
    expectSoundPause(lab);
  });

  it("that is `once` and ends after all tells its ledger row, once, and changes nothing else", async () => {
    const { tool, tries } = slow();
    const { lab } = labOf(tool);
    await endOf(lab);
    const told = lab.told.length;
    tries[0]?.outcome.resolve({ charged: true });
    await settle();
    expect(lab.late).toEqual([{ key: "run-1:0:0", status: "done", result: '{"charged":true}' }]);
    expect(lab.effect("c1")).toMatchObject({ status: "unknown", lateOutcome: { status: "done", result: '{"charged":true}' } });
    expect(lab.told).toHaveLength(told);
  });

  it("an answer in time is an answer, however close", async () => {
    const { tool, tries } = slow();
    const { lab } = labOf(tool);
    const ended = lab.attempt();
    await lab.clock.pass(TIME - 1);
    tries[0]?.outcome.resolve("just in time");
    expect(await ended).toMatchObject({ status: "completed" });
    expect(lab.effect("c1")).toMatchObject({ status: "done", result: "just in time" });
    expect(lab.clock.sleepers).toBe(0);
  });

  it("a hook that makes something else of it does not make the unknown known", async () => {
    const { tool } = slow();
    const { lab } = labOf(tool, { toolHooks: [({ arguments: args }, next) => next(args).catch(() => "It did not work, sorry.")] });
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(lab.effect("c1").status).toBe("unknown");
    expect(lab.open).toEqual({ c1: "unknown_outcome" });
  });

  describe("is asked about by its probe", () => {
    const probed = (probe: (key: string, context: ToolContext) => Promise<ProbeResult>, more: Partial<ToolOptions<z.ZodType>> & { hangs?: number } = {}) => slow({ probe, ...more });

    it("it happened: the probe's result is the result", async () => {
      const keys: string[] = [];
      const { tool, tries } = probed(async (key) => (keys.push(key), { happened: true, result: { id: 7 } }));
      const { lab } = labOf(tool);
      expect(await endOf(lab)).toMatchObject({ status: "completed" });
      expect(keys).toEqual(["run-1:0:0"]);
      expect(tries).toHaveLength(1);
      expect(lab.effect("c1")).toMatchObject({ status: "done", result: '{"id":7}' });
    });

    it("it did not happen: it is made again within its retries", async () => {
      const { tool, tries } = probed(async () => ({ happened: false }), { retries: 1 });
      const { lab } = labOf(tool);
      expect(await endOf(lab)).toMatchObject({ status: "completed" });
      expect(tries.map(({ context }) => context.idempotencyKey)).toEqual(["run-1:0:0", "run-1:0:0"]);
      expect(lab.effect("c1")).toMatchObject({ status: "done", result: "ok" });
    });

    it("it did not happen and there are no retries: an error, not an unknown", async () => {
      const { tool } = probed(async () => ({ happened: false }));
      const { lab } = labOf(tool);
      expect(await endOf(lab)).toMatchObject({ status: "completed" });
      expect(lab.effect("c1").status).toBe("failed");
    });

    it.each([
      ["can not say", async () => ({ happened: "unknown" as const })],
      [
        "throws",
        async () => {
          throw new Error("down");
        },
      ],
      [
        "throws before it is a promise",
        () => {
          throw new Error("down");
        },
      ],
      ["answers with nothing", async () => undefined as never],
      ["answers with something else", async () => ({ happened: "yes" }) as never],
      ["hangs", () => new Promise<never>(() => {})],
    ])("that %s: the outcome is unknown", async (_what, probe) => {
      const { tool, tries } = probed(probe);
      const { lab } = labOf(tool);
      expect(await endOf(lab)).toMatchObject(UNKNOWN);
      expect(tries).toHaveLength(1);
    });

    it("with a signal of its own, that is not aborted like the call's", async () => {
      let aborted: boolean | undefined;
      const { tool } = probed(async (_key, { signal }) => ((aborted = signal.aborted), { happened: true, result: 1 }));
      await endOf(labOf(tool).lab);
      expect(aborted).toBe(false);
    });
  });
});

describe("a call that was under way when its attempt was lost", () => {
  /** Commits so far: start, model.started, reply; the call's start is the fourth, its end the fifth. */
  const BEGUN = { commit: 4, when: "after" } as const;
  const MADE = { commit: 5, when: "before" } as const;

  it.each([
    ["none", BEGUN, 1],
    ["none", MADE, 2],
    ["idempotent", BEGUN, 1],
    ["idempotent", MADE, 2],
  ] as const)("that is %s is made again under its key, after a crash at %j", async (effect, crash, made) => {
    const { tool, tries } = slow({ effect, hangs: 0 });
    const { lab } = labOf(tool, {}, { a: 1 });
    expect(await lab.attempt(crash)).toEqual({ status: "crashed" });
    expect(await endOf(lab)).toMatchObject({ status: "completed", content: "Done." });
    expect(tries.map(({ input, context }) => [input, context.idempotencyKey])).toEqual(Array.from({ length: made }, () => [{ a: 1 }, "run-1:0:0"]));
    expect(lab.effect("c1")).toMatchObject({ status: "done", result: "ok" });
    expect(lab.eventsOf("tool-call.started")).toHaveLength(1);
    expectSoundLog(lab);
  });

  it.each([BEGUN, MADE])("that is `once` is not made again: the run waits for someone to say, after a crash at %j", async (crash) => {
    const { tool, tries } = slow({ hangs: 0 });
    const { lab, model } = labOf(tool);
    await lab.attempt(crash);
    const before = tries.length;
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(tries).toHaveLength(before);
    expect(model.requests).toHaveLength(1);
    expect(lab.effect("c1").status).toBe("unknown");
    expect(lab.open).toEqual({ c1: "unknown_outcome" });
    expectSoundPause(lab);
  });

  it("stays unknown when that, too, is lost: a later attempt must not go on as if it were an answer", async () => {
    const { tool, tries } = slow({ hangs: 0 });
    const { lab, model } = labOf(tool);
    await lab.attempt(MADE);
    // The second attempt dies between the row that says unknown and the pause.
    expect(await lab.attempt({ commit: lab.commits.length + 2, when: "after" })).toEqual({ status: "crashed" });
    expect(lab.effect("c1").status).toBe("unknown");
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(tries).toHaveLength(1);
    expect(model.requests).toHaveLength(1);
    expect(lab.open).toEqual({ c1: "unknown_outcome" });
  });

  it.each([
    ["happened", async () => ({ happened: true as const, result: "found" }), { status: "completed" }, 1, { status: "done", result: "found" }],
    ["did not happen", async () => ({ happened: false as const }), { status: "completed" }, 2, { status: "done", result: "ok" }],
    ["may have happened", async () => ({ happened: "unknown" as const }), UNKNOWN, 1, { status: "unknown" }],
    ["can not be asked about", () => Promise.reject(new Error("down")), UNKNOWN, 1, { status: "unknown" }],
    ["can be asked about without an answer", () => new Promise<never>(() => {}), UNKNOWN, 1, { status: "unknown" }],
  ] as const)("that is `once` and %s, says its probe", async (_what, probe, end, made, row) => {
    const { tool, tries } = slow({ probe, hangs: 0 });
    const { lab } = labOf(tool);
    await lab.attempt(MADE);
    expect(await endOf(lab)).toMatchObject(end);
    expect(tries).toHaveLength(made);
    expect(lab.effect("c1")).toMatchObject(row);
  });

  it("runs again with the arguments that ran first, whatever hooks make of them now", async () => {
    const { tool, tries } = slow({ effect: "idempotent", hangs: 0 });
    let round = 0;
    const { lab } = labOf(tool, { toolHooks: [({ arguments: args }, next) => next({ ...args, amount: (args.amount as number) * 2, round: (round += 1) })] }, { amount: 5 });
    await lab.attempt(MADE);
    await endOf(lab);
    expect(tries.map(({ input }) => input)).toEqual([
      { amount: 10, round: 1 },
      { amount: 10, round: 1 },
    ]);
    expect(lab.effect("c1").arguments).toEqual({ amount: 10, round: 1 });
  });

  it("is not refused for a limit that is lower since: it counted when it began", async () => {
    const { tool, tries } = slow({ effect: "idempotent", hangs: 0 });
    const { lab } = labOf(tool);
    await lab.attempt(MADE);
    Object.assign(lab, { agent: agentOf({ tools: [tool as never], toolCallLimit: 0 }) });
    expect(await endOf(lab)).toMatchObject({ status: "completed" });
    expect(tries).toHaveLength(2);
    expect(lab.effect("c1")).toMatchObject({ status: "done", result: "ok" });
  });

  it("is not refused for arguments that do not fit any more: it may have happened", async () => {
    let fits = true;
    const { tool } = slow({ effect: "idempotent", hangs: 0, input: z.object({}).loose().refine(() => fits) });
    const { lab } = labOf(tool);
    await lab.attempt(MADE);
    fits = false;
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(lab.effect("c1").result).not.toContain("not executed");
  });

  it.each([BEGUN, MADE])("is unknown when its tool is gone since", async (crash) => {
    const { tool } = slow({ effect: "none", hangs: 0 });
    const { lab } = labOf(tool);
    await lab.attempt(crash);
    Object.assign(lab, { agent: agentOf({ tools: [] }) });
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(lab.effect("c1").result).not.toContain("There is no tool");
  });

  it("that was only planned is made, once", async () => {
    const { tool, tries } = slow({ hangs: 0 });
    const { lab } = labOf(tool);
    await lab.attempt({ commit: 3, when: "after" });
    expect(tries).toHaveLength(0);
    expect(await endOf(lab)).toMatchObject({ status: "completed" });
    expect(tries).toHaveLength(1);
  });

  it("that is done is never made again", async () => {
    const { tool, tries } = slow({ hangs: 0 });
    const { lab, model } = labOf(tool);
    await lab.attempt({ commit: 5, when: "after" });
    expect(lab.effect("c1").status).toBe("done");
    expect(await endOf(lab)).toMatchObject({ status: "completed", content: "Done." });
    expect(tries).toHaveLength(1);
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ role: "tool", content: "ok" });
  });
});

describe("a call that may have happened", () => {
  /** A run that waits because the answer of a `once` call was lost. */
  async function lost(options: Partial<AgentOptions> = {}, more: Partial<ToolOptions<z.ZodType>> = {}) {
    const { tool, tries } = slow({ hangs: 0, ...more });
    const made = labOf(tool, options, { a: 1 });
    await made.lab.attempt({ commit: 5, when: "before" });
    return { ...made, tries };
  }

  it("S361 happened, says a person: the result is the one that they give, and the call is not made again", async () => {
    const { lab, model, tries } = await lost();
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    lab.answer("c1", { kind: "unknown_outcome", decision: "happened", result: "receipt 7" });
    expect(await endOf(lab)).toMatchObject({ status: "completed", content: "Done." });
    expect(tries).toHaveLength(1);
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ role: "tool", content: "receipt 7", isError: false });
    expect(lab.effect("c1")).toMatchObject({ status: "done", result: "receipt 7", requirement: { resolution: { decision: "happened" } } });
    expectSoundLog(lab);
  });

  it("did not happen, says a person: it is made once more, with its arguments and its key", async () => {
    const { lab, tries } = await lost();
    await endOf(lab);
    lab.answer("c1", { kind: "unknown_outcome", decision: "run" });
    expect(await endOf(lab)).toMatchObject({ status: "completed", content: "Done." });
    expect(tries.map(({ input, context }) => [input, context.idempotencyKey])).toEqual(Array.from({ length: 2 }, () => [{ a: 1 }, "run-1:0:0"]));
    expect(lab.effect("c1")).toMatchObject({ status: "done", result: "ok" });
    expectSoundLog(lab);
  });

  it("is left, says a person: nothing is made, and the model is told that nobody knows", async () => {
    const { lab, model, tries } = await lost();
    await endOf(lab);
    lab.answer("c1", { kind: "unknown_outcome", decision: "skip" });
    expect(await endOf(lab)).toMatchObject({ status: "completed" });
    expect(tries).toHaveLength(1);
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ content: "The outcome of this call is not known, and it was not made again." });
    expect(lab.effect("c1").status).toBe("skipped");
    expectSoundLog(lab);
  });

  it("is made again with the arguments that ran, whatever hooks make of them now", async () => {
    let round = 0;
    const { lab, tries } = await lost({ toolHooks: [({ arguments: args }, next) => next({ ...args, round: (round += 1) })] });
    await endOf(lab);
    lab.answer("c1", { kind: "unknown_outcome", decision: "run" });
    expect(await endOf(lab)).toMatchObject({ status: "completed" });
    expect(tries.map(({ input }) => input)).toEqual([
      { a: 1, round: 1 },
      { a: 1, round: 1 },
    ]);
    expect(lab.effect("c1").arguments).toEqual({ a: 1, round: 1 });
  });

  it("and is lost once more is asked about once more", async () => {
    const { lab, tries } = await lost();
    await endOf(lab);
    const first = lab.effect("c1").requirement?.id;
    lab.answer("c1", { kind: "unknown_outcome", decision: "run" });
    // Continue, start of the call, and the crash before its result is stored.
    expect(await lab.attempt({ commit: lab.commits.length + 3, when: "before" })).toEqual({ status: "crashed" });
    expect(tries).toHaveLength(2);
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(tries).toHaveLength(2);
    expect(lab.effect("c1").requirement?.id).not.toBe(first);
  });

  it("and whose go-ahead is lost before the call began is made, once", async () => {
    const { lab, tries } = await lost();
    await endOf(lab);
    lab.answer("c1", { kind: "unknown_outcome", decision: "run" });
    expect(await lab.attempt({ commit: lab.commits.length + 2, when: "before" })).toEqual({ status: "crashed" });
    expect(tries).toHaveLength(1);
    expect(await endOf(lab)).toMatchObject({ status: "completed" });
    expect(tries).toHaveLength(2);
  });

  it("is made again where the agent says so beforehand, on the record, and once", async () => {
    const { lab, tries } = await lost({ onUnknown: "run" });
    expect(await lab.attempt({ commit: lab.commits.length + 4, when: "before" })).toEqual({ status: "crashed" });
    expect(tries).toHaveLength(2);
    expect(lab.effect("c1")).toMatchObject({ status: "started", requirement: { kind: "unknown_outcome", resolution: { decision: "run" } } });
    // Lost a second time, it is a person's to decide.
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(tries).toHaveLength(2);
  });

  it("is left where the agent says so beforehand, and the run goes on", async () => {
    const { lab, model, tries } = await lost({ onUnknown: "skip" });
    expect(await endOf(lab)).toMatchObject({ status: "completed", content: "Done." });
    expect(tries).toHaveLength(1);
    expect(lab.effect("c1")).toMatchObject({ status: "skipped", requirement: { kind: "unknown_outcome", resolution: { decision: "skip" } } });
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ content: "The outcome of this call is not known, and it was not made again." });
    expectSoundLog(lab);
  });

  it("ends the run where the agent says so beforehand, and says why", async () => {
    const { lab, model, tries } = await lost({ onUnknown: "fail" });
    expect(await endOf(lab)).toMatchObject({ status: "failed", error: { type: "tool_outcome_unknown", retryable: false } });
    expect(tries).toHaveLength(1);
    expect(lab.effect("c1").status).toBe("unknown");
    expect(lab.effect("c1").requirement).toBeUndefined();
    expect(model.requests).toHaveLength(1);
    expectSoundLog(lab);
  });

  it("holds back none of its siblings, and everything after them", async () => {
    const { tool } = slow({ hangs: 0 });
    let read = 0;
    const reader = defineTool({ name: "read", description: "", effect: "none", execute: () => (read += 1) });
    const model = scripted([reply(call("tool", {}, { id: "c1" }), call("read", {}, { id: "r1" })), reply("Done.")]);
    const lab = new Lab({ agent: agentOf({ tools: [tool as never, reader as never] }), model });
    await lab.attempt({ commit: 5, when: "before" });
    expect(await endOf(lab)).toMatchObject(UNKNOWN);
    expect(read).toBeGreaterThan(0);
    expect(lab.effect("r1").status).toBe("done");
    expect(model.requests).toHaveLength(1);
  });
});

describe("a cancel while a call is under way", () => {
  it.each(["hears", "is deaf to"] as const)("ends the turn at once, where the tool %s its signal", async (how) => {
    let rejected = false;
    const { tool, tries } = slow();
    const { lab, model } = labOf(tool);
    const ended = lab.attempt();
    await lab.clock.pass(10);
    const signal = tries[0]!.context.signal;
    if (how === "hears") {
      signal.addEventListener("abort", () => {
        rejected = true;
        tries[0]!.outcome.reject(new Error("stopped"));
      });
    }
    lab.cancel();
    expect(await ended).toMatchObject({ status: "cancelled" });
    expect(signal.aborted).toBe(true);
    expect(rejected).toBe(how === "hears");
    expect(model.requests).toHaveLength(1);
    expect(lab.effect("c1")).toMatchObject({ status: "unknown", result: "cancelled while running; it may have happened" });
    expect(lab.late).toHaveLength(how === "hears" ? 1 : 0);
    expectSoundLog(lab);
  });

  it("C025 the late outcome of a deaf tool reaches its ledger row once, and changes nothing else", async () => {
    const { tool, tries } = slow();
    const { lab } = labOf(tool);
    const ended = lab.attempt();
    await lab.clock.pass(10);
    lab.cancel();
    await ended;
    const told = lab.told.length;
    tries[0]!.outcome.resolve("charged");
    await lab.clock.pass(10 * TIME);
    expect(lab.late).toEqual([{ key: "run-1:0:0", status: "done", result: "charged" }]);
    expect(lab.effect("c1")).toMatchObject({ status: "unknown", result: "cancelled while running; it may have happened", lateOutcome: { status: "done", result: "charged" } });
    expect(lab.told).toHaveLength(told);
    // The tool's time went by unnoticed: nobody asks about it any more, and nobody makes it again.
    expect(tries).toHaveLength(1);
  });

  it("does not wait for a probe that hangs", async () => {
    const { tool } = slow({ hangs: 0, probe: () => new Promise<never>(() => {}) });
    const { lab } = labOf(tool);
    await lab.attempt({ commit: 5, when: "before" });
    const ended = lab.attempt();
    await lab.clock.pass(10);
    lab.cancel();
    expect(await ended).toMatchObject({ status: "cancelled" });
  });

  it("in the moment of its answer: the answer is late, and is not lost", async () => {
    const { tool, tries } = slow();
    const { lab } = labOf(tool);
    const ended = lab.attempt();
    await lab.clock.pass(10);
    tries[0]!.outcome.resolve("charged");
    lab.cancel();
    await ended;
    await settle();
    expect(lab.late).toEqual([{ key: "run-1:0:0", status: "done", result: "charged" }]);
    expect(lab.effect("c1").status).toBe("unknown");
  });

  it.each(Array.from({ length: 12 }, (_, turns) => turns))("a few turns after its answer: the answer is either kept or late, and never lost (%i)", async (turns) => {
    const tool = defineTool({
      name: "tool",
      description: "",
      execute: async () => {
        void (async () => {
          for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
          lab.cancel();
        })();
        return "charged";
      },
    });
    const { lab } = labOf(tool);
    expect(await lab.attempt()).toMatchObject({ status: "cancelled" });
    await settle();
    const row = lab.effect("c1");
    if (row.status === "done") expect([row.result, lab.late]).toEqual(["charged", []]);
    else expect(row).toMatchObject({ status: "unknown", lateOutcome: { status: "done", result: "charged" } });
    expectSoundLog(lab);
  });

  it("does not start a call that was about to start", async () => {
    const { tool, tries } = slow({ hangs: 0 });
    const { lab } = labOf(tool, {
      toolHooks: [
        ({ arguments: args }, next) => {
          lab.cancel();
          return next(args);
        },
      ],
    });
    expect(await lab.attempt()).toMatchObject({ status: "cancelled" });
    await settle();
    expect(tries).toEqual([]);
    expect(lab.effect("c1")).toMatchObject({ status: "skipped", result: "Not executed: the run ended before it." });
  });
});
