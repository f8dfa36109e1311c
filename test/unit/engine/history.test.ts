import { describe, expect, it } from "vitest";
import type { AssistantMessage, Message, UserMessage } from "../../../src/domain/message.ts";
import type { RunStatus } from "../../../src/domain/run.ts";
import type { Effect } from "../../../src/domain/tool-call.ts";
import { projectHistory, withToolResults } from "../../../src/engine/history.ts";
import type { PastRun } from "../../../src/engine/ports.ts";
import { prepareContext, prepareRequest } from "../../../src/engine/prepare-request.ts";
import { NO_RESULT } from "../../../src/models/replay.ts";
import { agentOf, HeldClock, pairingProblems, requestProblems, seeded } from "./harness.ts";

const user = (content: string): UserMessage => ({ id: `u:${content}`, createdAt: 1, role: "user", content });
const reply = (content: string, callIds: string[] = [], more: Partial<AssistantMessage> = {}): AssistantMessage => ({
  id: `a:${content}:${callIds.join()}`,
  createdAt: 2,
  role: "assistant",
  content,
  toolCalls: callIds.map((id) => ({ id, name: "ping", arguments: {} })),
  provider: "parts",
  model: "parts-1",
  finishReason: callIds.length > 0 ? "tool_calls" : "stop",
  ...more,
});
const effect = (step: number, position: number, callId: string, more: Partial<Effect> = {}): Effect => ({
  runId: "past",
  step,
  position,
  callId,
  toolName: "ping",
  status: "done",
  arguments: {},
  result: `result of ${callId}`,
  attempt: 1,
  plannedAt: 2,
  settledAt: 3,
  ...more,
});

/** A past run with one batch of three parallel calls between its question and its answer. */
function runOfThreeCalls(name: string, more: Partial<Omit<PastRun, "messages">> = {}): PastRun & { reads: () => number } {
  const ids = [`${name}1`, `${name}2`, `${name}3`];
  let reads = 0;
  return {
    runId: name,
    status: "completed",
    componentId: "a1",
    reads: () => reads,
    messages: () => {
      reads += 1;
      return withToolResults([user(`question ${name}`), reply("", ids), reply(`answer ${name}`)], ids.map((id, position) => effect(0, position, id, { runId: name })));
    },
    ...more,
  };
}

/** What the model is shown for a new question after these runs, newest first. */
async function requestAfter(past: PastRun[], options: Parameters<typeof agentOf>[0], input: object = {}) {
  const agent = agentOf({ addHistoryToContext: true, ...options });
  const turn = {
    runId: "new",
    sessionId: "s",
    agent,
    model: { provider: "parts", id: "parts-1", stream: () => (async function* () {})() },
    input: { message: "newest question", ...input },
    messages: [user("newest question")],
    effects: [],
    sessionState: {},
  };
  const ports = { env: {} as Cloudflare.Env, clock: new HeldClock(), pastRuns: () => past } as unknown as Parameters<typeof prepareContext>[1];
  return prepareRequest(turn, await prepareContext(turn, ports));
}

const texts = (messages: readonly Message[]) => messages.filter((message) => message.role === "user").map((message) => message.content);

const fourRuns = () => ["d", "c", "b", "a"].map((name) => runOfThreeCalls(name));

describe("withToolResults", () => {
  it("puts the results after their reply in the order of the calls, whatever order they were settled in", () => {
    const messages = withToolResults([user("q"), reply("", ["x", "y"]), reply("done")], [effect(0, 1, "y"), effect(0, 0, "x")]);
    expect(messages.map((message) => (message.role === "tool" ? message.toolCallId : message.role))).toEqual(["user", "assistant", "x", "y", "assistant"]);
  });

  it("C001 gives a call without an outcome a result that claims neither success nor failure", () => {
    const messages = withToolResults([user("q"), reply("", ["x", "y"])], [effect(0, 0, "x", { status: "started", result: undefined as unknown as string })]);
    expect(messages.filter((message) => message.role === "tool").map((message) => [message.content, message.isError])).toEqual([
      [NO_RESULT, true],
      [NO_RESULT, true],
    ]);
    expect(pairingProblems(messages)).toEqual([]);
  });

  it("marks as an error what went wrong, and not what a hook answered in the tool's place", () => {
    const statuses = ["done", "skipped", "failed", "unknown", "rejected"] as const;
    const ids = statuses.map((status) => `c-${status}`);
    const messages = withToolResults(
      [user("q"), reply("", ids)],
      statuses.map((status, position) => effect(0, position, ids[position]!, { status })),
    );
    expect(messages.filter((message) => message.role === "tool").map((message) => message.isError)).toEqual([false, false, true, true, true]);
  });

  it("does not mistake calls of different steps for each other that have the same id", () => {
    const messages = withToolResults([user("q"), reply("", ["x"]), reply("", ["x"])], [effect(0, 0, "x", { result: "first" }), effect(1, 0, "x", { result: "second" })]);
    expect(messages.filter((message) => message.role === "tool").map((message) => message.content)).toEqual(["first", "second"]);
  });
});

describe("projectHistory", () => {
  it("S136 shows the finished run before this one", async () => {
    const request = await requestAfter([runOfThreeCalls("a")], {});
    expect(request.messages.map((message) => message.content)).toEqual(["question a", "", "result of a1", "result of a2", "result of a3", "answer a", "newest question"]);
  });

  it("S265 shows the last three runs unless told otherwise, oldest first", async () => {
    expect(texts((await requestAfter(fourRuns(), {})).messages)).toEqual(["question b", "question c", "question d", "newest question"]);
    expect(texts((await requestAfter(fourRuns(), { numHistoryRuns: 1 })).messages)).toEqual(["question d", "newest question"]);
  });

  it("shows nothing when history is off, and the run's own wish beats the agent's", async () => {
    expect(texts((await requestAfter(fourRuns(), { addHistoryToContext: false })).messages)).toEqual(["newest question"]);
    expect(texts((await requestAfter(fourRuns(), {}, { addHistoryToContext: false })).messages)).toEqual(["newest question"]);
    expect(texts((await requestAfter([runOfThreeCalls("a")], { addHistoryToContext: false }, { addHistoryToContext: true })).messages)).toEqual(["question a", "newest question"]);
  });

  it.each([1, 2, 3, 4, 5])("C007 windows of %i runs hold whole runs", async (runs) => {
    const request = await requestAfter(fourRuns(), { numHistoryRuns: runs });
    expect(request.messages).toHaveLength(Math.min(runs, 4) * 6 + 1);
    expect(requestProblems(request)).toEqual([]);
    expect(request.messages.at(-1)?.content).toBe("newest question");
  });

  it.each(Array.from({ length: 14 }, (_, index) => index + 1))("C007 S271 a window of %i messages cuts no batch and does not begin with a result", async (limit) => {
    const request = await requestAfter(fourRuns(), { numHistoryMessages: limit });
    const history = request.messages.slice(0, -1);
    expect(history.length).toBeLessThanOrEqual(limit);
    expect(history[0]?.role).not.toBe("tool");
    expect(request.messages.at(-1)?.content).toBe("newest question");
    expect(requestProblems(request)).toEqual([]);
    for (const name of ["a", "b", "c", "d"]) {
      const batch = history.filter((message) => message.role === "tool" && message.toolCallId.startsWith(name));
      expect([0, 3]).toContain(batch.length);
      const call = history.some((message) => message.role === "assistant" && message.toolCalls[0]?.id === `${name}1`);
      expect(batch.length === 3).toBe(call);
    }
    // No more is dropped than has to be: without the orphaned results in front, the window is full.
    expect(limit - history.length).toBeLessThanOrEqual(3);
  });

  it("C007 no window of any shape breaks any history", async () => {
    const random = seeded(7);
    for (let trial = 0; trial < 300; trial += 1) {
      const past = Array.from({ length: random.below(6) }, (_, index) => randomRun(`r${index}`, random));
      const input = random.pick([{}, { numHistoryMessages: random.below(20) }, { numHistoryRuns: random.below(6) }]);
      const request = await requestAfter(past, { ...(random.below(2) === 0 ? {} : { maxToolCallsFromHistory: random.below(8) }), historySkipStatuses: [] }, input);
      expect(requestProblems(request)).toEqual([]);
      expect(request.messages[0]?.role).not.toBe("tool");
      expect(request.messages.at(-1)?.content).toBe("newest question");
    }
  });

  it.each([0, -1])("a window of %i means nothing, by runs and by messages", async (none) => {
    expect(texts((await requestAfter(fourRuns(), { numHistoryRuns: none })).messages)).toEqual(["newest question"]);
    expect(texts((await requestAfter(fourRuns(), { numHistoryMessages: none })).messages)).toEqual(["newest question"]);
  });

  it("a window by runs wins over one by messages where the same side gives both", async () => {
    expect(texts((await requestAfter(fourRuns(), { numHistoryRuns: 2, numHistoryMessages: 1 })).messages)).toEqual(["question c", "question d", "newest question"]);
  });

  it("the caller's window wins over the agent's, also where it is of the other kind", async () => {
    const byMessages = await requestAfter(fourRuns(), { numHistoryRuns: 3 }, { numHistoryMessages: 1 });
    expect(byMessages.messages.map((message) => message.content)).toEqual(["answer d", "newest question"]);
    expect(texts((await requestAfter(fourRuns(), { numHistoryMessages: 1 }, { numHistoryRuns: 2 })).messages)).toEqual(["question c", "question d", "newest question"]);
  });

  it("reads no more runs than it shows", async () => {
    const runs = fourRuns();
    await requestAfter(runs, { numHistoryRuns: 1 });
    expect(runs.map((run) => run.reads())).toEqual([1, 0, 0, 0]);
  });

  it.each([
    ["S266", "paused"],
    ["S267", "cancelled"],
    ["S268", "failed"],
    ["S269", "regenerated"],
    ["S368", "pending"],
    ["S368", "running"],
  ] as const)("%s a %s run is left out and takes no place in the window", async (_row, status) => {
    const request = await requestAfter([runOfThreeCalls("b", { status }), runOfThreeCalls("a")], { numHistoryRuns: 1 });
    expect(texts(request.messages)).toEqual(["question a", "newest question"]);
  });

  it("S368 an agent's own list of statuses lets runs in, once each and with every call answered", async () => {
    const statuses: RunStatus[] = ["paused", "cancelled", "failed", "regenerated", "completed"];
    const past = statuses.map((status) => ({
      ...runOfThreeCalls(status, { status }),
      // As a pause or a crash leaves them: two calls without an outcome.
      messages: () => withToolResults([user(`question ${status}`), reply("", ["x", "y", "z"])], [effect(0, 0, "x")]),
    }));
    const request = await requestAfter(past, { historySkipStatuses: [], numHistoryRuns: 10 });
    expect(texts(request.messages)).toEqual([...statuses.map((status) => `question ${status}`).toReversed(), "newest question"]);
    expect(requestProblems(request)).toEqual([]);
    expect(texts((await requestAfter(past, { historySkipStatuses: ["completed", "failed"], numHistoryRuns: 10 })).messages)).toEqual(["question regenerated", "question cancelled", "question paused", "newest question"]);
  });

  it("S368 runs that are not over are no history, whatever the agent's list says", async () => {
    const past = [runOfThreeCalls("b", { status: "running" }), runOfThreeCalls("c", { status: "pending" }), runOfThreeCalls("a")];
    expect(texts((await requestAfter(past, { historySkipStatuses: [] })).messages)).toEqual(["question a", "newest question"]);
  });

  it("leaves out child runs and runs of other components", async () => {
    const past = [runOfThreeCalls("c", { parentRunId: "b" }), runOfThreeCalls("b", { componentId: "other" }), runOfThreeCalls("a")];
    expect(texts((await requestAfter(past, {})).messages)).toEqual(["question a", "newest question"]);
  });

  it("S270 shows each earlier message once", async () => {
    const request = await requestAfter(fourRuns(), { numHistoryRuns: 10 });
    expect(new Set(request.messages.map((message) => message.id)).size).toBe(request.messages.length);
  });

  it("leaves system messages out: a request has one of its own", () => {
    const run: PastRun = { ...runOfThreeCalls("a"), messages: () => [{ id: "s", role: "system", content: "old", createdAt: 0 }, user("q"), reply("a")] };
    expect(projectHistory([run], agentOf({ addHistoryToContext: true }), { message: "" }).map((message) => message.role)).toEqual(["user", "assistant"]);
  });

  it("keeps the newest tool calls up to a limit, in whole batches, and older replies' words", async () => {
    const spoken: PastRun = {
      ...runOfThreeCalls("a"),
      messages: () =>
        withToolResults(
          [user("question a"), reply("I will look.", ["a1", "a2", "a3"], { reasoning: [{ text: "hm", signature: "s" }], providerData: { output: [1] } }), reply("answer a")],
          [0, 1, 2].map((position) => effect(0, position, `a${position + 1}`)),
        ),
    };
    const past = [runOfThreeCalls("b"), spoken];
    const shown = async (limit: number) => (await requestAfter(past, { maxToolCallsFromHistory: limit })).messages;
    const calls = (messages: readonly Message[]) => messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls.map((call) => call.id) : []));
    expect(calls(await shown(6))).toEqual(["a1", "a2", "a3", "b1", "b2", "b3"]);
    expect(calls(await shown(5))).toEqual(["b1", "b2", "b3"]);
    expect(calls(await shown(2))).toEqual([]);
    // A reply that had only calls has nothing left to say.
    expect((await shown(2)).map((message) => message.content)).toEqual(["question a", "I will look.", "answer a", "question b", "answer b", "newest question"]);
    expect(calls(await shown(0))).toEqual([]);
    const words = (await shown(3)).find((message) => message.content === "I will look.");
    // Its thoughts led to the calls; without them a provider refuses them.
    expect(words).toMatchObject({ role: "assistant", toolCalls: [] });
    expect(words).not.toHaveProperty("reasoning");
    expect(words).not.toHaveProperty("providerData");
    expect(pairingProblems(await shown(3))).toEqual([]);
  });
});

function randomRun(name: string, random: ReturnType<typeof seeded>): PastRun {
  const messages: (UserMessage | AssistantMessage)[] = [user(`question ${name}`)];
  const effects: Effect[] = [];
  const steps = random.below(4);
  for (let step = 0; step < steps; step += 1) {
    const ids = Array.from({ length: 1 + random.below(3) }, (_, position) => `${name}-${step}-${position}`);
    messages.push(reply(random.pick(["", "Let me see."]), ids));
    ids.forEach((id, position) => random.below(5) > 0 && effects.push(effect(step, position, id, { status: random.pick(["done", "failed", "unknown", "skipped"]) })));
  }
  if (random.below(4) > 0) messages.push(reply(random.pick(["", `answer ${name}`])));
  return { runId: name, status: random.pick(["completed", "failed", "cancelled"]), componentId: "a1", messages: () => withToolResults(messages, effects) };
}
