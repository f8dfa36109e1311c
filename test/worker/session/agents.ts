import { call, gate, hang, reply, say, scripted, type ScriptFunction, think, usage } from "../../../src/models/scripted.ts";
import { defineAgent } from "../../../src/define/agent.ts";
import { defineTool } from "../../../src/define/tool.ts";
import { z } from "zod";

/** How often each tool ran in this isolate, by the key it was given: what the ledger promises is checked against it. */
export const toolRuns = new Map<string, string[]>();

const ran = (name: string, key: string) => toolRuns.set(name, [...(toolRuns.get(name) ?? []), key]);

const ping = defineTool({
  name: "ping",
  description: "Answers pong.",
  effect: "none",
  execute: (_input, context) => {
    ran("ping", context.idempotencyKey);
    return "pong";
  },
});

const charge = defineTool({
  name: "charge",
  description: "Charges an amount.",
  input: z.object({ amount: z.number() }),
  execute: ({ amount }, context) => {
    ran("charge", context.idempotencyKey);
    return { charged: amount };
  },
});

/** Runs until its signal aborts. */
const waitForEver = defineTool({
  name: "wait_for_ever",
  description: "Never answers.",
  execute: (_input, context) => {
    ran("wait_for_ever", context.idempotencyKey);
    return new Promise((_resolve, reject) => context.signal.addEventListener("abort", () => reject(new Error("aborted"))));
  },
});

const remember = defineTool({
  name: "remember",
  description: "Keeps a value in the session's state.",
  input: z.object({ key: z.string(), value: z.string() }),
  effect: "idempotent",
  execute: ({ key, value }, context) => {
    context.session.state[key] = value;
    return "kept";
  },
});

/**
 * The script is the user's message: words that begin with a slash are cues, the rest is said. `/gate:name` waits for
 * `releaseGate(name)`; `/call:tool:{json}` asks for a call, after which the answer quotes the results, and waits at `/then:name` before it does.
 */
const fromWords: ScriptFunction = (_request, { step, input, results }) => {
  const cues = input.split(" ").map((word) => {
    if (word.startsWith("/gate:")) return gate(word.slice("/gate:".length));
    if (word.startsWith("/then:")) return step === 0 ? say("") : gate(word.slice("/then:".length));
    if (word === "/hang") return hang();
    if (word.startsWith("/think:")) return think(word.slice("/think:".length));
    if (word.startsWith("/call:")) {
      const [, name = "", ...rest] = word.split(":");
      return step === 0 ? call(name, rest.length === 0 ? {} : rest.join(":")) : say("");
    }
    return say(`${word} `);
  });
  if (step > 0) return reply(...cues.filter((cue) => cue.cue === "gate"), `results: ${results.map((result) => result.content).join(", ")}`, usage({ inputTokens: 20, outputTokens: 5 }));
  return reply(...cues, usage({ inputTokens: 10, outputTokens: 4, cacheReadTokens: 3 }));
};

export const wordsModel = scripted(fromWords, { id: "words" });

export const words = defineAgent({
  id: "words",
  name: "Words",
  model: wordsModel,
  instructions: "Say what the user says.",
  tools: [ping, charge, waitForEver, remember],
  addHistoryToContext: true,
  numHistoryRuns: 1000,
});

export const forgetful = defineAgent({ id: "forgetful", model: wordsModel, tools: [ping] });

/** Keeps with each run what it was shown of earlier ones. */
export const hoarder = defineAgent({ id: "hoarder", model: wordsModel, addHistoryToContext: true, numHistoryRuns: 1000, storeHistoryMessages: true });

export const sessionAgents = [words, forgetful, hoarder];
