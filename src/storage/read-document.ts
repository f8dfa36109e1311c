import type { z } from "zod";
import { AppError } from "../domain/errors.ts";
import { tryParseJson } from "../lib/json.ts";

/** What a stored document is of, for the log and for whoever asked for it. */
export interface DocumentName {
  noun: string;
  id: string;
}

/**
 * Reads a stored document.
 * @throws AppError `record_unreadable` when it is not what its schema says: another release wrote it, or it is damaged.
 */
export function readDocument<T>(schema: z.ZodType<T>, text: string, { noun, id }: DocumentName): T {
  const parsed = schema.safeParse(tryParseJson(text));
  if (parsed.success) return parsed.data;
  // Places and not contents: a document holds what people wrote.
  const places = parsed.error.issues.slice(0, 3).map((issue) => `${issue.path.join(".") || "document"}: ${issue.code}`);
  throw new AppError("record_unreadable", `The stored ${noun} "${id}" can not be read by this release.`, { [`${noun}_id`]: id, places });
}

/** Reads what can be read of a list's rows. One bad row must not hide the others: it is left out, and logged by its id. */
export function readAll<Row, T>(rows: readonly Row[], read: (row: Row) => T): T[] {
  return rows.flatMap((row) => {
    try {
      return [read(row)];
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== "record_unreadable") throw error;
      logUnreadable(error);
      return [];
    }
  });
}

/** Says in the log that a stored record was left out. */
export function logUnreadable(error: AppError): void {
  console.error(JSON.stringify({ level: "error", error: error.code, message: error.message, ...error.details }));
}
