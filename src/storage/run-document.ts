import { z } from "zod";
import { AppError } from "../domain/errors.ts";
import type { RunEvent } from "../domain/run-event.ts";
import { RunRecord } from "../domain/run.ts";
import { answered } from "./answered.ts";
import { type DocumentName, readDocument } from "./read-document.ts";

/** What D1, or R2 in its stead, holds of a run. */
export interface StoredRun {
  /** Its place among the session's runs, from 1. */
  ordinal: number;
  record: RunRecord;
  /** Compacted; none before the run is terminal. */
  events: RunEvent[];
}

// Events are a log that nothing here computes with: what identifies one is checked, its body is passed on as it is.
const StoredEvent = z.looseObject({ index: z.number().int(), at: z.number(), type: z.string() }) as unknown as z.ZodType<RunEvent>;

const RunDocument = z.object({ record: RunRecord, events: z.array(StoredEvent) });

/** The text that is stored of a run. */
export const writeRunDocument = (run: Omit<StoredRun, "ordinal">): string =>
  JSON.stringify({ record: run.record, events: run.events } satisfies z.input<typeof RunDocument>);

/**
 * Reads a run from its row, or from the archive that the row points to.
 * @throws AppError `record_unreadable` when what is stored is not a run.
 */
export async function readRunDocument(
  row: { runId: string; ordinal: number; document: string | null; archiveKey: string | null },
  archives: R2Bucket | undefined,
): Promise<StoredRun> {
  const name: DocumentName = { noun: "run", id: row.runId };
  const text = row.archiveKey === null ? row.document : await readArchive(archives, row.archiveKey);
  if (text === null) throw new AppError("record_unreadable", `The archive of the run "${row.runId}" is missing.`, { run_id: row.runId });
  return { ordinal: row.ordinal, ...readDocument(RunDocument, text, name) };
}

async function readArchive(archives: R2Bucket | undefined, key: string): Promise<string | null> {
  const archived = await answered(archives?.get(key) ?? Promise.resolve(null));
  return archived === null ? null : answered(archived.text());
}
