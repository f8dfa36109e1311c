import { v7, validate } from "uuid";
import { z } from "zod";

/** A new id: a UUID that sorts by time, as AgentOS's ids are UUIDs. */
export const newId = (): string => v7();

/** Ids that the platform derives itself (interfaces, schedules) begin so; clients may not choose them. */
export const RESERVED_ID_PREFIX = "sbx:";

const SESSION_ID_MAX_BYTES = 255;

function shapeProblem(id: string): string | undefined {
  if (id.length === 0) return "must not be empty";
  if (!id.isWellFormed()) return "must be valid Unicode: it holds half of a surrogate pair";
  if (/[\u0000-\u001f\u007f-\u009f]/.test(id)) return "must not hold control characters";
  if (new TextEncoder().encode(id).length > SESSION_ID_MAX_BYTES) return `must be at most ${SESSION_ID_MAX_BYTES} bytes of UTF-8`;
  return undefined;
}

function choiceProblem(id: string): string | undefined {
  return id.startsWith(RESERVED_ID_PREFIX) ? `must not begin with "${RESERVED_ID_PREFIX}", which the platform keeps for itself` : shapeProblem(id);
}

/** Whether there can be a session with this id: what can not exist need not be looked for. */
export const isSessionId = (id: string): boolean => shapeProblem(id) === undefined;

/** Whether there can be a run with this id. */
export const isRunId = (id: string): boolean => validate(id);

/** A session id that a client chose: 1–255 bytes of UTF-8, kept as it is, compared by code point. */
export const ChosenSessionId = z.string().superRefine((id, context) => {
  const problem = choiceProblem(id);
  if (problem !== undefined) context.addIssue({ code: "custom", message: `session_id ${problem}` });
});
