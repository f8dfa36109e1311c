import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { AgentOptions, ToolHook } from "../../../src/define/agent.ts";
import { defineTool, type ToolContext, type ToolOptions } from "../../../src/define/tool.ts";
import type { ToolMessage } from "../../../src/domain/message.ts";
import { call, reply, scripted, wait } from "../../../src/models/scripted.ts";
import { agentOf, expectSoundLog, Lab, requestProblems } from "./harness.ts";

const anything = z.object({}).loose();

/** A tool named `tool`, and everything it was called with. */
function recording(options: Partial<ToolOptions<z.ZodType>> & { execute?: ToolOptions<z.ZodType>["execute"] } = {}) {
  const calls: { input: unknown; context: ToolContext }[] = [];
  const { execute = () => "ok", ...rest } = options;
  const tool = defineTool({
    name: "tool",
    description: "",
    input: anything,
    ...rest,
    execute: (input, context) => {
      calls.push({ input, context });
      return execute(input, context);
    },
  });
  return { tool, calls };
}

/** One turn in which the model makes one call and then says "Done.". */
async function runCall(tool: AgentOptions["tools"], args: Record<string, unknown> | string = {}, options: Partial<AgentOptions> = {}, lab: Partial<ConstructorParameters<typeof Lab>[0]> = {}) {
  const model = scripted([reply(call("tool", args, { id: "c1" })), reply("Done.")]);
  const made = new Lab({ agent: agentOf({ tools: tool as never, ...options }), model, ...lab });
  const end = await made.run();
  const result = model.requests[1]?.messages.at(-1) as ToolMessage | undefined;
  return { lab: made, end, model, result };
}

describe("arguments", () => {
  it("are parsed by the schema; what is stored is what the model wrote", async () => {
    const { tool, calls } = recording({ input: z.object({ at: z.string().transform(async (text) => new Date(text)), size: z.number().default(3) }) });
    const { lab, model } = await runCall([tool], { at: "2026-01-02T00:00:00Z" });
    expect(calls[0]?.input).toEqual({ at: new Date("2026-01-02T00:00:00Z"), size: 3 });
    expect(lab.effect("c1")).toMatchObject({ status: "done", arguments: { at: "2026-01-02T00:00:00Z" }, argumentsHash: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(model.requests[1]?.messages[1]).toMatchObject({ toolCalls: [{ arguments: { at: "2026-01-02T00:00:00Z" } }] });
  });

  it("have the same hash whatever order the model wrote them in", async () => {
    const hashOf = async (args: string) => (await runCall([recording().tool], args)).lab.effect("c1").argumentsHash;
    expect(await hashOf('{"b":{"y":1,"x":2},"a":1}')).toBe(await hashOf('{"a":1,"b":{"x":2,"y":1}}'));
    expect(await hashOf('{"a":1}')).not.toBe(await hashOf('{"a":2}'));
  });

  it("that do not fit are answered with what is wrong, and the tool does not run", async () => {
    const { tool, calls } = recording({ input: z.strictObject({ amount: z.number(), to: z.object({ id: z.string() }) }) });
    const { lab, result, end } = await runCall([tool], { amount: "5", to: {}, more: 1 });
    expect(calls).toEqual([]);
    expect(result).toMatchObject({ isError: true, content: expect.stringContaining('do not fit the tool "tool", so it was not executed') });
    for (const part of ["amount: ", "to.id: ", "more"]) expect(result?.content).toContain(part);
    expect(lab.effect("c1")).toMatchObject({ status: "failed" });
    expect(lab.effect("c1")).not.toHaveProperty("startedAt");
    expect(lab.eventsOf("tool-call.started")).toEqual([]);
    expect(end).toMatchObject({ status: "completed" });
  });

  it("C008 C055 that can not be read are answered with the reason, and the tool does not run", async () => {
    const { tool, calls } = recording();
    const { lab, model, result } = await runCall([tool], '{"amount": 5, "memo": "ab');
    expect(calls).toEqual([]);
    expect(result).toMatchObject({ isError: true, content: expect.stringContaining("not valid JSON") });
    expect(lab.effect("c1").arguments).toEqual({});
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
  });

  it("a schema that throws is a result, not the end of the run", async () => {
    const { tool, calls } = recording({
      input: anything.refine(() => {
        throw new Error("the directory is down");
      }),
    });
    const { end, result } = await runCall([tool]);
    expect(calls).toEqual([]);
    expect(end).toMatchObject({ status: "completed", content: "Done." });
    expect(result).toMatchObject({ isError: true, content: "The tool failed: the directory is down" });
  });

  it("a schema is asked once for a call", async () => {
    let asked = 0;
    const { tool } = recording({ input: anything.refine(async () => (asked += 1) > 0) });
    await runCall([tool]);
    expect(asked).toBe(1);
  });

  it("a tool that changes what it was given changes neither the ledger nor the history", async () => {
    const { tool } = recording({
      input: z.object({ list: z.array(z.unknown()), any: z.unknown() }),
      execute: (input) => {
        const { list, any } = input as { list: unknown[]; any: Record<string, unknown> };
        list.push("changed");
        any.changed = true;
        return "ok";
      },
    });
    const { lab, model } = await runCall([tool], { list: [1], any: {} });
    expect(lab.effect("c1").arguments).toEqual({ list: [1], any: {} });
    expect(model.requests[1]?.messages[1]).toMatchObject({ toolCalls: [{ arguments: { list: [1], any: {} } }] });
  });

  it("named __proto__ pollute nothing on their way through", async () => {
    const { tool, calls } = recording({ input: z.looseObject({ nested: z.unknown() }) });
    const { lab } = await runCall([tool], '{"__proto__":{"polluted":1},"nested":{"__proto__":{"polluted":2}}}');
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
    expect((calls[0]!.input as { polluted?: number }).polluted).toBeUndefined();
    expect(Object.keys(lab.effect("c1").arguments)).toEqual(["__proto__", "nested"]);
  });
});

describe("results", () => {
  const resultOf = async (execute: () => unknown) => (await runCall([recording({ execute }).tool])).result;
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;

  it.each([
    ["text as it is", "plain", "plain"],
    ["an empty text", "", ""],
    ["an object as JSON", { a: [1, null] }, '{"a":[1,null]}'],
    ["null", null, "null"],
    ["a number", 5, "5"],
    ["nothing", undefined, "Done."],
    ["a date", new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ["a symbol", Symbol("x"), "Symbol(x)"],
    ["a lone half", "a\ud83d", "a\ufffd"],
    ["a NUL", "a\u0000b", "a\u0000b"],
  ])("%s", async (_what, returned, told) => {
    expect(await resultOf(() => returned)).toMatchObject({ content: told, isError: false });
  });

  it.each([
    ["a BigInt", 1n],
    ["a cycle", cycle],
    [
      "a value whose toJSON throws",
      {
        toJSON: () => {
          throw new Error("no");
        },
      },
    ],
  ])("%s is said not to be JSON, and the call is done all the same", async (_what, returned) => {
    const { lab, result } = await runCall([recording({ execute: () => returned }).tool]);
    expect(result?.content).toContain("something that is not JSON");
    expect(lab.effect("c1").status).toBe("done");
  });

  it("longer than a row can hold are cut, between characters, and say so", async () => {
    const { lab, result } = await runCall([recording({ execute: () => `x${"😀".repeat(1_500_000)}` }).tool]);
    expect(result!.content.length).toBeLessThan(260_000);
    expect(result!.content).toMatch(/😀\n\[Cut here: this is the beginning of 3000001 characters\.\]$/);
    expect(result!.content.isWellFormed()).toBe(true);
    expect(Math.max(...[...lab.effectRows.values()].map((row) => row.length))).toBeLessThan(1_000_000);
    // The worst that escaping makes of it still fits into a row.
    const worst = await runCall([recording({ execute: () => "\u0001".repeat(1_000_000) }).tool]);
    expect(Math.max(...worst.lab.events.map((event) => JSON.stringify(event).length))).toBeLessThan(1_900_000);
  });

  it("of 200 kB are not cut", async () => {
    expect((await resultOf(() => "y".repeat(200_000)))?.content).toHaveLength(200_000);
  });

  it.each([
    ["an error", new Error("no such customer"), "The tool failed: no such customer"],
    ["an error without words", new TypeError(), "The tool failed: TypeError"],
    ["a text", "just so", "The tool failed: just so"],
    ["nothing", undefined, "The tool failed: undefined"],
    ["an error whose message is no text", Object.assign(new Error(), { message: { code: 5 } }), "The tool failed: [object Object]"],
    ["an error with a lone half", new Error("\ud83d"), "The tool failed: \ufffd"],
    ["something without text", Object.create(null), "The tool failed: It threw something that has no text."],
  ])("a throw of %s is a result that says so", async (_what, thrown, told) => {
    for (const execute of [
      () => {
        throw thrown;
      },
      () => Promise.reject(thrown),
    ]) {
      const { lab, result, end } = await runCall([recording({ execute }).tool]);
      expect(end).toMatchObject({ status: "completed", content: "Done." });
      expect(result).toMatchObject({ content: told, isError: true });
      expect(lab.effect("c1")).toMatchObject({ status: "failed", result: told });
      expect(lab.eventsOf("tool-call.failed")[0]).toMatchObject({ error: told });
    }
  });

  it("a long error is cut short", async () => {
    const { lab } = await runCall([
      recording({
        execute: () => {
          throw new Error("e".repeat(5_000_000));
        },
      }).tool,
    ]);
    expect(lab.effect("c1").result!.length).toBeLessThan(17_000);
  });
});

describe("calls that can not be made", () => {
  it("C067 a tool that is not there is answered with those that are", async () => {
    const { end, result, model } = await runCall([defineTool({ name: "ping", description: "", execute: () => 1 }), defineTool({ name: "pong", description: "", execute: () => 1 })]);
    expect(result).toMatchObject({ isError: true, content: 'There is no tool named "tool". The tools are: ping, pong.' });
    expect(end).toMatchObject({ status: "completed", content: "Done." });
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
    expect((await runCall([])).result?.content).toBe('There is no tool named "tool". There are no tools.');
  });

  it("calls beyond the limit are answered and not made; the caller's limit beats the agent's", async () => {
    const model = scripted([reply(call("tool", { n: 1 }), call("tool", { n: 2 }), call("tool", { n: 3 })), reply(call("tool", { n: 4 })), reply("Done.")]);
    const { tool, calls } = recording();
    const lab = new Lab({ agent: agentOf({ tools: [tool], toolCallLimit: 1 }), model, input: { toolCallLimit: 2 } });
    expect(await lab.run()).toMatchObject({ status: "completed", content: "Done." });
    expect(calls.map(({ input }) => input)).toEqual([{ n: 1 }, { n: 2 }]);
    expect(lab.effects.map((effect) => effect.status)).toEqual(["done", "done", "failed", "failed"]);
    expect(lab.effects[2]?.result).toBe("The limit of 2 tool calls in a run is reached; this call was not executed.");
  });

  it("a limit of 0 makes none", async () => {
    const { tool, calls } = recording();
    await runCall([tool], {}, { toolCallLimit: 0 });
    expect(calls).toEqual([]);
  });
});

describe("what a tool is given", () => {
  it("is the run, its values, and the key of the call", async () => {
    const { tool, calls } = recording();
    await runCall([tool], {}, { metadata: { team: "a" }, dependencies: { plan: () => "pro" } }, { userId: "alice", env: { SETTING: 1 }, state: { count: 1 } });
    expect(calls[0]?.context).toMatchObject({
      idempotencyKey: "run-1:0:0",
      runId: "run-1",
      session: { id: "session-1", state: { count: 1 } },
      user: { id: "alice" },
      metadata: { team: "a" },
      dependencies: { plan: "pro" },
      env: { SETTING: 1 },
    });
    const anonymous = recording();
    await runCall([anonymous.tool]);
    expect(anonymous.calls[0]?.context).not.toHaveProperty("user");
  });

  it("custom events and progress stand in the log between the call's start and its end, as they were when they were given", async () => {
    const { tool } = recording({
      execute: async (_input, context) => {
        const data: Record<string, unknown> = { done: 1 };
        context.progress(data);
        data.done = 2;
        context.emit("moved", data);
        context.emit("bare");
        data.done = 3;
        await Promise.resolve();
        return "ok";
      },
    });
    const { lab } = await runCall([tool]);
    const types = lab.told.map((event) => event.type);
    const [first, last] = [types.indexOf("tool-call.started"), types.indexOf("tool-call.completed")];
    expect(lab.told.slice(first + 1, last).map(({ index: _index, at: _at, ...body }) => body)).toEqual([
      { type: "tool-call.progress", callId: "c1", data: { done: 1 } },
      { type: "custom", callId: "c1", name: "moved", data: { done: 2 } },
      { type: "custom", callId: "c1", name: "bare", data: {} },
    ]);
    expectSoundLog(lab);
  });

  it("an event that can not be logged is said so in its place, and costs neither call nor run", async () => {
    const { tool } = recording({
      execute: (_input, context) => {
        const cycle: Record<string, unknown> = {};
        cycle.self = cycle;
        context.progress(1n);
        context.emit("cycle", cycle);
        context.progress("x".repeat(3_000_000));
        context.progress(undefined);
        context.progress("\ud83d");
        return "ok";
      },
    });
    const { lab, end } = await runCall([tool]);
    expect(end).toMatchObject({ status: "completed" });
    expect(lab.effect("c1").status).toBe("done");
    expect(lab.eventsOf("tool-call.progress").map((event) => event.data)).toEqual([
      { error: expect.stringContaining("not JSON") as string },
      { error: expect.stringContaining("3000002 characters") as string },
      null,
      "\ufffd",
    ]);
    expect(lab.eventsOf("custom")[0]?.data).toEqual({ error: expect.stringContaining("not JSON") as string });
  });

  it("events after the end are refused and hurt nobody", async () => {
    const { tool, calls } = recording();
    const { lab } = await runCall([tool]);
    const told = lab.told.length;
    calls[0]?.context.emit("late");
    calls[0]?.context.progress(1);
    await lab.clock.pass(0);
    expect(lab.told).toHaveLength(told);
  });
});

describe("session state", () => {
  it("is changed in place or assigned, and stored with the result", async () => {
    const changing = recording({
      execute: (_input, { session }) => {
        session.state.count = (session.state.count as number) + 1;
        delete session.state.old;
      },
    });
    expect((await runCall([changing.tool], {}, {}, { state: { count: 1, old: true, kept: 1 } })).lab.sessionState).toEqual({ count: 2, kept: 1 });
    const assigning = recording({ execute: (_input, { session }) => void (session.state = { fresh: true }) });
    expect((await runCall([assigning.tool], {}, {}, { state: { count: 1 } })).lab.sessionState).toEqual({ fresh: true });
  });

  it("can not become something that is no object", async () => {
    const { tool } = recording({ execute: (_input, { session }) => void (session.state = null as never) });
    const { lab, result } = await runCall([tool], {}, {}, { state: { count: 1 } });
    expect(result?.content).toBe("The tool failed: The session's state must be an object.");
    expect(lab.sessionState).toEqual({ count: 1 });
  });

  it("keeps what was stored where a tool writes what JSON can not say", async () => {
    const { tool } = recording({
      execute: (_input, { session: { state } }) => {
        const cycle: Record<string, unknown> = {};
        cycle.self = cycle;
        Object.assign(state, { big: 1n, cycle, call: () => 1, ok: 2 });
        return "ok";
      },
    });
    const { lab, end } = await runCall([tool], {}, {}, { state: { big: "small", ok: 1 } });
    expect(end).toMatchObject({ status: "completed" });
    expect(lab.effect("c1").status).toBe("done");
    expect(lab.sessionState).toEqual({ big: "small", ok: 2 });
  });

  it("keys that every object inherits are keys like others", async () => {
    const { tool } = recording({
      execute: (_input, { session: { state } }) => {
        Reflect.deleteProperty(state, "toString");
        state.constructor = 1 as never;
        Object.defineProperty(state, "__proto__", { value: { polluted: 1 }, enumerable: true, configurable: true, writable: true });
      },
    });
    const { lab, end } = await runCall([tool], {}, {}, { state: JSON.parse('{"toString":1,"__proto__":{"kept":1}}') as Record<string, unknown> });
    expect(end).toMatchObject({ status: "completed" });
    expect(lab.state).toBe('{"__proto__":{"polluted":1},"constructor":1}');
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});

describe("hooks", () => {
  it("wrap the call in their order, and see it as the tool does", async () => {
    const seen: string[] = [];
    const hook =
      (name: string): ToolHook =>
      async ({ tool, arguments: args, context }, next) => {
        seen.push(`${name} before ${tool.name} ${JSON.stringify(args)} ${context.idempotencyKey}`);
        const result = await next({ ...args, [name]: true });
        seen.push(`${name} after ${String(result)}`);
        return `${name}(${String(result)})`;
      };
    const { tool, calls } = recording();
    const { lab, result } = await runCall([tool], { a: 1 }, { toolHooks: [hook("outer"), hook("inner")] });
    expect(seen).toEqual(['outer before tool {"a":1} run-1:0:0', 'inner before tool {"a":1,"outer":true} run-1:0:0', "inner after ok", "outer after inner(ok)"]);
    expect(calls[0]?.input).toEqual({ a: 1, outer: true, inner: true });
    expect(result?.content).toBe("outer(inner(ok))");
    expect(lab.effect("c1")).toMatchObject({ status: "done", arguments: { a: 1, outer: true, inner: true }, result: "outer(inner(ok))" });
    expect(lab.eventsOf("tool-call.started")[0]?.call.arguments).toEqual({ a: 1, outer: true, inner: true });
  });

  it("that change their arguments in place change what runs, and not what the model said", async () => {
    const { tool, calls } = recording();
    const { lab, model } = await runCall([tool], { a: { b: 1 } }, {
      toolHooks: [
        ({ arguments: args }, next) => {
          (args.a as Record<string, unknown>).b = 2;
          return next(args);
        },
      ],
    });
    expect(calls[0]?.input).toEqual({ a: { b: 2 } });
    expect(lab.effect("c1").arguments).toEqual({ a: { b: 2 } });
    expect(model.requests[1]?.messages[1]).toMatchObject({ toolCalls: [{ arguments: { a: { b: 1 } } }] });
  });

  it("that keep what they passed on can not change it afterwards", async () => {
    let kept: Record<string, unknown> | undefined;
    const { tool } = recording({
      execute: () => {
        kept!.a = "changed";
        return "ok";
      },
    });
    const { lab } = await runCall([tool], { a: 1 }, { toolHooks: [({ arguments: args }, next) => next((kept = args))] });
    expect(lab.effect("c1").arguments).toEqual({ a: 1 });
  });

  it("that do not call on answer in the tool's place, and the ledger says that it did not run", async () => {
    const { tool, calls } = recording({ stopAfterCall: true });
    const { lab, result } = await runCall([tool], {}, { toolHooks: [() => ({ cached: true })] });
    expect(calls).toEqual([]);
    expect(result).toMatchObject({ content: '{"cached":true}', isError: false });
    expect(lab.effect("c1")).toMatchObject({ status: "skipped", result: '{"cached":true}' });
    expect(lab.effect("c1")).not.toHaveProperty("startedAt");
    expect(lab.eventsOf("tool-call.started")).toEqual([]);
    expect(lab.eventsOf("tool-call.completed")).toHaveLength(1);
  });

  it("that throw are an error result, before the call and after it", async () => {
    const before = recording();
    const refused = await runCall([before.tool], {}, {
      toolHooks: [
        () => {
          throw new Error("not on Sundays");
        },
      ],
    });
    expect(before.calls).toEqual([]);
    expect(refused.result).toMatchObject({ content: "The tool failed: not on Sundays", isError: true });
    const after = recording();
    const failed = await runCall([after.tool], {}, {
      toolHooks: [
        async ({ arguments: args }, next) => {
          await next(args);
          throw new Error("the audit log is down");
        },
      ],
    });
    expect(after.calls).toHaveLength(1);
    expect(failed.result).toMatchObject({ content: "The tool failed: the audit log is down", isError: true });
    expect(failed.lab.effect("c1")).toMatchObject({ status: "failed", startedAt: expect.any(Number) });
  });

  it("that pass on what does not fit do not get it run", async () => {
    const { tool, calls } = recording({ input: z.object({ amount: z.number() }) });
    const { result, lab } = await runCall([tool], { amount: 1 }, { toolHooks: [(_call, next) => next({ amount: "much" })] });
    expect(calls).toEqual([]);
    expect(result?.content).toContain('do not fit the tool "tool", so it was not executed. amount: ');
    expect(lab.effect("c1")).not.toHaveProperty("startedAt");
  });

  it.each([
    ["nothing", undefined],
    ["a list", [1]],
    ["a BigInt", { amount: 1n }],
  ])("that pass on %s do not get it run", async (_what, passed) => {
    const { tool, calls } = recording();
    const { result, end } = await runCall([tool], {}, { toolHooks: [(_call, next) => next(passed as never)] });
    expect(calls).toEqual([]);
    expect(result?.content).toContain("arguments that are not a JSON object");
    expect(end).toMatchObject({ status: "completed" });
  });

  it("are not shown arguments that do not fit", async () => {
    let shown = 0;
    const { tool } = recording({ input: z.object({ amount: z.number() }) });
    const { result } = await runCall([tool], { amount: "x" }, { toolHooks: [({ arguments: args }, next) => ((shown += 1), next(args))] });
    expect(shown).toBe(0);
    expect(result?.content).toContain("do not fit");
  });

  it("that call on twice get a `once` call's answer twice, from one call", async () => {
    const { tool, calls } = recording({ execute: () => "charged" });
    const { lab, result } = await runCall([tool], {}, { toolHooks: [async ({ arguments: args }, next) => `${String(await next(args))} ${String(await next({ ...args, twice: true }))}`] });
    expect(calls).toHaveLength(1);
    expect(result?.content).toBe("charged charged");
    expect(lab.eventsOf("tool-call.started")).toHaveLength(1);
  });

  it("may repeat a harmless call, under the same key and with the same arguments", async () => {
    let tries = 0;
    const { tool, calls } = recording({
      effect: "none",
      execute: () => {
        tries += 1;
        if (tries === 1) throw new Error("flaky");
        return "ok";
      },
    });
    const { lab, result } = await runCall([tool], { a: 1 }, { toolHooks: [({ arguments: args }, next) => next(args).catch(() => next({ a: 2 }))] });
    expect(result?.content).toBe("ok");
    expect(calls.map(({ input, context }) => [input, context.idempotencyKey])).toEqual([
      [{ a: 1 }, "run-1:0:0"],
      [{ a: 1 }, "run-1:0:0"],
    ]);
    expect(lab.commits.filter((commit) => commit.startsWith("start run"))).toHaveLength(1);
  });

  it.each([0, 1, 2, 3, 4])("that answer without waiting for the call do not get it made behind the ledger's back (%i turns later)", async (turns) => {
    const { tool, calls } = recording();
    const lab: Lab = new Lab({
      agent: agentOf({
        tools: [tool],
        toolHooks: [
          async ({ arguments: args }, next) => {
            next(args).catch(() => {});
            for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
            return "queued";
          },
        ],
      }),
      // The turn goes on for a while, so that nothing is refused merely because it is over.
      model: scripted([reply(call("tool", {}, { id: "c1" })), reply(wait(10), "Done.")], { clock: { now: () => 0, sleep: (ms, signal) => lab.clock.sleep(ms, signal) } }),
    });
    const ended = lab.attempt();
    await lab.clock.pass(5);
    expect(calls).toEqual([]);
    expect(lab.effect("c1")).toMatchObject({ status: "skipped", result: "queued" });
    await lab.clock.pass(5);
    expect(await ended).toMatchObject({ status: "completed" });
    expect(lab.eventsOf("tool-call.started")).toEqual([]);
  });

  it("can not hide from the turn that the ledger refused the call", async () => {
    const { tool, calls } = recording();
    const lab = new Lab({ agent: agentOf({ tools: [tool], toolHooks: [({ arguments: args }, next) => next(args).catch(() => "never mind")] }), model: scripted([reply(call("tool", {}, { id: "c1" })), "Done."]) });
    lab.refuses = "start run";
    await expect(lab.attempt()).rejects.toThrow("Another attempt has taken over.");
    expect(calls).toEqual([]);
    expect(lab.effect("c1").status).toBe("planned");
  });
});

describe("a ledger that refuses", () => {
  it("a result is the end of the attempt, and is not told as the tool's failure", async () => {
    const { tool, calls } = recording();
    const lab = new Lab({ agent: agentOf({ tools: [tool] }), model: scripted([reply(call("tool", {}, { id: "c1" })), "Done."]) });
    lab.refuses = "settle";
    await expect(lab.attempt()).rejects.toThrow("Another attempt has taken over.");
    expect(calls).toHaveLength(1);
    expect(lab.effect("c1").status).toBe("started");
  });
});
