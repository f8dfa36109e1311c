import type { ProbeResult, ToolContext, ToolDefinition } from "../define/tool.ts";
import { type Effect, effectKey, isSettled } from "../domain/tool-call.ts";
import { hashOf } from "../lib/hash.ts";
import { isJsonObject, type Json, type JsonObject, jsonCopy } from "../lib/json.ts";
import { viewOf } from "./call-view.ts";
import type { TurnPorts } from "./ports.ts";
import { misfitText, resultText } from "./tool-words.ts";

/** The call was not made; the message says why and is all that the model is told. */
export class CallRefused extends Error {}

/** A call as its tool sees it: made as often as the tool allows, under one key and with the same arguments each time. */
export class MadeCall {
  readonly tool: ToolDefinition<any>;
  readonly context: ToolContext;
  /** The ledger says that the call may have happened. */
  isStarted: boolean;
  /** It may have happened, and nobody can say. */
  isUnknown = false;
  /** The ledger refused a write: this attempt at the turn is over, whatever the tool says. */
  ledgerFault: unknown;
  /** The tool's own promise, which may outlive the turn. */
  outcome: Promise<unknown> | undefined;
  /** The call's row in the ledger. */
  readonly #effect: Effect;
  readonly #ports: TurnPorts;
  #beginning: Promise<void> | undefined;
  #only: Promise<unknown> | undefined;
  /** The arguments as the schema gave them to the first try; each other try gets its own, since tools may change theirs. */
  #input: { value: unknown } | undefined;

  constructor(tool: ToolDefinition<any>, effect: Effect, context: ToolContext, ports: TurnPorts) {
    this.tool = tool;
    this.context = context;
    this.isStarted = effect.status === "started";
    this.#effect = effect;
    this.#ports = ports;
  }

  /** What a hook's `next` does. Where making the call twice is not known to be harmless, a second `next` has the first one's answer. */
  run(args: Record<string, unknown>): Promise<unknown> {
    return this.tool.effect === "once" ? (this.#only ??= this.#make(args)) : this.#make(args);
  }

  /**
   * What became of a call that was under way when nobody was looking any more. `undefined`: it may be made again.
   * @throws when nobody can say; `isUnknown` is then set.
   */
  async findOut(): Promise<{ result: string } | undefined> {
    if (this.tool.effect !== "once") return undefined;
    const found = await this.#probe();
    if (found.happened === "unknown") throw this.#unknown();
    return found.happened ? { result: resultText(found.result) } : undefined;
  }

  async #make(args: Record<string, unknown>): Promise<unknown> {
    await (this.#beginning ??= this.#begin(args));
    for (let retry = 0; ; retry += 1) {
      // Cancelled meanwhile, or a hook answered without waiting: what the ledger says of the call must stay true.
      if (this.#ports.signal.aborted || isSettled(this.#effect.status)) throw new CallRefused("The call was not made: the run had gone on without it.");
      const input = await this.#takeInput();
      const result = await this.#inTime((context) => (this.outcome = promised(() => this.tool.execute(input, context))));
      if (result !== TIMED_OUT) return result;
      // The time is up, but the call may still happen: that is no failure, it is not knowing.
      const found = await this.findOut();
      if (found !== undefined) return found.result;
      if (retry >= this.tool.retries) throw new Error(`it took longer than ${this.tool.timeoutMs} ms.`);
    }
  }

  /** Checks the arguments, and has the ledger say that from here on the call may have happened. */
  async #begin(args: Record<string, unknown>): Promise<void> {
    const effect = this.#effect;
    // It was begun before, with arguments that stand in the ledger: those run again, whatever hooks make of them now.
    const wanted = effect.argumentsHash !== undefined ? effect.arguments : storable(args);
    const parsed = await this.tool.input.safeParseAsync(jsonCopy(wanted));
    if (!parsed.success) {
      // A schema that took the arguments once and refuses them now can not undo what was begun with them.
      throw this.isStarted ? this.#unknown() : new CallRefused(misfitText(this.tool, parsed.error.issues));
    }
    this.#input = { value: parsed.data };
    if (this.isStarted) return;

    const argumentsHash = await hashOf(wanted);
    if (isSettled(effect.status)) return;
    Object.assign(effect, { status: "started", arguments: wanted, argumentsHash, startedAt: this.#ports.clock.now() });
    try {
      await this.#ports.startCall(effect, { type: "tool-call.started", call: viewOf(effect) });
    } catch (fault) {
      this.ledgerFault = fault;
      throw fault;
    }
    this.isStarted = true;
  }

  async #takeInput(): Promise<unknown> {
    const first = this.#input;
    this.#input = undefined;
    return first === undefined ? this.tool.input.parseAsync(jsonCopy(this.#effect.arguments)) : first.value;
  }

  async #probe(): Promise<ProbeResult> {
    const { probe } = this.tool;
    if (probe === undefined) return { happened: "unknown" };
    try {
      const found = await this.#inTime((context) => promised(() => probe(effectKey(this.#effect), context)));
      if (found !== TIMED_OUT && typeof (found as ProbeResult).happened === "boolean") return found as ProbeResult;
    } catch {
      // A probe that fails has found out nothing, which is what "unknown" says.
    }
    return { happened: "unknown" };
  }

  /** Each piece of work has the tool's whole time and a signal of its own: one that is already aborted helps no second try. */
  async #inTime(work: (context: ToolContext) => Promise<unknown>): Promise<unknown> {
    const time = new AbortController();
    const over = new AbortController();
    const running = work({ ...this.context, signal: AbortSignal.any([this.context.signal, time.signal]) });
    // It may still fail after nobody listens; that is no fault of ours to report.
    running.catch(() => {});
    try {
      const result = await Promise.race([running, this.#ports.clock.sleep(this.tool.timeoutMs, over.signal).then(() => TIMED_OUT)]);
      if (result === TIMED_OUT) time.abort(new DOMException(`The tool "${this.tool.name}" has ${this.tool.timeoutMs} ms, and they are up.`, "TimeoutError"));
      return result;
    } finally {
      over.abort();
    }
  }

  #unknown(): Error {
    this.isUnknown = true;
    return new Error("nobody knows whether the call happened.");
  }
}

const TIMED_OUT = Symbol("timed out");

/** A throw of a function that is not async is a rejection like any other. */
const promised = async (work: () => unknown): Promise<unknown> => work();

/** What runs is what is stored, and nobody changes it afterwards: hooks and tools may keep what they were given. */
function storable(args: unknown): JsonObject {
  let copy: Json | undefined;
  try {
    copy = jsonCopy(args);
  } catch {
    // The sentence below says it.
  }
  if (!isJsonObject(copy)) throw new CallRefused("A tool hook passed on arguments that are not a JSON object, so the tool was not executed.");
  return copy;
}
