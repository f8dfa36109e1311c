import { describe, expect, it } from "vitest";
import type { AssistantMessage } from "../../../src/domain/message.ts";
import { isRetryable, retryDelay, toRunError } from "../../../src/engine/retry.ts";
import type { ModelErrorKind, ModelPart } from "../../../src/models/model.ts";
import { agentOf, expectSoundLog, finish, Lab, partsModel, settle, shownText } from "./harness.ts";

const USAGE = { inputTokens: 10, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
const failure = (kind: ModelErrorKind, more: object = {}): ModelPart => ({ type: "error", error: { kind, message: `It is ${kind}.`, ...more } });
const text = (words: string): ModelPart => ({ type: "text", text: words });

/** Runs a turn to its end, letting time go on whenever it waits; says how long each wait was. */
async function runThroughWaits(lab: Lab) {
  const waits: number[] = [];
  let over = false;
  const ended = lab.attempt().finally(() => (over = true));
  for (await settle(); !over; await settle()) {
    const ms = lab.clock.nextMs;
    if (ms === undefined) break;
    waits.push(ms);
    await lab.clock.pass(ms);
  }
  return { end: await ended, waits };
}

describe("a model that fails", () => {
  it.each([
    ["before any output", []],
    ["after the message has begun", [text("")]],
    ["after a part of the answer", [text("The three"), text(" causes are")]],
  ])("C052 C053 %s is asked again, and what it had said does not count", async (_when, said) => {
    const model = partsModel([...said, failure("overloaded")], [...said, failure("overloaded")], [text("All of it."), finish()]);
    const lab = new Lab({ agent: agentOf({ retries: 2, delayBetweenRetries: 100 }), model });
    const { end, waits } = await runThroughWaits(lab);
    expect(end).toEqual({ status: "completed", content: "All of it.", finishReason: "stop" });
    expect(model.requests).toHaveLength(3);
    expect(waits).toEqual([100, 100]);
    expect(shownText(lab.told)).toBe("All of it.");
    expect(lab.eventsOf("run.retried").map(({ attempt, maxAttempts, reason, error, delayMs }) => ({ attempt, maxAttempts, reason, error, delayMs }))).toEqual([
      { attempt: 2, maxAttempts: 3, reason: "model_error", error: "It is overloaded.", delayMs: 100 },
      { attempt: 3, maxAttempts: 3, reason: "model_error", error: "It is overloaded.", delayMs: 100 },
    ]);
    expectSoundLog(lab);
  });

  it("C053 the discarded range is exactly what the failed request told", async () => {
    const model = partsModel([{ type: "reasoning", text: "hm" }, text("The three causes"), failure("overloaded")], [text("All of it."), finish()]);
    const lab = new Lab({ agent: agentOf({ retries: 1 }), model });
    await runThroughWaits(lab);
    const retried = lab.eventsOf("run.retried")[0]!;
    const discarded = lab.told.filter(({ index }) => index >= retried.discarded!.from && index <= retried.discarded!.to).map((event) => event.type);
    expect(discarded).toEqual(["reasoning.started", "reasoning.delta", "reasoning.completed", "text.delta"]);
    expect(retried.discarded!.to).toBe(retried.index - 1);
    // The thoughts of the failed request are gone as well.
    expect((lab.ownMessages.at(-1) as AssistantMessage).reasoning).toBeUndefined();
  });

  it("a request that told nothing discards nothing", async () => {
    const lab = new Lab({ agent: agentOf({ retries: 1 }), model: partsModel([failure("overloaded")], [text("Yes."), finish()]) });
    await runThroughWaits(lab);
    expect(lab.eventsOf("run.retried")[0]).not.toHaveProperty("discarded");
  });

  it("C053 without retries the run fails, and what was said is kept as partial", async () => {
    const lab = new Lab({ agent: agentOf(), model: partsModel([text("The three causes are"), failure("overloaded")]) });
    expect((await runThroughWaits(lab)).end).toEqual({
      status: "failed",
      error: { type: "model_overloaded", message: "It is overloaded.", retryable: true },
      content: "The three causes are",
    });
    expect(lab.ownMessages.at(-1)).toMatchObject({ content: "The three causes are", partial: true, finishReason: "other:interrupted" });
    expectSoundLog(lab);
  });

  it("C053 when the retries are used up, only the last try's words are kept", async () => {
    const lab = new Lab({ agent: agentOf({ retries: 1 }), model: partsModel([text("First."), failure("stalled")], [text("Second."), failure("stalled")]) });
    const { end } = await runThroughWaits(lab);
    expect(end).toMatchObject({ status: "failed", content: "Second." });
    expect(shownText(lab.told)).toBe("Second.");
    expect(lab.ownMessages).toHaveLength(2);
  });

  it("calls of a failed request are gone: none of them was whole for certain", async () => {
    const lab = new Lab({ agent: agentOf(), model: partsModel([text("I'll look."), { type: "tool-call", id: "c", name: "ping", argumentsText: "{}" }, failure("interrupted")]) });
    await runThroughWaits(lab);
    expect(lab.effects).toEqual([]);
    expect((lab.ownMessages.at(-1) as AssistantMessage).toolCalls).toEqual([]);
  });

  it.each(["authentication", "billing", "invalid_request", "context_overflow", "not_found", "protocol", "misconfigured"] as const)("C052 C060 %s is not asked again", async (kind) => {
    const model = partsModel([failure(kind)], [text("Yes."), finish()]);
    const lab = new Lab({ agent: agentOf({ retries: 5 }), model });
    const { end, waits } = await runThroughWaits(lab);
    expect(end).toMatchObject({ status: "failed", error: { type: `model_${kind}`, retryable: false } });
    expect(model.requests).toHaveLength(1);
    expect(waits).toEqual([]);
  });

  it.each(["overloaded", "rate_limited", "server_error", "connection", "interrupted", "stalled"] as const)("C052 %s is asked again", async (kind) => {
    const lab = new Lab({ agent: agentOf({ retries: 1 }), model: partsModel([failure(kind)], [text("Yes."), finish()]) });
    expect((await runThroughWaits(lab)).end).toMatchObject({ status: "completed", content: "Yes." });
  });

  it("C052 the wait doubles where the agent says so, and stays below a minute", async () => {
    const lab = new Lab({ agent: agentOf({ retries: 4, delayBetweenRetries: 10_000, exponentialBackoff: true }), model: partsModel(...Array.from({ length: 4 }, () => [failure("overloaded")]), [text("Yes."), finish()]) });
    expect((await runThroughWaits(lab)).waits).toEqual([10_000, 20_000, 40_000, 60_000]);
  });

  it("C052 the provider's own wish for a wait beats the agent's, up to a minute", async () => {
    const model = partsModel([failure("rate_limited", { retryAfterMs: 7_000 })], [failure("rate_limited", { retryAfterMs: 3_600_000 })], [failure("overloaded", { retryAfterMs: 0 })], [text("Yes."), finish()]);
    const lab = new Lab({ agent: agentOf({ retries: 3, delayBetweenRetries: 100 }), model });
    // No wait at all is over before anyone can look at it.
    expect((await runThroughWaits(lab)).waits).toEqual([7_000, 60_000]);
    expect(lab.eventsOf("run.retried").map((event) => event.delayMs)).toEqual([7_000, 60_000, 0]);
  });

  it("a cancel during the wait ends the run without another request", async () => {
    const model = partsModel([text("Half"), failure("overloaded")], [text("Yes."), finish()]);
    const lab = new Lab({ agent: agentOf({ retries: 3 }), model });
    const ended = lab.attempt();
    await lab.clock.pass(500);
    lab.cancel();
    // What the failed request said was taken back with the retry.
    expect(await ended).toEqual({ status: "cancelled", content: "" });
    await lab.clock.pass(10_000);
    expect(model.requests).toHaveLength(1);
    expectSoundLog(lab);
  });

  it("each step has retries of its own", async () => {
    const calls = (id: string): ModelPart[] => [{ type: "tool-call", id, name: "none", argumentsText: "{}" }, finish("tool_calls")];
    const model = partsModel([failure("overloaded")], calls("c1"), [failure("overloaded")], calls("c2"), [failure("overloaded")], [text("Yes."), finish()]);
    expect((await runThroughWaits(new Lab({ agent: agentOf({ retries: 1 }), model }))).end).toMatchObject({ status: "completed", content: "Yes." });
  });

  it("what failed requests cost is counted with the reply that came of them", async () => {
    const paid = (kind: ModelErrorKind): ModelPart => ({ ...(failure(kind) as Extract<ModelPart, { type: "error" }>), usage: USAGE });
    const lab = new Lab({ agent: agentOf({ retries: 2 }), model: partsModel([paid("overloaded")], [failure("overloaded")], [text("Yes."), { type: "finish", reason: "stop", usage: USAGE }]) });
    await runThroughWaits(lab);
    expect((lab.ownMessages.at(-1) as AssistantMessage).usage).toMatchObject({ inputTokens: 20, outputTokens: 2 });
    const failed = new Lab({ agent: agentOf({ retries: 1 }), model: partsModel([paid("overloaded")], [text("Ha"), paid("overloaded")]) });
    await runThroughWaits(failed);
    expect((failed.ownMessages.at(-1) as AssistantMessage).usage).toMatchObject({ inputTokens: 20, outputTokens: 2 });
  });
});

describe("retry", () => {
  it("says what a model's failure is to the run", () => {
    expect(toRunError({ kind: "rate_limited", message: "Slow down." })).toEqual({ type: "model_rate_limited", message: "Slow down.", retryable: true });
    expect(isRetryable({ kind: "aborted", message: "" })).toBe(false);
  });

  it("never waits longer than a minute", () => {
    expect(retryDelay(agentOf({ delayBetweenRetries: 1, exponentialBackoff: true }), { kind: "overloaded", message: "" }, 5_000)).toBe(60_000);
    expect(retryDelay(agentOf(), { kind: "overloaded", message: "" }, 1)).toBe(1_000);
  });
});
