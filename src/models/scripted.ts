import { type Clock, systemClock } from "../lib/clock.ts";
import type { Model, ModelContext, ModelFailure, ModelRequest } from "./model.ts";
import { type Reply, reply } from "./scripted/cues.ts";
import { failed, play } from "./scripted/play.ts";
import { type ScriptedTurn, turnOf } from "./scripted/turn.ts";

export { call, type Cue, cutOff, end, fail, gate, hang, type Pace, refuse, type Reply, reply, say, think, usage, wait } from "./scripted/cues.ts";
export { gateReached, releaseGate, resetGates } from "./scripted/gates.ts";
export type { ScriptedTurn } from "./scripted/turn.ts";
export type { Clock } from "../lib/clock.ts";

/**
 * What a scripted model answers: one reply for each step of a turn, or a function of the request. Either way the reply
 * follows from what the request holds, not from how often the model was asked, so a repeated request is answered alike.
 */
export type Script = readonly (Reply | string)[] | ScriptFunction;
export type ScriptFunction = (request: ModelRequest, turn: ScriptedTurn) => Reply | string;

export interface ScriptedModel extends Model {
  /** The requests it has seen, oldest first; the newest of them, where there were more than it keeps. */
  readonly requests: readonly ModelRequest[];
}

export interface ScriptedOptions {
  /** What the model is called. Default `script`. */
  id?: string;
  /** Time, for tests that hold it. */
  clock?: Clock;
  /** How many requests it keeps for tests to look at. Default 1 000. */
  keepRequests?: number;
}

/**
 * A model that plays a script: without a key, without a network, the same every time.
 *
 * ```ts
 * scripted([
 *   reply("Let me look.", call("lookup_customer", { customer_id: "c-1001" })), // step 0 of every turn
 *   reply("Ada is on the free plan."),                                         // step 1, once the tool has answered
 * ]);
 * scripted((request, { step, input, results }) => (step === 0 ? reply(call("echo", { text: input })) : `It said ${results[0]?.content}.`));
 * ```
 */
export function scripted(script: Script, { id = "script", clock = systemClock, keepRequests = 1000 }: ScriptedOptions = {}): ScriptedModel {
  const requests: ModelRequest[] = [];
  return {
    provider: "scripted",
    id,
    requests,
    async *stream(request, context: ModelContext) {
      // Copied, because the caller's list of messages grows with its turn.
      requests.push({ ...request, messages: [...request.messages] });
      if (requests.length > keepRequests) requests.shift();
      const chosen = choose(script, request, id);
      if ("failure" in chosen) yield failed(chosen.failure);
      else yield* play(chosen.reply, request, context, clock);
    },
  };
}

/**
 * Scripted models by name, for agents that name their model by a string: hand the result to `createAgentOS` as
 * `models: { scripted: scriptedModels({ demo }) }`, and `"scripted:demo"` plays `demo`. A name nobody gave fails the
 * run as `misconfigured` and lists the names there are.
 */
export function scriptedModels(scripts: Readonly<Record<string, Script>>): (name: string) => Model {
  // Served for months, they keep nothing of what they were asked.
  const known = new Map(Object.entries(scripts).map(([name, script]) => [name, scripted(script, { id: name, keepRequests: 0 })]));
  return (name) => known.get(name) ?? missing(name, [...known.keys()]);
}

function missing(name: string, known: readonly string[]): Model {
  const there = known.length === 0 ? "There are none." : `There are: ${known.join(", ")}.`;
  return scripted(() => reply({ cue: "fail", failure: misconfigured(`There is no script named "${name}". ${there}`) }), { id: name, keepRequests: 0 });
}

const misconfigured = (message: string): ModelFailure => ({ kind: "misconfigured", message });

function choose(script: Script, request: ModelRequest, id: string): { reply: Reply } | { failure: ModelFailure } {
  const turn = turnOf(request);
  if (typeof script === "function") {
    try {
      return { reply: asReply(script(request, turn)) };
    } catch (error) {
      // A model does not throw: a script with a fault is a model that is set up wrongly.
      return { failure: misconfigured(`Script "${id}" threw: ${error instanceof Error ? error.message : String(error)}`) };
    }
  }
  const chosen = script[turn.step];
  if (chosen !== undefined) return { reply: asReply(chosen) };
  return { failure: misconfigured(`Script "${id}" has ${script.length} replies for a turn and was asked for number ${turn.step + 1}.`) };
}

const asReply = (written: Reply | string): Reply => (typeof written === "string" ? reply(written) : written);
