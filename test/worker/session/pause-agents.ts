import { z } from "zod";
import { defineAgent } from "../../../src/define/agent.ts";
import { askUser, getUserInput } from "../../../src/define/ask-person.ts";
import { defineTool, type ToolOptions } from "../../../src/define/tool.ts";
import { call, fail, gate, reply, say, scripted } from "../../../src/models/scripted.ts";

/** What was done to a world that outlives every object: each call that was carried out, under the key it was made with. */
export const world: { key: string; tool: string; args: Record<string, unknown> }[] = [];

/** What a run has done. A branch is another run. */
export const doneBy = (runId: string, tool?: string) => world.filter((made) => made.key.startsWith(`${runId}:`) && (tool === undefined || made.tool === tool));

function act<Schema extends z.ZodType<Record<string, unknown>>>(name: string, input: Schema, options: Partial<ToolOptions<Schema>> = {}) {
  return defineTool<Schema>({
    name,
    description: `Does ${name}.`,
    input,
    execute: (args, { idempotencyKey }) => {
      world.push({ key: idempotencyKey, tool: name, args });
      return `${name} receipt`;
    },
    ...options,
  });
}

const amount = z.object({ amount: z.number() });

/** A schema that takes its time, as one does that asks someone: other commands get in between. */
const slowly = <Schema extends z.ZodType>(schema: Schema) => schema.refine(() => new Promise<boolean>((resolve) => setTimeout(() => resolve(true), 1)));

export const pauseTools = [
  act("ping", z.object({}), { effect: "none" }),
  act("confirm_send", z.object({ to: z.string(), body: z.string().optional() }), { requiresConfirmation: true }),
  act("checked_send", z.object({ to: slowly(z.string()) }), { requiresConfirmation: true }),
  act("checked_crm", z.object({ id: slowly(z.number()) }), { approval: { expiresIn: 3_600 } }),
  act("charge", amount),
  act("update_crm", z.object({ id: z.number(), plan: z.string().optional() }), { approval: "required" }),
  act("note_crm", amount, { requiresConfirmation: true, approval: "audit" }),
  act("book", z.object({ room: z.string(), seats: z.number().int().min(1) }), { requiresUserInput: ["seats"] }),
  act("approved_book", z.object({ seats: z.number().int() }), { requiresUserInput: true, approval: "required" }),
  act("small_book", z.object({ room: z.string(), seats: z.number().int().min(1) }), { requiresUserInput: ["seats"], approval: "required" }),
  act("ext_lookup", z.object({ q: z.string() }), { externalExecution: true }),
  act("soon", amount, { approval: { expiresIn: 3_600 } }),
  act("soon_or_never", amount, { approval: { expiresIn: 3_600, onExpiry: "cancel" } }),
  act("by_two", amount, { approval: { approvers: 2 } }),
  act("by_another", amount, { approval: { requesterMayApprove: false } }),
  act("answer", z.object({}), { stopAfterCall: true }),
  /** The CRM says no: a refusal of the business, and not of a person. */
  act("refused_crm", z.object({ id: z.number() }), {
    approval: "required",
    execute: () => {
      throw new Error("422 the plan is not for sale");
    },
  }),
  /** Does what it does at once, and answers a moment later. */
  act("slow_crm", z.object({ id: z.number() }), {
    approval: { expiresIn: 3_600 },
    execute: async (args, { idempotencyKey }) => {
      world.push({ key: idempotencyKey, tool: "slow_crm", args });
      await new Promise((resolve) => setTimeout(resolve, 3));
      return "slow_crm receipt";
    },
  }),
  /** Does what it does at once, and never answers. */
  act("no_answer", amount, {
    timeoutMs: 50,
    execute: (args, { idempotencyKey }) => {
      world.push({ key: idempotencyKey, tool: "no_answer", args });
      return new Promise(() => {});
    },
  }),
  act("set_state", z.object({ key: z.string(), value: z.string() }), {
    effect: "idempotent",
    requiresConfirmation: true,
    execute: ({ key, value }, { session }) => {
      session.state[key] = value;
      return "kept";
    },
  }),
  getUserInput,
  askUser,
] as const;

/**
 * The script is the user's message: steps divided by ` > `, each of them parts divided by ` & `. A part is a call (the tool's
 * name and its arguments as JSON), `gate name`, `fail kind`, or text. After the last step the answer quotes the results.
 */
export const pauseModel = scripted(
  (_request, { step, input, results }) => {
    const written = input.split(" > ")[step];
    if (written === undefined) return `done: ${results.map((result) => result.content).join("; ")}`;
    return reply(
      ...written.split(" & ").map((part, position) => {
        const [, name, args] = /^(\w+) (\{.*\})$/.exec(part) ?? [];
        if (name !== undefined && args !== undefined) return call(name, args, { id: `c${step}${position}` });
        if (part.startsWith("gate ")) return gate(part.slice("gate ".length));
        return part.startsWith("fail ") ? fail(part.slice("fail ".length) as "overloaded") : say(part);
      }),
    );
  },
  { id: "pauses", keepRequests: 5_000 },
);

export const pauser = defineAgent({ id: "pauser", name: "Pauser", model: pauseModel, tools: pauseTools, addHistoryToContext: true, numHistoryRuns: 1_000 });

/** Asks nobody about a call that may have happened. */
export const rash = defineAgent({ id: "rash", model: pauseModel, tools: pauseTools, onUnknown: "run" });

/** A provider that fails in each turn's second step, as often as the number in the message says. */
const failures = new Map<string, number>();
export const flakyModel = scripted(
  (_request, { step, input, results }) => {
    const [times = "0", id = ""] = input.split(" ");
    if (step === 0) return reply(call("charge", { amount: 7 }, { id: "p1" }));
    const failed = failures.get(id) ?? 0;
    failures.set(id, failed + 1);
    return failed < Number(times) ? reply(say("The three "), fail("overloaded")) : `charged: ${results[0]?.content}`;
  },
  { id: "flaky" },
);
export const flaky = defineAgent({ id: "flaky", model: flakyModel, tools: pauseTools, retries: 2, delayBetweenRetries: 0 });

export const pauseAgents = [pauser, rash, flaky];
