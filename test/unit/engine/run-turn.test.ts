import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/define/tool.ts";
import { type Cue, call, end, reply, say, scripted } from "../../../src/models/scripted.ts";
import { agentOf, expectSoundLog, Lab, requestProblems, settle } from "./harness.ts";

const charged: unknown[] = [];
const charge = defineTool({ name: "charge", description: "", input: z.object({ amount: z.number() }), execute: ({ amount }) => (charged.push(amount), "charged") });

const labOf = (model: ReturnType<typeof scripted>, options: Parameters<typeof agentOf>[0] = {}) => new Lab({ agent: agentOf({ tools: [charge], ...options }), model });

describe("C055 a call cut by the output limit", () => {
  const whole = call("charge", { amount: 1 });
  it.each<[string, Cue[], unknown[], boolean[]]>([
    ["is not made where it is cut in its text", [call("charge", '{"amount":5,"memo":"first ha'), end("length")], [], [false]],
    ["is not made where the server calls it complete", [call("charge", '{"amount":5,"memo":"first ha'), end("tool_calls")], [], [false]],
    ["does not keep a whole one before it from being made", [whole, call("charge", '{"amou'), end("length")], [1], [true, false]],
    ["is not made where it happens to parse", [call("charge", { amount: 5 }), end("length")], [], [false]],
  ])("%s", async (_what, cues, made, ran) => {
    charged.length = 0;
    const model = scripted([reply(...cues), reply("Sorry.")]);
    const lab = labOf(model);
    expect(await lab.run()).toMatchObject({ status: "completed", content: "Sorry." });
    expect(charged).toEqual(made);
    expect(lab.effects.map((effect) => effect.status === "done")).toEqual(ran);
    expect(lab.effects.at(-1)?.result).toMatch(/cut off/);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
  });
});

describe("a run that does not come to an end", () => {
  it("C067 C055 replies with nothing but broken calls end it after three, with the reason, and every call is answered", async () => {
    charged.length = 0;
    const model = scripted(() => reply(call("charge", '{"amount": 5, "memo": "ab')));
    const lab = labOf(model);
    expect(await lab.run()).toMatchObject({ status: "failed", error: { type: "broken_tool_calls", message: expect.stringContaining("3 times in a row"), retryable: false } });
    expect(model.requests).toHaveLength(3);
    expect(charged).toEqual([]);
    expect(lab.effects.map((effect) => effect.status)).toEqual(["failed", "failed", "failed"]);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
    expectSoundLog(lab);
  });

  it("broken replies with sound ones between them are borne", async () => {
    const broken = reply(call("charge", "{"));
    const sound = reply(call("charge", { amount: 1 }));
    const lab = labOf(scripted([broken, broken, sound, broken, broken, "Done."]));
    expect(await lab.run()).toMatchObject({ status: "completed", content: "Done." });
  });

  it("C067 the same invalid call for ever ends after the agent's steps, with the reason, and every call is answered", async () => {
    const model = scripted(() => reply(call("charge", { amount: "much" })));
    const lab = labOf(model, { maxSteps: 7 });
    expect(await lab.run()).toMatchObject({ status: "failed", error: { type: "step_limit", message: expect.stringContaining("7 model requests"), retryable: false } });
    expect(model.requests).toHaveLength(7);
    expect(lab.effects).toHaveLength(7);
    expect(lab.effects.every((effect) => effect.status === "failed")).toBe(true);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
  });

  it("C067 without a limit of its own an agent makes fifty requests", async () => {
    const model = scripted(() => reply(call("no_such_tool")));
    expect(await labOf(model).run()).toMatchObject({ status: "failed", error: { type: "step_limit" } });
    expect(model.requests).toHaveLength(50);
  });

  it("C067 can be cancelled in between", async () => {
    const model = scripted(() => reply(call("charge", { amount: "much" }), say("Once more.", { everyMs: 10 })), { clock: { now: () => 0, sleep: (ms, signal) => lab.clock.sleep(ms, signal) } });
    const lab: Lab = labOf(model);
    const ended = lab.attempt();
    await lab.clock.pass(55);
    lab.cancel();
    expect(await ended).toMatchObject({ status: "cancelled" });
    const asked = model.requests.length;
    await lab.clock.pass(1_000);
    expect(model.requests).toHaveLength(asked);
    expect(asked).toBeLessThan(5);
    expectSoundLog(lab);
  });

  it("its last step's answer is an answer", async () => {
    expect(await labOf(scripted([reply(call("charge", { amount: 1 })), "Done."]), { maxSteps: 2 }).run()).toMatchObject({ status: "completed" });
    expect(await labOf(scripted([reply(call("charge", { amount: 1 })), "Done."]), { maxSteps: 1 }).run()).toMatchObject({ status: "failed", error: { type: "step_limit" } });
  });

  it("a forced call does not keep it from answering", async () => {
    const model = scripted((request) => (request.toolChoice === "required" ? reply(call("charge", { amount: 1 })) : reply("Done.")));
    expect(await labOf(model, { toolChoice: "required" }).run()).toMatchObject({ status: "completed", content: "Done." });
    expect(model.requests.map((request) => request.toolChoice)).toEqual(["required", undefined]);
  });
});

describe("what a run says", () => {
  it("is the text of all its replies, told and stored alike", async () => {
    const lab = labOf(scripted([reply(say("Let me look. "), call("charge", { amount: 1 })), reply("It is done.")]));
    expect(await lab.run()).toMatchObject({ content: "Let me look. It is done." });
    expect(lab.eventsOf("text.delta").map((event) => event.text).join("")).toBe("Let me look. It is done.");
    expect(lab.eventsOf("text.completed")).toHaveLength(1);
  });

  it("S261 S170 a run stores its own messages and nothing of those before it", async () => {
    const past: { runId: string; status: "completed"; componentId: string; messages: () => Lab["history"] }[] = [];
    const stored: number[] = [];
    const shown: number[] = [];
    for (let turn = 0; turn < 10; turn += 1) {
      const model = scripted([reply(call("charge", { amount: turn })), reply(`Answer ${turn}.`)]);
      const lab = new Lab({ agent: agentOf({ tools: [charge], addHistoryToContext: true, numHistoryRuns: 100 }), model, past: [...past], input: { message: `Question ${turn}` } });
      await lab.run();
      stored.push(lab.history.length);
      shown.push(model.requests[0]!.messages.length);
      expect(model.requests.flatMap(requestProblems)).toEqual([]);
      past.unshift({ runId: `r${turn}`, status: "completed", componentId: "a1", messages: () => lab.history });
    }
    expect(new Set(stored)).toEqual(new Set([4]));
    expect(shown).toEqual(Array.from({ length: 10 }, (_, turn) => turn * 4 + 1));
  });

  it("C003 a call whose question was cancelled has one result, or the next turn is refused", async () => {
    const ask = defineTool({ name: "ask", description: "", execute: () => new Promise(() => {}) });
    const lab = new Lab({ agent: agentOf({ tools: [ask] }), model: scripted([reply(call("ask", {}, { id: "q1" }))]) });
    const ended = lab.attempt();
    await settle();
    lab.cancel();
    await ended;
    const next = scripted(["ok"]);
    await new Lab({ agent: agentOf({ addHistoryToContext: true, historySkipStatuses: ["failed"] }), model: next, past: [{ runId: "r", status: "cancelled", componentId: "a1", messages: () => lab.history }] }).run();
    expect(requestProblems(next.requests[0]!)).toEqual([]);
    expect(next.requests[0]?.messages.filter((message) => message.role === "tool")).toHaveLength(1);
  });

  it("a run whose answer is stored already is completed without asking again", async () => {
    const model = scripted(["never asked"]);
    const lab = labOf(model);
    lab.messages.push(JSON.stringify({ id: "a", role: "assistant", createdAt: 0, content: "Done before.", toolCalls: [], provider: "p", model: "m", finishReason: "length" }));
    expect(await lab.run()).toEqual({ status: "completed", content: "Done before.", finishReason: "length" });
    expect(model.requests).toEqual([]);
  });

  it("an author's function that throws ends the attempt with the author's error", async () => {
    const lab = labOf(scripted(["x"]), {
      instructions: () => {
        throw new Error("no such template");
      },
    });
    await expect(lab.attempt()).rejects.toThrow("no such template");
  });
});
