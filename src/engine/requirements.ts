import type { ToolDefinition } from "../define/tool.ts";
import { newId } from "../domain/ids.ts";
import { FeedbackQuestion, InputField, type Requirement, type Resolution } from "../domain/requirement.ts";
import type { Effect, ToolCall } from "../domain/tool-call.ts";
import { hashOf } from "../lib/hash.ts";

/** What is to be done with a call, as far as people have a say in it. */
export type Decision =
  /** Nobody has to be asked, or somebody has said yes: run it with these arguments. `isEdited`: they are not the model's. */
  | { kind: "run"; arguments: Record<string, unknown>; isEdited: boolean }
  /** A person has answered in the tool's place. */
  | { kind: "answered"; result: string }
  | { kind: "rejected"; result: string }
  | { kind: "skipped"; result: string };

const REJECTED = "The call was rejected, so it was not executed.";

/** What people have decided about a call. A call that nobody had to be asked about runs as the model wrote it. */
export function decisionOn(call: ToolCall, effect: Effect): Decision {
  const resolution = effect.requirement?.resolution;
  if (resolution === undefined) return asAsked(call, effect);
  switch (resolution.kind) {
    case "rejected":
      return { kind: "rejected", result: withNote(REJECTED, resolution.note) };
    case "confirmation":
      if (!resolution.confirmed) return { kind: "rejected", result: withNote(REJECTED, resolution.note) };
      return resolution.arguments === undefined ? asAsked(call, effect) : { kind: "run", arguments: resolution.arguments, isEdited: true };
    case "user_input":
      if (effect.requirement?.isAsked === true) return { kind: "answered", result: JSON.stringify(resolution.values) };
      return { kind: "run", arguments: { ...call.arguments, ...resolution.values }, isEdited: true };
    case "user_feedback":
      return { kind: "answered", result: answersText(effect.requirement?.questions ?? [], resolution.selections) };
    case "external_execution":
      return { kind: "answered", result: resolution.result };
    case "unknown_outcome":
      return afterUnknown(resolution, call, effect);
  }
}

/** As the model wrote it, or as a person has changed it in an earlier decision about the same call. */
const asAsked = (call: ToolCall, { edited }: Effect): Decision => ({ kind: "run", arguments: edited ?? call.arguments, isEdited: edited !== undefined });

function afterUnknown(resolution: Extract<Resolution, { kind: "unknown_outcome" }>, call: ToolCall, effect: Effect): Decision {
  if (resolution.decision === "happened") return { kind: "answered", result: resolution.result ?? "It happened." };
  if (resolution.decision === "run") return asAsked(call, effect);
  return { kind: "skipped", result: "The outcome of this call is not known, and it was not made again." };
}

const withNote = (text: string, note: string | undefined): string => (note === undefined || note === "" ? text : `${text} ${note}`);

const answersText = (questions: readonly FeedbackQuestion[], selections: readonly string[][]): string =>
  JSON.stringify(questions.map(({ question }, index) => ({ question, answers: selections[index] ?? [] })));

/** What a call must wait for before it may run; `undefined` when it need not. Its arguments have been checked. */
export async function requirementFor(tool: ToolDefinition<any>, call: ToolCall, now: number): Promise<Requirement | undefined> {
  const { pause, approval } = tool;
  if (pause === undefined) return undefined;
  const base = {
    id: newId(),
    createdAt: now,
    shownHash: await hashOf(call.arguments),
    schemaHash: await hashOf(tool.parameters),
    ...(approval === undefined ? {} : { approvalType: approval.type }),
  };
  switch (pause.kind) {
    case "confirmation":
      return { ...base, kind: "confirmation" };
    case "user_input":
      return { ...base, kind: "user_input", fields: pause.fields.map((field) => ({ ...field, ...(Object.hasOwn(call.arguments, field.name) ? { value: call.arguments[field.name] } : {}) })) };
    case "asked_input":
      return { ...base, kind: "user_input", isAsked: true, fields: InputField.array().parse(call.arguments.fields) };
    case "user_feedback":
      return { ...base, kind: "user_feedback", questions: FeedbackQuestion.array().parse(questionsOf(call.arguments)) };
    case "external_execution":
      return { ...base, kind: "external_execution", ...(pause.silent ? { silent: true } : {}) };
  }
}

const questionsOf = ({ questions }: Record<string, unknown>): unknown =>
  Array.isArray(questions) ? questions.map((question) => ({ multiSelect: false, ...(question as object) })) : questions;

/** What a call waits for that may have happened, with the arguments that stand in the ledger. */
export const unknownRequirement = async (effect: Pick<Effect, "arguments">, now: number): Promise<Requirement> => ({
  id: newId(),
  kind: "unknown_outcome",
  createdAt: now,
  shownHash: await hashOf(effect.arguments),
});
