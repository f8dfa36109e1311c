import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/define/tool.ts";
import { call, reply, scripted } from "../../../src/models/scripted.ts";
import { agentOf, deferred, expectSoundLog, Lab, pairingProblems, requestProblems, seeded, settle } from "./harness.ts";

/** Tools named a, b, c … that end when the test says so, in a model's one reply. */
function gated(names: readonly string[], options: Record<string, { sequential?: boolean; stopAfterCall?: boolean }> = {}) {
  const log: string[] = [];
  const ends = new Map(names.map((name) => [name, deferred<unknown>()]));
  const tools = names.map((name) =>
    defineTool({
      name,
      description: "",
      input: z.object({}).loose(),
      ...options[name],
      execute: async (_input, { signal }) => {
        log.push(`${name} starts`);
        signal.addEventListener("abort", () => log.push(`${name} is aborted`));
        const result = await ends.get(name)!.promise;
        log.push(`${name} ends`);
        return result;
      },
    }),
  );
  const model = scripted([reply(...names.map((name) => call(name, {}, { id: name }))), reply("Done.")]);
  const lab = new Lab({ agent: agentOf({ tools }), model });
  const end = (name: string, result: unknown = `result of ${name}`) => ends.get(name)!.resolve(result);
  return { lab, model, log, end };
}

describe("calls of one reply", () => {
  it("run side by side, and each result is stored when it comes", async () => {
    const { lab, log, end, model } = gated(["a", "b", "c"]);
    const ended = lab.attempt();
    await settle();
    // Their arguments are hashed side by side as well, so that any of them may come first.
    expect([...log].sort()).toEqual(["a starts", "b starts", "c starts"]);
    end("c");
    await settle();
    expect(lab.effects.map((effect) => effect.status)).toEqual(["started", "started", "done"]);
    end("a");
    await settle();
    expect(lab.effects.map((effect) => effect.status)).toEqual(["done", "started", "done"]);
    end("b");
    expect(await ended).toMatchObject({ status: "completed", content: "Done." });
    // However they ended, the model sees them in the order in which it asked.
    expect(model.requests[1]?.messages.slice(-3).map((message) => message.content)).toEqual(["result of a", "result of b", "result of c"]);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
  });

  it("a throw in one does not disturb the others", async () => {
    const throwing = defineTool({ name: "bad", description: "", execute: () => Promise.reject(new Error("no")) });
    const good = defineTool({ name: "good", description: "", execute: () => "fine" });
    const model = scripted([reply(call("bad"), call("good"), call("gone"), call("good", "{broken")), reply("Done.")]);
    const lab = new Lab({ agent: agentOf({ tools: [throwing, good] }), model });
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect(lab.effects.map((effect) => effect.status)).toEqual(["failed", "done", "failed", "failed"]);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
  });

  it("C064 calls with one id are two calls, each run once", async () => {
    const seen: unknown[] = [];
    const echo = defineTool({ name: "echo", description: "", input: z.object({ n: z.number() }), execute: ({ n }) => (seen.push(n), n) });
    const model = scripted([reply(call("echo", { n: 1 }, { id: "x" }), call("echo", { n: 2 }, { id: "x" })), reply(call("echo", { n: 3 }, { id: "x" })), reply("Done.")]);
    const lab = new Lab({ agent: agentOf({ tools: [echo] }), model });
    await lab.run();
    // Calls of one reply run side by side; which of them begins first is nobody's promise.
    expect(seen.toSorted()).toEqual([1, 2, 3]);
    expect(lab.effects.map(({ step, position, callId, result }) => [step, position, callId, result])).toEqual([
      [0, 0, "x", "1"],
      [0, 1, "x_2", "2"],
      [1, 0, "x_3", "3"],
    ]);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
  });

  it("C014 five at once: indices never go back, and what is replayed is what was told", async () => {
    for (let round = 0; round < 20; round += 1) {
      const slow = defineTool({
        name: "slow",
        description: "",
        input: z.object({ ms: z.number() }),
        effect: "none",
        execute: async ({ ms }, context) => {
          context.progress({ before: ms });
          await lab.clock.sleep(ms);
          context.progress({ after: ms });
          return ms;
        },
      });
      const times = [50, 10, 40, 20, 30].map((ms) => ms + ((ms * round) % 7));
      const lab: Lab = new Lab({ agent: agentOf({ tools: [slow] }), model: scripted([reply(...times.map((ms) => call("slow", { ms }))), reply("Done.")]) });
      const ended = lab.attempt();
      await lab.clock.pass(100);
      expect(await ended).toMatchObject({ status: "completed" });
      expectSoundLog(lab);
      expect(lab.events).toEqual(lab.told);
      expect(lab.eventsOf("tool-call.completed").map((event) => event.call.result)).toEqual(times.toSorted((a, b) => a - b).map(String));
      expect(lab.eventsOf("tool-call.progress")).toHaveLength(10);
    }
  });

  it("what they change in the session's state is all kept", async () => {
    const count = defineTool({
      name: "count",
      description: "",
      input: z.object({ ms: z.number() }),
      execute: async ({ ms }, { session }) => {
        await lab.clock.sleep(ms);
        session.state.total = ((session.state.total as number | undefined) ?? 0) + ms;
        session.state[`after${ms}`] = true;
      },
    });
    const lab: Lab = new Lab({ agent: agentOf({ tools: [count] }), model: scripted([reply(call("count", { ms: 3 }), call("count", { ms: 1 }), call("count", { ms: 2 })), reply("Done.")]), state: { mine: 1 } });
    const ended = lab.attempt();
    await lab.clock.pass(1);
    expect(lab.sessionState).toEqual({ mine: 1, total: 1, after1: true });
    await lab.clock.pass(10);
    await ended;
    expect(lab.sessionState).toEqual({ mine: 1, total: 6, after1: true, after2: true, after3: true });
  });
});

describe("a sequential tool", () => {
  it("waits for the calls before it and holds back those after it", async () => {
    const { lab, log, end } = gated(["a", "b", "c", "d", "e"], { c: { sequential: true } });
    const ended = lab.attempt();
    await settle();
    expect([...log].sort()).toEqual(["a starts", "b starts"]);
    end("b");
    await settle();
    expect(log).not.toContain("c starts");
    end("a");
    await settle();
    expect(log.at(-1)).toBe("c starts");
    end("c");
    await settle();
    expect(log.slice(-3)).toEqual(["c ends", "d starts", "e starts"]);
    end("d");
    end("e");
    expect(await ended).toMatchObject({ status: "completed" });
  });

  it("C025 a cancel while one runs: the later ones never start, in no variant", async () => {
    for (const deaf of [false, true]) {
      const { lab, log, end, model } = gated(["slow", "charge"], { slow: { sequential: true }, charge: { sequential: true } });
      const ended = lab.attempt();
      await settle();
      lab.cancel();
      if (!deaf) end("slow");
      expect(await ended).toMatchObject({ status: "cancelled" });
      end("slow");
      await lab.clock.pass(100_000);
      expect(log).toEqual(["slow starts", "slow is aborted", "slow ends"]);
      expect(model.requests).toHaveLength(1);
      expect(lab.effects.map(({ status, result }) => [status, result])).toEqual([
        ["unknown", "cancelled while running; it may have happened"],
        ["skipped", "Not executed: the run ended before it."],
      ]);
      expect(lab.late).toHaveLength(1);
      expect(pairingProblems(lab.history)).toEqual([]);
      expectSoundLog(lab);
    }
  });
});

describe("C001 a cancel in the middle of a batch", () => {
  it("keeps what is done, says of the rest what is true, and leaves a history that every provider takes", async () => {
    const random = seeded(1);
    for (let trial = 0; trial < 20; trial += 1) {
      const names = ["a", "b", "c", "d"];
      const { lab, end } = gated(names, Object.fromEntries(names.map((name) => [name, { sequential: random.below(3) === 0 }])));
      const ended = lab.attempt();
      await settle();
      const done = names.filter(() => random.below(2) === 0);
      for (const name of done) {
        end(name);
        await settle();
      }
      if (lab.end !== undefined || done.length === names.length) continue;
      lab.cancel();
      expect(await ended).toMatchObject({ status: "cancelled" });
      for (const effect of lab.effects) expect(["done", "unknown", "skipped"]).toContain(effect.status);
      const next = scripted(["yes"]);
      const past = [{ runId: "r", status: "cancelled" as const, componentId: "a1", messages: () => lab.history }];
      const after = new Lab({ agent: agentOf({ addHistoryToContext: true, historySkipStatuses: [] }), model: next, past, input: { message: "still there?" } });
      expect(await after.run()).toMatchObject({ status: "completed", content: "yes" });
      expect(requestProblems(next.requests[0]!)).toEqual([]);
    }
  });
});

describe("a tool whose result is the answer", () => {
  const stop = { stopAfterCall: true };

  it("ends the run with it: the model is not asked again", async () => {
    const { lab, end, model } = gated(["a"], { a: stop });
    const ended = lab.attempt();
    await settle();
    end("a", "the answer");
    expect(await ended).toEqual({ status: "completed", content: "the answer", finishReason: "stop" });
    expect(model.requests).toHaveLength(1);
    expect(lab.eventsOf("text.delta").map((event) => event.text).join("")).toBe("the answer");
    expect(lab.effects[0]?.stopAfter).toBe(true);
    expect(lab.eventsOf("tool-call.completed")[0]?.call.stopAfter).toBe(true);
    expectSoundLog(lab);
  });

  it("waits for its siblings, and two of them answer in the order of the calls", async () => {
    const { lab, end, model } = gated(["a", "b", "c"], { a: stop, c: stop });
    const ended = lab.attempt();
    await settle();
    for (const name of ["c", "a", "b"]) end(name);
    expect(await ended).toMatchObject({ status: "completed", content: "result of a\nresult of c" });
    // What was told and what is stored are one text.
    expect(lab.eventsOf("text.delta").map((event) => event.text).join("")).toBe("result of a\nresult of c");
    expect(model.requests).toHaveLength(1);
  });

  it("with nothing to say says nothing, not an empty piece of text", async () => {
    const { lab, end } = gated(["a"], { a: stop });
    const ended = lab.attempt();
    await settle();
    end("a", "");
    expect(await ended).toMatchObject({ status: "completed", content: "" });
    expect(lab.eventsOf("text.delta")).toEqual([]);
  });

  it("that fails is told to the model like any other", async () => {
    const tool = defineTool({ name: "a", description: "", stopAfterCall: true, execute: () => Promise.reject(new Error("no")) });
    const lab = new Lab({ agent: agentOf({ tools: [tool] }), model: scripted([reply(call("a")), reply("It failed.")]) });
    expect(await lab.run()).toMatchObject({ status: "completed", content: "It failed." });
    expect(lab.effects[0]).not.toHaveProperty("stopAfter");
  });
});
