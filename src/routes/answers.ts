import { z } from "zod";
import { invalid } from "../domain/errors.ts";
import { tryParseJson } from "../lib/json.ts";
import { unstorable } from "../lib/storable-json.ts";
import type { Answer } from "../session/commands.ts";

/** A key of an echoed call. Clients send calls back as they were told them, so `null` says nothing. */
const given = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().transform((value) => value ?? undefined);

const object = z.record(z.string(), z.unknown());

const decision = {
  confirmed: given(z.boolean()),
  confirmation_note: given(z.string()),
  edited_args: given(object),
  user_input_schema: given(z.array(z.object({ name: z.string(), value: z.unknown() }))),
  user_feedback_schema: given(z.array(z.object({ selected_options: given(z.array(z.string())) }))),
  answered: given(z.boolean()),
  result: given(z.string()),
  outcome: given(z.enum(["happened", "run", "skip"])),
};

/** A call as `tools` sends it back: of all its keys those that can hold an answer. */
const AnsweredTool = z.object({ tool_call_id: z.string().min(1), ...decision });

/** The same as `requirements` sends it back: the answer stands on it, or on the call inside. */
const AnsweredRequirement = z
  .object({
    id: given(z.string().min(1)),
    tool_execution: given(AnsweredTool),
    confirmation: given(z.boolean()),
    external_execution_result: given(z.string()),
    ...decision,
  })
  .refine((requirement) => requirement.id !== undefined || requirement.tool_execution !== undefined, { path: ["id"], error: "names no call: give an id or a tool_execution" });

/**
 * What a client says about the calls of a paused run, in either of the two fields.
 * @throws AppError `invalid_request` that names what is wrong.
 */
export function readAnswers(fields: { tools?: unknown; requirements?: unknown }): Answer[] {
  return [...readList("tools", fields.tools, AnsweredTool).map(fromTool), ...readList("requirements", fields.requirements, AnsweredRequirement).map(fromRequirement)];
}

/** A field that holds a JSON array: as text in a form, as it is in a JSON body. */
function readList<Schema extends z.ZodType>(name: string, field: unknown, schema: Schema): z.output<Schema>[] {
  if (field === undefined) return [];
  const value = typeof field === "string" ? tryParseJson(field) : field;
  if (value === undefined) throw invalid(`Invalid JSON in ${name} field`, { field: name });
  if (!Array.isArray(value)) throw invalid(`${name} must be a JSON array`, { field: name });
  const problem = unstorable(value);
  if (problem !== undefined) throw invalid(`${name} must be JSON that can be stored: ${problem}`, { field: name });
  const parsed = z.array(schema).safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = [name, ...(issue?.path ?? [])].join(".");
  throw invalid(`${place}: ${issue?.message ?? "is not valid"}`, { field: place });
}

const fromTool = ({ tool_call_id: callId, ...tool }: z.output<typeof AnsweredTool>): Answer => ({ callId, ...decided(tool) });

/** Where both the requirement and the call inside it hold a value, the call's counts; a yes against a no is neither. */
function fromRequirement(requirement: z.output<typeof AnsweredRequirement>, index: number): Answer {
  const { id, tool_execution: tool, confirmation, external_execution_result: result, ...own } = requirement;
  const words = new Set([confirmation, own.confirmed, tool?.confirmed].filter((word) => word !== undefined));
  if (words.size > 1) throw invalid(`requirements.${index}.confirmation: says both yes and no`, { field: `requirements.${index}.confirmation` });
  const outside = decided({ ...own, confirmed: own.confirmed ?? confirmation, result: result ?? own.result });
  const inside: Answer = tool === undefined ? {} : fromTool(tool);
  const values = outside.values === undefined && inside.values === undefined ? {} : { values: { ...outside.values, ...inside.values } };
  return { ...(id === undefined ? {} : { requirementId: id }), ...outside, ...inside, ...values };
}

/** The keys of an answer that say something. */
function decided(call: Omit<z.output<typeof AnsweredTool>, "tool_call_id">): Answer {
  const { confirmed, confirmation_note: note, edited_args: edited, user_input_schema: fields, user_feedback_schema: questions, answered, result, outcome } = call;
  const values = fields && valuesOf(fields, answered);
  const selections = questions?.some((question) => question.selected_options !== undefined) ? questions.map((question) => question.selected_options ?? []) : undefined;
  const answer: Answer = { confirmed, note, arguments: edited, values, answered, selections, result, outcome };
  return Object.fromEntries(Object.entries(answer).filter(([, value]) => value !== undefined));
}

/** What was filled in. A field without a value is left to what the model wrote; who says that nothing is answered, has answered nothing. */
function valuesOf(fields: readonly { name: string; value?: unknown }[], answered: boolean | undefined): Record<string, unknown> | undefined {
  if (answered === false) return undefined;
  const filled = fields.flatMap(({ name, value }): [string, unknown][] => (value === undefined || value === null ? [] : [[name, value]]));
  return filled.length === 0 && answered !== true ? undefined : Object.fromEntries(filled);
}
