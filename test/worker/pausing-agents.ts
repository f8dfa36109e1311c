import { z } from "zod";
import { defineAgent } from "../../src/define/agent.ts";
import { askUser, getUserInput } from "../../src/define/ask-person.ts";
import { defineTool, type ToolOptions } from "../../src/define/tool.ts";
import { call, gate, reply, say, scripted } from "../../src/models/scripted.ts";

/** What each tool was really called with, oldest first: the outside world, as far as these tests have one. */
export const made = new Map<string, unknown[]>();

export const madeBy = (tool: string): unknown[] => made.get(tool) ?? [];

function tool<Schema extends z.ZodType>(name: string, input: Schema, options: Partial<ToolOptions<Schema>> = {}) {
  return defineTool<Schema>({
    name,
    description: `Does ${name}.`,
    input,
    execute: (args) => {
      made.set(name, [...madeBy(name), args]);
      return `${name} receipt ${madeBy(name).length}`;
    },
    ...options,
  });
}

const crm = z.object({ id: z.number(), note: z.string().optional() });

export const pausingTools = [
  tool("look_up", z.object({ name: z.string() }), { effect: "none" }),
  tool("update_crm", crm, { approval: "required" }),
  tool("send_mail", z.object({ to: z.string() }), { requiresConfirmation: true }),
  tool("send_quote", z.object({ amount: z.number() }), { requiresConfirmation: true, approval: "audit" }),
  tool("book", z.object({ room: z.string(), date: z.string().describe("When."), seats: z.number().int() }), { requiresUserInput: ["date", "seats"] }),
  tool("fetch_page", z.object({ url: z.string() }), { externalExecution: true }),
  tool("sign", z.object({ paper: z.string() }), { externalExecution: "silent", approval: "required" }),
  tool("pay", z.object({ amount: z.number() }), { approval: { approvers: 2 } }),
  tool("give_raise", z.object({ amount: z.number() }), { approval: { requesterMayApprove: false } }),
  getUserInput,
  askUser,
] as const;

/**
 * The script is the user's message: steps divided by `>`, each of them calls divided by `&`, or text. A call is the tool's
 * name and its arguments as JSON; `gate name` waits at that gate. After the last step the answer quotes the results.
 */
export const fromSteps = scripted(
  (_request, { step, input, results }) => {
    const written = input.split(" > ")[step];
    if (written === undefined) return `done: ${results.map((result) => result.content).join("; ")}`;
    const cues = written.split(" & ").map((part, position) => {
      const [, name, args] = /^(\w+) (\{.*\})$/.exec(part) ?? [];
      if (name !== undefined && args !== undefined) return call(name, args, { id: `c${step}${position}` });
      return part.startsWith("gate ") ? gate(part.slice("gate ".length)) : say(part);
    });
    return reply(...cues);
  },
  { id: "steps" },
);

export const clerk = defineAgent({ id: "clerk", name: "Clerk", model: fromSteps, tools: pausingTools, addHistoryToContext: true, numHistoryRuns: 100 });

export const pausingAgents = [clerk];
