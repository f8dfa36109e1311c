import { z } from "zod";
import { FeedbackQuestion, InputField } from "../domain/requirement.ts";
import type { ToolDefinition } from "./tool.ts";

const GetUserInput = z.object({
  fields: z
    .array(InputField.pick({ name: true, type: true, description: true }))
    .min(1)
    .describe("What you need to know, a field each."),
});

const AskUser = z.object({
  questions: z
    .array(FeedbackQuestion.extend({ multiSelect: z.boolean().default(false) }))
    .min(1)
    .describe("Questions with the answers to choose from."),
});

/** Lets the model ask the person for values it lacks. The run waits for them, and they are the call's result. */
export const getUserInput: ToolDefinition = personTool("get_user_input", "Ask the user for values that you need and do not have.", GetUserInput, "asked_input");

/** Lets the model ask the person to choose. The run waits for the answers, and they are the call's result. */
export const askUser: ToolDefinition = personTool("ask_user", "Ask the user questions with answers to choose from.", AskUser, "user_feedback");

function personTool(name: string, description: string, input: z.ZodType, kind: "asked_input" | "user_feedback"): ToolDefinition {
  const parameters = z.toJSONSchema(input, { io: "input" }) as Record<string, unknown>;
  delete parameters.$schema;
  return Object.freeze({
    kind: "tool" as const,
    name,
    description,
    input,
    parameters,
    effect: "none" as const,
    timeoutMs: 0,
    retries: 0,
    sequential: false,
    stopAfterCall: false,
    pause: { kind },
    // A person answers in its place; nothing ever calls it.
    execute: () => undefined,
  });
}
