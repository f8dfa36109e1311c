import { describe, expect, it } from "vitest";
import { checkpointsOf, safeCut } from "../../../src/domain/checkpoint.ts";
import type { Message } from "../../../src/domain/message.ts";

let made = 0;
const id = () => `m${made++}`;

const user = (): Message => ({ role: "user", id: id(), createdAt: 1, content: "?" });
const assistant = (...calls: string[]): Message => ({
  role: "assistant",
  id: id(),
  createdAt: 1,
  content: "",
  toolCalls: calls.map((call) => ({ id: call, name: "t", arguments: {} })),
  provider: "p",
  model: "m",
  finishReason: calls.length === 0 ? "stop" : "tool_calls",
});
const result = (call: string): Message => ({ role: "tool", id: id(), createdAt: 1, toolCallId: call, toolName: "t", content: "!", isError: false });

/** Two calls side by side, then one, then the answer. */
const RUN: Message[] = [user(), assistant("a", "b"), result("a"), result("b"), assistant("c"), result("c"), assistant()];

/** Every reply that asked for calls stands with all their results, and no result stands alone. */
function isPaired(messages: readonly Message[]): boolean {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      if (open.shift() !== message.toolCallId) return false;
    } else if (open.length > 0) return false;
    else if (message.role === "assistant") open = message.toolCalls.map((call) => call.id);
  }
  return open.length === 0;
}

/** The same on every run of the suite. */
function dice(seed: number): (sides: number) => number {
  let state = seed;
  return (sides) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

function aRun(roll: (sides: number) => number): Message[] {
  const messages = [user()];
  for (let step = 0, steps = roll(5); step < steps; step++) {
    const calls = Array.from({ length: roll(4) }, (_, position) => `c${step}-${position}`);
    messages.push(assistant(...calls), ...calls.map(result));
    if (roll(4) === 0) messages.push(user());
  }
  if (roll(2) === 0) messages.push(assistant());
  return messages;
}

describe("checkpoints", () => {
  it("S352 stand behind each tool result, also inside a parallel batch, and at the end", () => {
    expect(checkpointsOf(RUN).map(({ messageIndex, isEnd }) => [messageIndex, isEnd])).toEqual([[3, false], [4, false], [6, false], [7, true]]);
    expect(checkpointsOf(RUN.slice(0, 4)).map(({ messageIndex }) => messageIndex)).toEqual([3, 4]);
    expect(checkpointsOf([])).toEqual([{ messageIndex: 0, isEnd: true, message: undefined }]);
  });

  it("name the message that they stand behind", () => {
    expect(checkpointsOf(RUN).map(({ message }) => message)).toEqual([RUN[2], RUN[3], RUN[5], RUN[6]]);
  });
});

describe("a cut", () => {
  it("C042 never parts a reply from its calls' results", () => {
    expect(Array.from({ length: RUN.length + 1 }, (_, index) => safeCut(RUN, index))).toEqual([0, 1, 1, 4, 4, 4, 6, 7]);
  });

  it("C042 S352 of any run at any index keeps pairs whole, keeps what is there already, and stays near", () => {
    const roll = dice(20_261_130);
    for (let round = 0; round < 2_000; round++) {
      const messages = aRun(roll);
      expect(isPaired(messages)).toBe(true);
      for (let index = 0; index <= messages.length; index++) {
        const cut = safeCut(messages, index);
        expect(isPaired(messages.slice(0, cut)), `${messages.map(({ role }) => role)} at ${index}`).toBe(true);
        // A place that is safe is taken as it is, and cutting again changes nothing.
        if (isPaired(messages.slice(0, index))) expect(cut).toBe(index);
        expect(safeCut(messages, cut)).toBe(cut);
        // Nothing between the two is a place to cut.
        for (let between = Math.min(index, cut) + 1; between < Math.max(index, cut); between++) expect(isPaired(messages.slice(0, between))).toBe(false);
      }
      // What is listed keeps the result it stands behind.
      for (const { messageIndex } of checkpointsOf(messages)) expect(safeCut(messages, messageIndex)).toBeGreaterThanOrEqual(messageIndex);
    }
  });
});
