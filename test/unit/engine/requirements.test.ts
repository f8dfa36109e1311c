import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { AgentOptions } from "../../../src/define/agent.ts";
import { askUser, getUserInput } from "../../../src/define/ask-person.ts";
import { defineTool, type ToolOptions } from "../../../src/define/tool.ts";
import { hashOf } from "../../../src/lib/hash.ts";
import { call, type Cue, reply, say, scripted } from "../../../src/models/scripted.ts";
import { agentOf, expectSoundLog, expectSoundPause, Lab, requestProblems } from "./harness.ts";

/** A tool that writes down what it was called with. */
function recording<Schema extends z.ZodType>(name: string, input: Schema, options: Partial<ToolOptions<Schema>> = {}) {
  const made: unknown[] = [];
  const tool = defineTool<Schema>({ name, description: "", input, execute: (args) => (made.push(args), `${name} ${made.length}`), ...options });
  return { tool, made };
}

const sending = (options: Partial<ToolOptions<z.ZodObject<{ to: z.ZodString; body: z.ZodString }>>> = {}) =>
  recording("send", z.object({ to: z.string(), body: z.string() }), { requiresConfirmation: true, ...options });
const MAIL = { to: "ada", body: "hi" };

/** A run whose first reply makes these calls, and whose next one is its last. */
function labOf(cues: readonly Cue[], tools: readonly unknown[], options: Partial<AgentOptions> = {}) {
  const model = scripted([reply(...cues), reply("Done.")]);
  return { model, lab: new Lab({ agent: agentOf({ tools: tools as never, ...options }), model }) };
}

describe("a call that must wait", () => {
  it("S102 S154 pauses the run before anything happens: the log names it with its arguments, and the model is not asked again", async () => {
    const { tool, made } = sending();
    const { lab, model } = labOf([say("I'll send it. "), call("send", MAIL, { id: "c1" })], [tool]);
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["c1"] });
    expect(made).toEqual([]);
    expect(model.requests).toHaveLength(1);
    expect(lab.eventsOf("run.paused")).toMatchObject([{ content: "I'll send it. ", calls: [{ callId: "c1", toolName: "send", arguments: MAIL, status: "planned", requirement: { kind: "confirmation" } }] }]);
    expect(lab.effect("c1")).toMatchObject({ status: "planned", requirement: { kind: "confirmation", shownHash: await hashOf(MAIL), schemaHash: await hashOf(tool.parameters) } });
    expectSoundPause(lab);
  });

  it("S278 a tool without a gate never does", async () => {
    const { tool, made } = recording("read", z.object({}), { effect: "none" });
    const { lab } = labOf([call("read", {}, { id: "c1" })], [tool]);
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect(made).toHaveLength(1);
  });

  it("S313 runs once it was confirmed, with what was shown, and the model reads its result", async () => {
    const { tool, made } = sending();
    const { lab, model } = labOf([call("send", MAIL, { id: "c1" })], [tool]);
    await lab.run();
    lab.answer("c1", { kind: "confirmation", confirmed: true });
    expect(await lab.run()).toMatchObject({ status: "completed", content: "Done." });
    expect(made).toEqual([MAIL]);
    expect(model.requests[1]?.messages.map((message) => message.content)).toEqual(["Do it.", "", "send 1"]);
    expect(lab.eventsOf("run.continued")).toHaveLength(1);
    expectSoundLog(lab);
  });

  it("S317 S318 does not run when it was rejected, and the model is told so, with the note", async () => {
    const { tool, made } = sending();
    const { lab, model } = labOf([call("send", MAIL, { id: "c1" })], [tool]);
    await lab.run();
    lab.answer("c1", { kind: "confirmation", confirmed: false, note: "Not to Ada." });
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect(made).toEqual([]);
    expect(lab.effect("c1").status).toBe("rejected");
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({ role: "tool", isError: true, content: "The call was rejected, so it was not executed. Not to Ada." });
    expect(lab.eventsOf("tool-call.started")).toEqual([]);
  });

  it("rejected by whoever decides on the approval does not run either, whatever it waited for", async () => {
    const { tool, made } = recording("book", z.object({ day: z.string() }), { requiresUserInput: true });
    const { lab, model } = labOf([call("book", {}, { id: "c1" })], [tool]);
    await lab.run();
    lab.answer("c1", { kind: "rejected", note: "Fully booked." });
    await lab.run();
    expect(made).toEqual([]);
    expect(model.requests[1]?.messages.at(-1)?.content).toBe("The call was rejected, so it was not executed. Fully booked.");
  });

  it("runs with the arguments that a person put in place of the model's, and the model reads those as its own", async () => {
    const { tool, made } = sending();
    const { lab, model } = labOf([call("send", MAIL, { id: "c1" })], [tool]);
    await lab.run();
    const edited = { to: "grace", body: "hi" };
    lab.answer("c1", { kind: "confirmation", confirmed: true, arguments: edited });
    await lab.run();
    expect(made).toEqual([edited]);
    expect(lab.effect("c1")).toMatchObject({ status: "done", arguments: edited, edited, argumentsHash: await hashOf(edited) });
    expect(model.requests[1]?.messages[1]).toMatchObject({ role: "assistant", toolCalls: [{ id: "c1", arguments: edited }] });
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
    // What the model wrote stays what it wrote.
    expect(lab.ownMessages[1]).toMatchObject({ toolCalls: [{ arguments: MAIL }] });
  });

  it("keeps those arguments when its outcome is lost and it is made again", async () => {
    const { tool, made } = sending();
    const { lab } = labOf([call("send", MAIL, { id: "c1" })], [tool]);
    await lab.run();
    const edited = { to: "grace", body: "hi" };
    lab.answer("c1", { kind: "confirmation", confirmed: true, arguments: edited });
    // Continue, start of the call, and the crash before its result is stored.
    expect(await lab.attempt({ commit: lab.commits.length + 3, when: "before" })).toEqual({ status: "crashed" });
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["c1"] });
    expect(lab.effect("c1").requirement).toMatchObject({ kind: "unknown_outcome", shownHash: await hashOf(edited) });
    lab.answer("c1", { kind: "unknown_outcome", decision: "run" });
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect(made).toEqual([edited, edited]);
    expect(lab.effect("c1")).toMatchObject({ arguments: edited, edited });
  });

  it("C062 is not asked about when it could not run anyway: the model is told why", async () => {
    const { tool, made } = sending();
    const cues = [call("send", "{broken", { id: "c1" }), call("send", { to: 7, body: "x" }, { id: "c2" }), call("nobody", {}, { id: "c3" })];
    const { lab, model } = labOf(cues, [tool]);
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect(made).toEqual([]);
    expect(lab.effects.map(({ status }) => status)).toEqual(["failed", "failed", "failed"]);
    expect(model.requests).toHaveLength(2);
  });

  it("counts in the limit of tool calls, which is not asked about", async () => {
    const { tool } = sending();
    const { lab } = labOf([call("send", MAIL, { id: "c1" }), call("send", MAIL, { id: "c2" })], [tool], { toolCallLimit: 1 });
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["c1"] });
    expect(lab.effect("c2")).toMatchObject({ status: "failed", result: expect.stringContaining("limit of 1 tool calls") });
  });

  it("waits for a decision that was made about it and no other, also where its gate is gone since", async () => {
    const { tool, made } = sending();
    const { lab } = labOf([call("send", MAIL, { id: "c1" })], [tool]);
    await lab.run();
    const open = recording("send", z.object({ to: z.string(), body: z.string() }));
    Object.assign(lab, { agent: agentOf({ tools: [open.tool as never] }) });
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["c1"] });
    lab.answer("c1", { kind: "confirmation", confirmed: false });
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect([made, open.made]).toEqual([[], []]);
  });
});

describe("siblings of a call that waits", () => {
  it("C032 run at once where they need nobody; nothing after the batch does", async () => {
    for (const order of ["waiting first", "waiting last"]) {
      const { tool, made } = sending();
      const charge = recording("charge", z.object({ amount: z.number() }));
      const cues = [call("send", MAIL, { id: "c1" }), call("charge", { amount: 9 }, { id: "c2" })];
      const { lab, model } = labOf(order === "waiting first" ? cues : cues.reverse(), [tool, charge.tool]);
      expect(await lab.run()).toEqual({ status: "paused", waiting: ["c1"] });
      expect([made, charge.made]).toEqual([[], [{ amount: 9 }]]);
      expect(model.requests).toHaveLength(1);
      lab.answer("c1", { kind: "confirmation", confirmed: true });
      expect(await lab.run()).toMatchObject({ status: "completed" });
      expect([made, charge.made]).toEqual([[MAIL], [{ amount: 9 }]]);
      expect(model.requests.flatMap(requestProblems)).toEqual([]);
      // One result a call, in the order of the calls.
      expect(model.requests[1]?.messages.slice(2).map((message) => message.role === "tool" && message.toolCallId)).toEqual(order === "waiting first" ? ["c1", "c2"] : ["c2", "c1"]);
    }
  });

  it("of every kind wait together, and each gets its own answer", async () => {
    const mail = sending();
    const book = recording("book", z.object({ day: z.string(), seats: z.number().int() }), { requiresUserInput: ["day"] });
    const outside = recording("look_up", z.object({ q: z.string() }), { externalExecution: true });
    const cues = [
      call("send", MAIL, { id: "c1" }),
      call("book", { seats: 2 }, { id: "c2" }),
      call("look_up", { q: "x" }, { id: "c3" }),
      call("get_user_input", { fields: [{ name: "qty", type: "int" }] }, { id: "c4" }),
      call("ask_user", { questions: [{ question: "Which?", options: [{ label: "A" }, { label: "B" }] }] }, { id: "c5" }),
    ];
    const { lab, model } = labOf(cues, [mail.tool, book.tool, outside.tool, getUserInput, askUser]);
    expect(await lab.run()).toMatchObject({ status: "paused" });
    expect(lab.open).toEqual({ c1: "confirmation", c2: "user_input", c3: "external_execution", c4: "user_input", c5: "user_feedback" });
    expect(lab.effect("c2").requirement?.fields).toEqual([{ name: "day", type: "str" }]);
    expect(lab.effect("c4").requirement).toMatchObject({ isAsked: true, fields: [{ name: "qty", type: "int" }] });
    expect(lab.effect("c5").requirement?.questions).toEqual([{ question: "Which?", multiSelect: false, options: [{ label: "A" }, { label: "B" }] }]);

    lab.answer("c1", { kind: "confirmation", confirmed: true });
    lab.answer("c2", { kind: "user_input", values: { day: "Monday" } });
    lab.answer("c3", { kind: "external_execution", result: "found" });
    lab.answer("c4", { kind: "user_input", values: { qty: 0 } });
    lab.answer("c5", { kind: "user_feedback", selections: [["B"]] });
    expect(await lab.run()).toMatchObject({ status: "completed" });
    expect([mail.made, book.made, outside.made]).toEqual([[MAIL], [{ seats: 2, day: "Monday" }], []]);
    expect(model.requests[1]?.messages.slice(2).map((message) => message.content)).toEqual(["send 1", "book 1", "found", '{"qty":0}', '[{"question":"Which?","answers":["B"]}]']);
    // What a person filled in, the model reads as what it called.
    expect(model.requests[1]?.messages[1]).toMatchObject({ toolCalls: [{}, { arguments: { seats: 2, day: "Monday" } }, {}, {}, {}] });
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
    expectSoundLog(lab);
  });
});

describe("arguments that a person fills in", () => {
  const booking = () => recording("book", z.object({ day: z.string(), seats: z.number().int().min(1) }), { requiresUserInput: ["day"] });

  it("show what the model wrote already", async () => {
    const { tool } = booking();
    const { lab } = labOf([call("book", { seats: 2, day: "Monday" }, { id: "c1" })], [tool]);
    await lab.run();
    expect(lab.effect("c1").requirement?.fields).toEqual([{ name: "day", type: "str", value: "Monday" }]);
  });

  it("are waited for; what else does not fit is the model's own, and it is told so at once", async () => {
    const { tool } = booking();
    const { lab } = labOf([call("book", { seats: 0 }, { id: "c1" }), call("book", {}, { id: "c2" }), call("book", { seats: 1, day: 5 }, { id: "c3" })], [tool]);
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["c3"] });
    expect(lab.effect("c1")).toMatchObject({ status: "failed", result: expect.stringMatching(/seats/) });
    expect(lab.effect("c2")).toMatchObject({ status: "failed", result: expect.stringMatching(/seats/) });
  });
});

describe("a run that pauses again and again", () => {
  it("C034 has one open call each time, and keeps each call and each result once", async () => {
    const mail = sending();
    let pings = 0;
    const ping = defineTool({ name: "ping", description: "", effect: "none", execute: () => ((pings += 1), "pong") });
    const model = scripted([
      reply(call("send", MAIL, { id: "same" })),
      reply(call("ping", {}, { id: "same" })),
      reply(call("send", { to: "bob", body: "no" }, { id: "same" })),
      reply(call("get_user_input", { fields: [{ name: "why", type: "str" }] }, { id: "same" })),
      reply("bye"),
    ]);
    const lab = new Lab({ agent: agentOf({ tools: [mail.tool as never, ping as never, getUserInput as never] }), model });
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["same"] });
    lab.answer("same", { kind: "confirmation", confirmed: true });
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["same_3"] });
    expect(lab.open).toEqual({ same_3: "confirmation" });
    lab.answer("same_3", { kind: "confirmation", confirmed: false, note: "Leave Bob alone." });
    expect(await lab.run()).toEqual({ status: "paused", waiting: ["same_4"] });
    lab.answer("same_4", { kind: "user_input", values: { why: "" } });
    expect(await lab.run()).toMatchObject({ status: "completed", content: "bye" });
    expect(mail.made).toEqual([MAIL]);
    expect(pings).toBe(1);
    expect(lab.history.map((message) => message.role)).toEqual(["user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant"]);
    expect(lab.history.filter((message) => message.role === "tool").map(({ content }) => content)).toEqual(["send 1", "pong", "The call was rejected, so it was not executed. Leave Bob alone.", '{"why":""}']);
    expect(model.requests.flatMap(requestProblems)).toEqual([]);
    expectSoundLog(lab);
  });
});

describe("what a run goes on from", () => {
  it("does not count against its own limits, and is not what ends it", async () => {
    let asked = 0;
    const model = scripted(() => {
      asked += 1;
      return asked === 1 ? reply(call("answer", {}, { id: "c1" })) : reply("And more.");
    });
    const answer = defineTool({ name: "answer", description: "", stopAfterCall: true, execute: () => "42" });
    const lab = new Lab({ agent: agentOf({ tools: [answer as never], maxSteps: 1, toolCallLimit: 1 }), model });
    expect(await lab.run()).toMatchObject({ status: "completed", content: "42" });
    // The session makes a branch of it by keeping its rows and adding what is said next.
    const branch = new Lab({ agent: lab.agent, model, from: { messages: [...lab.ownMessages, { id: "next", role: "user", content: "Go on.", createdAt: 1 }], effects: lab.effects } });
    expect(await branch.run()).toMatchObject({ status: "completed", content: "And more." });
    expect(model.requests.at(-1)?.messages.map((message) => message.content)).toEqual(["Do it.", "", "42", "Go on."]);
  });
});
