/** Longer documents go to R2. */
const ARCHIVE_ABOVE_BYTES = 1_000_000;
/** What a row takes at most, below D1's own 2 MB for the row as a whole. */
const ROW_LIMIT_BYTES = 1_900_000;

/** Where a document goes by its length: into its row, into the archive, or nowhere. */
export function placeOf(document: string, archives: R2Bucket | undefined): "row" | "archive" | "too_long" {
  if (archives !== undefined && exceeds(document, ARCHIVE_ABOVE_BYTES)) return "archive";
  return exceeds(document, ROW_LIMIT_BYTES) ? "too_long" : "row";
}

/** Whether a text is longer than so many bytes of UTF-8. Counts only where the number of characters does not tell. */
function exceeds(text: string, bytes: number): boolean {
  if (text.length > bytes) return true;
  // No character of a string takes more than three bytes.
  return text.length * 3 > bytes && new TextEncoder().encode(text).byteLength > bytes;
}

/** Session ids may hold slashes; each session's archives stay in a folder of their own all the same. */
const folderOf = (sessionId: string): string => `sessions/${encodeURIComponent(sessionId)}/runs/`;

/** The version is part of the key, so that an old document that arrives late covers no newer one. */
export const archiveKeyOf = (run: { sessionId: string; runId: string; version: number }): string =>
  `${folderOf(run.sessionId)}${run.runId}/${run.version}.json`;

/** Stores a run's document outside D1. */
export async function writeArchive(archives: R2Bucket, key: string, document: string, sessionVersion: number): Promise<void> {
  await archives.put(key, document, {
    httpMetadata: { contentType: "application/json" },
    customMetadata: { sessionVersion: String(sessionVersion) },
  });
}

/** Deletes what a session's runs left outside D1, up to a version of the session: what came after a delete stays. */
export async function deleteArchives(archives: R2Bucket, sessionId: string, upToVersion: number): Promise<void> {
  for (let cursor: string | undefined; ; ) {
    const listed = await archives.list({ prefix: folderOf(sessionId), include: ["customMetadata"], ...(cursor === undefined ? {} : { cursor }) });
    const keys = listed.objects.filter((object) => Number(object.customMetadata?.sessionVersion ?? 0) <= upToVersion).map((object) => object.key);
    if (keys.length > 0) await archives.delete(keys);
    if (!listed.truncated) return;
    cursor = listed.cursor;
  }
}
