import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/define/tool.ts";
import type { AssistantMessage } from "../../../src/domain/message.ts";
import type { ModelPart } from "../../../src/models/model.ts";
import { call, end, fail, reply, say, scripted, think, usage } from "../../../src/models/scripted.ts";
import { agentOf, expectSoundLog, finish, Lab, partsModel, requestProblems, seeded, shownText } from "./harness.ts";

const ping = defineTool({ name: "ping", description: "Answers.", effect: "none", input: z.object({}).loose(), execute: () => "pong" });

const labOf = (...parts: ModelPart[]) => new Lab({ agent: agentOf({ tools: [ping] }), model: partsModel(parts) });
const lastReply = (lab: Lab) => lab.ownMessages.at(-1) as AssistantMessage;

describe("deltas", () => {
  it("S129 are told as they come, and joined they are the reply that is stored", async () => {
    const lab = new Lab({ agent: agentOf(), model: scripted([reply(say("The answer is forty-two."))]) });
    expect(await lab.run()).toEqual({ status: "completed", content: "The answer is forty-two.", finishReason: "stop" });
    expect(lab.eventsOf("text.delta").map((event) => event.text)).toEqual(["The", " answer", " is", " forty-two."]);
    expect(lab.told.map((event) => event.type).filter((type) => type !== "text.delta")).toEqual(["run.started", "model.started", "model.completed", "text.completed", "run.completed"]);
    expect(lastReply(lab).content).toBe("The answer is forty-two.");
    expectSoundLog(lab);
  });

  const family = "👩‍👩‍👧‍👦";
  it.each([
    ["a pair cut in two", ["ok \ud83d", "\ude00 fine"], "ok 😀 fine"],
    ["a family with joiners cut at every unit", family.split(""), family],
    ["a first half that nothing follows", ["\ud83d"], "\ufffd"],
    ["a second half that nothing precedes", ["\ude00", "x"], "\ufffdx"],
    ["two first halves", ["\ud83d", "\ud83d", "\ude00"], "\ufffd😀"],
    ["pieces without text between the halves", ["\ud83d", "", "\ude00"], "😀"],
  ])("C068 %s: every event is well-formed and the text is whole", async (_what, pieces, whole) => {
    const lab = labOf(...pieces.map((text): ModelPart => ({ type: "text", text })), finish());
    expect(await lab.run()).toMatchObject({ status: "completed", content: whole });
    expect(shownText(lab.told)).toBe(whole);
    expect(lab.told.every((event) => JSON.stringify(event).includes("\\ud") === false)).toBe(true);
    expect(lab.eventsOf("text.delta").every((event) => event.text !== "" && event.text.isWellFormed())).toBe(true);
  });

  it("C068 text cut anywhere is told whole", async () => {
    const random = seeded(68);
    const alphabet = ["a", "ü", "\u0000", "\n", "😀", family, "\ud83d", "\ude00", "中"];
    for (let trial = 0; trial < 60; trial += 1) {
      const text = Array.from({ length: random.below(12) }, () => random.pick(alphabet)).join("");
      const pieces: string[] = [];
      for (let from = 0; from < text.length; ) pieces.push(text.slice(from, (from += 1 + random.below(3))));
      const lab = labOf(...pieces.map((piece): ModelPart => ({ type: "text", text: piece })), finish());
      expect(await lab.run()).toMatchObject({ content: text.toWellFormed() });
      expect(shownText(lab.told)).toBe(text.toWellFormed());
    }
  });

  it("C068 halves in a tool's arguments and result stay out of the next request and out of the log", async () => {
    const halves = defineTool({ name: "halves", description: "", effect: "none", input: z.object({ text: z.string() }), execute: ({ text }) => `${text} and \ud83d` });
    const model = scripted([reply(call("halves", '{"text":"\\ud83d"}')), reply("Done.")]);
    const lab = new Lab({ agent: agentOf({ tools: [halves] }), model });
    await lab.run();
    expect(lab.effects[0]).toMatchObject({ arguments: { text: "\ufffd" }, result: "\ufffd and \ufffd" });
    expect(requestProblems(model.requests[1]!)).toEqual([]);
    expect(JSON.stringify(lab.told)).not.toContain("\\ud83d");
  });
});

describe("reasoning", () => {
  it("is told apart from the text and kept with its proof", async () => {
    const lab = new Lab({ agent: agentOf(), model: scripted([reply(think("Hm, let me see.", { signature: "sig" }), say("Yes."))]) });
    await lab.run();
    const types = lab.told.map((event) => event.type);
    expect(types.slice(2, 4)).toEqual(["reasoning.started", "reasoning.delta"]);
    expect(types.indexOf("reasoning.completed")).toBeLessThan(types.indexOf("text.delta"));
    expect(lab.eventsOf("reasoning.delta").map((event) => event.text).join("")).toBe("Hm, let me see.");
    expect(lab.eventsOf("reasoning.completed")[0]?.text).toBe("Hm, let me see.");
    expect(lastReply(lab).reasoning).toEqual([{ text: "Hm, let me see.", signature: "sig" }]);
    expect(shownText(lab.told)).toBe("Yes.");
  });

  it("keeps blocks apart, and each with its own proof", async () => {
    const lab = labOf(
      { type: "reasoning", text: "one" },
      { type: "reasoning-end", signature: "s1" },
      { type: "reasoning", text: "two" },
      { type: "reasoning-end", signature: "s2" },
      { type: "text", text: "Yes." },
      finish(),
    );
    await lab.run();
    expect(lastReply(lab).reasoning).toEqual([
      { text: "one", signature: "s1" },
      { text: "two", signature: "s2" },
    ]);
  });

  it("keeps what the provider does not show, because it has to go back", async () => {
    const lab = labOf({ type: "reasoning-end", redacted: "opaque" }, { type: "reasoning-end", signature: "proof of nothing shown" }, { type: "text", text: "Yes." }, finish());
    await lab.run();
    expect(lastReply(lab).reasoning).toEqual([
      { text: "", redacted: "opaque" },
      { text: "", signature: "proof of nothing shown" },
    ]);
    expect(lab.eventsOf("reasoning.started")).toEqual([]);
  });

  it("a text piece without text does not end a thought, so its proof is not lost", async () => {
    const lab = labOf({ type: "reasoning", text: "hm" }, { type: "text", text: "" }, { type: "reasoning", text: "…" }, { type: "reasoning-end", signature: "s" }, { type: "text", text: "Yes." }, finish());
    await lab.run();
    expect(lastReply(lab).reasoning).toEqual([{ text: "hm…", signature: "s" }]);
  });

  it("that nobody ended ends with the text, or with the reply", async () => {
    const withText = labOf({ type: "reasoning", text: "hm" }, { type: "text", text: "Yes." }, finish());
    await withText.run();
    expect(lastReply(withText)).toMatchObject({ reasoning: [{ text: "hm" }], content: "Yes." });
    const alone = labOf({ type: "reasoning", text: "hm \ud83d" }, finish());
    expect(await alone.run()).toMatchObject({ status: "completed", content: "" });
    expect(lastReply(alone).reasoning).toEqual([{ text: "hm \ufffd" }]);
    expect(alone.eventsOf("reasoning.completed")).toHaveLength(1);
  });
});

describe("how a reply ends", () => {
  it.each([
    ["C057 (a) an empty refusal", reply(end("refusal")), "model_refusal", ""],
    ["C057 (b) a refusal after reasoning alone", reply(think("They want…"), end("refusal")), "model_refusal", ""],
    ["C057 (c) a filtered answer", reply(say("I can't help with that."), end("content_filter")), "model_content_filter", "I can't help with that."],
    ["C057 (d) a refusal with text", reply(say("I can't help."), end("refusal")), "model_refusal", "I can't help."],
  ])("%s fails with its reason, is not asked again, and keeps the text", async (_what, refused, type, content) => {
    const model = scripted([refused]);
    const lab = new Lab({ agent: agentOf({ retries: 3 }), model });
    expect(await lab.run()).toEqual({ status: "failed", error: { type, message: expect.any(String) as string, retryable: false }, content });
    expect(model.requests).toHaveLength(1);
    expectSoundLog(lab);
    // The session goes on, also where the author lets failed runs into history.
    const next = scripted(["Hello."]);
    const past = [{ runId: "run-0", status: "failed" as const, componentId: "a1", messages: () => lab.history }];
    await new Lab({ agent: agentOf({ addHistoryToContext: true, historySkipStatuses: [] }), model: next, past }).run();
    expect(requestProblems(next.requests[0]!)).toEqual([]);
  });

  it("C057 calls of a refused reply do not run", async () => {
    const lab = new Lab({ agent: agentOf({ tools: [ping] }), model: scripted([reply(call("ping"), end("content_filter"))]) });
    expect(await lab.run()).toMatchObject({ status: "failed", error: { type: "model_content_filter" } });
    expect(lab.effects).toEqual([]);
    expect(lastReply(lab).toolCalls).toEqual([]);
  });

  it("C057 (f) a reason that nobody knows is passed through", async () => {
    const lab = new Lab({ agent: agentOf(), model: scripted([reply(say("Fine."), end("other:weird_new_reason"))]) });
    expect(await lab.run()).toEqual({ status: "completed", content: "Fine.", finishReason: "other:weird_new_reason" });
  });

  it("C058 a last message that says nothing is an answer", async () => {
    const model = scripted([reply(call("ping")), reply(end("stop"))]);
    const lab = new Lab({ agent: agentOf({ tools: [ping], retries: 3 }), model });
    expect(await lab.run()).toEqual({ status: "completed", content: "", finishReason: "stop" });
    expect(model.requests).toHaveLength(2);
    const next = scripted(["hi"]);
    await new Lab({ agent: agentOf({ addHistoryToContext: true }), model: next, past: [{ runId: "r", status: "completed", componentId: "a1", messages: () => lab.history }] }).run();
    expect(requestProblems(next.requests[0]!)).toEqual([]);
  });

  it("a reply that the token limit cut is the answer as far as it goes, and says so", async () => {
    const lab = new Lab({ agent: agentOf(), model: scripted([reply(say("Once upon a"), end("length"))]) });
    expect(await lab.run()).toEqual({ status: "completed", content: "Once upon a", finishReason: "length" });
  });

  it("calls run also where the server calls the reply stopped", async () => {
    const lab = new Lab({ agent: agentOf({ tools: [ping] }), model: scripted([reply(call("ping"), end("stop")), reply("Done.")]) });
    expect(await lab.run()).toMatchObject({ status: "completed", content: "Done." });
    expect(lab.effects.map((effect) => effect.status)).toEqual(["done"]);
  });

  it("an adapter that ends its stream without a word is at fault, and what it said is kept as partial", async () => {
    const lab = labOf({ type: "text", text: "The answer" });
    expect(await lab.run()).toMatchObject({ status: "failed", error: { type: "model_protocol", retryable: false }, content: "The answer" });
    expect(lastReply(lab)).toMatchObject({ content: "The answer", partial: true, toolCalls: [] });
  });

  it("an adapter that throws is at fault too", async () => {
    const model = partsModel(async function* () {
      yield { type: "text", text: "The answer" } as const;
      throw new Error("undefined is not a function");
    });
    const lab = new Lab({ agent: agentOf(), model });
    expect(await lab.run()).toMatchObject({
      status: "failed",
      error: { type: "model_protocol", message: expect.stringContaining("undefined is not a function"), retryable: false },
      content: "The answer",
    });
  });

  it("parts after the end are not read", async () => {
    const lab = labOf({ type: "text", text: "Yes." }, finish(), { type: "text", text: " No." });
    expect(await lab.run()).toMatchObject({ content: "Yes." });
  });

  it("an abort that nobody asked for ends the turn as interrupted; it must not wait for ever as cancelled", async () => {
    const lab = new Lab({ agent: agentOf(), model: scripted([reply(say("Half"), fail("aborted"))]) });
    expect(await lab.run()).toMatchObject({ status: "failed", error: { type: "model_interrupted", retryable: true }, content: "Half" });
  });
});

describe("a cancel while the model speaks", () => {
  it("aborts the request, ends as cancelled and keeps what was said", async () => {
    let signal: AbortSignal | undefined;
    let left = false;
    const model = partsModel(async function* (context) {
      signal = context.signal;
      try {
        yield { type: "text", text: "Once upon" } as const;
        await new Promise<void>((resolve) => context.signal.addEventListener("abort", () => resolve()));
        yield { type: "error", error: { kind: "aborted", message: "" } } as const;
      } finally {
        left = true;
      }
    });
    const lab = new Lab({ agent: agentOf({ retries: 3 }), model });
    const ended = lab.attempt();
    await lab.clock.pass(0);
    lab.cancel();
    expect(await ended).toEqual({ status: "cancelled", content: "Once upon" });
    expect(signal?.aborted).toBe(true);
    expect(left).toBe(true);
    expect(model.requests).toHaveLength(1);
    expect(lastReply(lab)).toMatchObject({ content: "Once upon", partial: true });
    expectSoundLog(lab);
  });

  it.each(["finish", "throw", "nothing"] as const)("wins over an adapter that ends with %s at the same time", async (how) => {
    const model = partsModel(async function* (context) {
      yield { type: "text", text: "Once" } as const;
      await new Promise<void>((resolve) => context.signal.addEventListener("abort", () => resolve()));
      if (how === "throw") throw new Error("connection lost");
      if (how === "finish") yield finish();
    });
    const lab = new Lab({ agent: agentOf(), model });
    const ended = lab.attempt();
    await lab.clock.pass(0);
    lab.cancel();
    expect(await ended).toMatchObject({ status: "cancelled", content: "Once" });
    expectSoundLog(lab);
  });
});

describe("what is known of a reply", () => {
  it("time to the first part is counted also where the reply begins with a call", async () => {
    const lab = new Lab({
      agent: agentOf({ tools: [ping] }),
      model: partsModel(
        async function* () {
          await lab.clock.sleep(120);
          yield { type: "tool-call", id: "c", name: "ping", argumentsText: "{}" } as const;
          yield finish("tool_calls");
        },
        [{ type: "text", text: "Done." }, finish()],
      ),
    });
    const ended = lab.run();
    await lab.clock.pass(120);
    await ended;
    expect(lab.eventsOf("model.completed").map((event) => event.timeToFirstTokenMs)).toEqual([120, 0]);
    expect((lab.ownMessages[1] as AssistantMessage).timeToFirstTokenMs).toBe(120);
  });

  it("usage and the provider's own items are stored with the message", async () => {
    const lab = new Lab({ agent: agentOf(), model: scripted([reply(usage({ inputTokens: 7, outputTokens: 3 }), say("Yes."), end("stop", { responseId: "r1" }))]) });
    await lab.run();
    expect(lastReply(lab)).toMatchObject({ provider: "scripted", model: "script", usage: { inputTokens: 7, outputTokens: 3 }, providerData: { responseId: "r1" } });
    expect(lab.eventsOf("model.completed")[0]).toMatchObject({ usage: { inputTokens: 7, outputTokens: 3 } });
  });

  it("S128 a turn is told in order: started, tool started, tool completed, content, completed", async () => {
    const lab = new Lab({ agent: agentOf({ tools: [ping] }), model: scripted([reply(call("ping", { host: "x" }, { id: "c1" })), reply("It is up.")]) });
    await lab.run();
    expect(lab.told.map((event) => event.type).filter((type) => !type.startsWith("model."))).toEqual([
      "run.started",
      "tool-call.started",
      "tool-call.completed",
      ...lab.eventsOf("text.delta").map(() => "text.delta"),
      "text.completed",
      "run.completed",
    ]);
    expect(lab.effect("c1")).toMatchObject({ toolName: "ping", arguments: { host: "x" }, status: "done", result: "pong", step: 0, position: 0 });
    expectSoundLog(lab);
  });
});
