import { z } from "zod";

/** What kind of answer a paused call waits for. */
export const REQUIREMENT_KINDS = ["confirmation", "user_input", "user_feedback", "external_execution", "unknown_outcome"] as const;
export type RequirementKind = (typeof REQUIREMENT_KINDS)[number];

/** A field that a person fills in. `type` is AgentOS's word for it: `str`, `int`, `float`, `bool`, `list`, `dict`. */
export const InputField = z.object({
  name: z.string(),
  type: z.enum(["str", "int", "float", "bool", "list", "dict"]),
  description: z.string().optional(),
  /** What the model wrote already; a person may leave it. */
  value: z.unknown().optional(),
});
export type InputField = z.infer<typeof InputField>;

/** A question with choices. */
export const FeedbackQuestion = z.object({
  question: z.string(),
  header: z.string().optional(),
  multiSelect: z.boolean(),
  options: z.array(z.object({ label: z.string(), description: z.string().optional() })),
});
export type FeedbackQuestion = z.infer<typeof FeedbackQuestion>;

/** The answer to a requirement, in the words of its kind. */
export const Resolution = z.discriminatedUnion("kind", [
  /** `arguments` replaces what the model wrote: the person approved something else. */
  z.object({ kind: z.literal("confirmation"), confirmed: z.boolean(), note: z.string().optional(), arguments: z.record(z.string(), z.unknown()).optional() }),
  z.object({ kind: z.literal("user_input"), values: z.record(z.string(), z.unknown()) }),
  z.object({ kind: z.literal("user_feedback"), selections: z.array(z.array(z.string())) }),
  z.object({ kind: z.literal("external_execution"), result: z.string() }),
  /** It happened, with this result; it did not, run it; or leave it. */
  z.object({ kind: z.literal("unknown_outcome"), decision: z.enum(["happened", "run", "skip"]), result: z.string().optional() }),
  /** Rejected by whoever decides on the approval, whatever the kind. */
  z.object({ kind: z.literal("rejected"), note: z.string().optional() }),
]);
export type Resolution = z.infer<typeof Resolution>;

/** One thing a paused run waits for. It belongs to one call of one pause and to no other. */
export const Requirement = z.object({
  id: z.string(),
  kind: z.enum(REQUIREMENT_KINDS),
  createdAt: z.number(),
  /** Fields for `user_input`. */
  fields: z.array(InputField).optional(),
  /** The model asked for the fields itself: their values are the call's result, and no tool's arguments. */
  isAsked: z.literal(true).optional(),
  /** Questions for `user_feedback`. */
  questions: z.array(FeedbackQuestion).optional(),
  /** How the tool's calls are approved; absent where nobody but the client has a say. */
  approvalType: z.enum(["required", "audit"]).optional(),
  approvalId: z.string().optional(),
  /** Hash of the arguments that were shown: a decision on anything else is no decision. */
  shownHash: z.string().optional(),
  /** Hash of the tool's input schema when it was shown. */
  schemaHash: z.string().optional(),
  /** The call's result is not shown to people when it comes from outside. */
  silent: z.boolean().optional(),
  resolution: Resolution.optional(),
  resolvedBy: z.string().optional(),
  resolvedAt: z.number().optional(),
});
export type Requirement = z.infer<typeof Requirement>;

export const isOpen = (requirement: Requirement): boolean => requirement.resolution === undefined;

/** What one answer lacks or has wrong, in words that name it; empty when it can be taken. */
export function problemsOf(requirement: Requirement, resolution: Resolution): string[] {
  if (resolution.kind === "rejected") return [];
  if (resolution.kind !== requirement.kind) return [`expects an answer of kind ${requirement.kind}, not ${resolution.kind}`];
  switch (resolution.kind) {
    case "user_input":
      return (requirement.fields ?? []).flatMap((field) => problemOfField(field, resolution.values) ?? []);
    case "user_feedback":
      return (requirement.questions ?? []).flatMap((question, index) => problemOfQuestion(question, resolution.selections[index]) ?? []);
    case "unknown_outcome":
      return resolution.decision === "happened" && resolution.result === undefined ? ["needs the result of the call that happened"] : [];
    default:
      return [];
  }
}

/** `false`, `0` and `""` are answers; only nothing is none. */
function problemOfField(field: InputField, values: Record<string, unknown>): string | undefined {
  const value = Object.hasOwn(values, field.name) ? values[field.name] : field.value;
  if (value === undefined || value === null) return `needs a value for "${field.name}"`;
  return FIELD_TYPES[field.type](value) ? undefined : `needs a value of type ${field.type} for "${field.name}"`;
}

const FIELD_TYPES: Record<InputField["type"], (value: unknown) => boolean> = {
  str: (value) => typeof value === "string",
  int: (value) => Number.isInteger(value),
  float: (value) => Number.isFinite(value),
  bool: (value) => typeof value === "boolean",
  list: (value) => Array.isArray(value),
  dict: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
};

function problemOfQuestion(question: FeedbackQuestion, selected: readonly string[] | undefined): string | undefined {
  if (selected === undefined || selected.length === 0) return `needs an answer to "${question.question}"`;
  if (!question.multiSelect && selected.length > 1) return `takes one answer to "${question.question}"`;
  const labels = question.options.map((option) => option.label);
  const unknown = labels.length === 0 ? undefined : selected.find((label) => !labels.includes(label));
  return unknown === undefined ? undefined : `has no option "${unknown}" for "${question.question}"`;
}
