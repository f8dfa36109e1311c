import type { Approval } from "../domain/approval.ts";
import type { Projection } from "../domain/projection.ts";
import { isUnfinished } from "../domain/run.ts";
import { type Session, sessionTitle } from "../domain/session.ts";
import { wellFormed } from "../lib/text.ts";
import { archiveKeyOf, deleteArchives, placeOf, writeArchive } from "./archive.ts";
import { ANYONES, USER_PREFIX } from "./cancel-wish.ts";
import { ProjectionRefused } from "./refusal.ts";
import { writeRunDocument } from "./run-document.ts";

// Plain SQL: every turn passes here twice, and the guards, which are what matters, are the statements themselves.
// However often, late or in whatever order projections arrive, the rows end the same:
// - a row takes only a newer version than its own,
// - nothing is inserted at or under the tombstone of its session's id, nor an approval that was deleted alone.

const UPSERT_SESSION = `
  INSERT INTO sessions (session_id, user_id, component_kind, component_id, title, created_at, updated_at, version, document)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9
  WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE session_id = ?1 AND version >= ?8)
  ON CONFLICT (session_id) DO UPDATE
  SET title = excluded.title, updated_at = excluded.updated_at, version = excluded.version, document = excluded.document
  WHERE excluded.version > sessions.version`;

// SQLite writes an index anew when a statement names one of its columns, whether the value differs or not. So what
// hardly ever changes has a statement of its own, which finds no row to write unless it did.
const UPDATE_SESSION_IDENTITY = `
  UPDATE sessions SET user_id = ?3, component_kind = ?4, component_id = ?5, created_at = ?6
  WHERE session_id = ?1 AND version = ?2
    AND (user_id IS NOT ?3 OR component_kind IS NOT ?4 OR component_id IS NOT ?5 OR created_at IS NOT ?6)`;

const UPSERT_RUN = `
  INSERT INTO runs (run_id, session_id, ordinal, parent_run_id, user_id, component_kind, component_id, status,
    created_at, updated_at, version, session_version, archive_key, document)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14
  WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE session_id = ?2 AND version >= ?12)
  ON CONFLICT (run_id) DO UPDATE
  SET user_id = excluded.user_id, status = excluded.status, updated_at = excluded.updated_at, version = excluded.version,
    session_version = excluded.session_version, archive_key = excluded.archive_key, document = excluded.document
  WHERE excluded.version > runs.version`;

const UPSERT_APPROVAL = `
  INSERT INTO approvals (approval_id, run_id, session_id, user_id, component_kind, component_id, status, type, pause_type,
    schedule_id, version, session_version, document)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
  WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE session_id = ?3 AND version >= ?12)
    AND NOT EXISTS (SELECT 1 FROM deleted_approvals WHERE approval_id = ?1)
  ON CONFLICT (approval_id) DO UPDATE
  SET status = excluded.status, version = excluded.version, session_version = excluded.session_version, document = excluded.document
  WHERE excluded.version > approvals.version`;

const BURY_APPROVAL = "INSERT INTO deleted_approvals (approval_id) VALUES (?1) ON CONFLICT DO NOTHING";
const DELETE_APPROVAL = "DELETE FROM approvals WHERE approval_id = ?1";

const BURY_SESSION = `
  INSERT INTO deleted_sessions (session_id, version) VALUES (?1, ?2)
  ON CONFLICT (session_id) DO UPDATE SET version = excluded.version WHERE excluded.version > deleted_sessions.version`;
const DELETE_SESSION = "DELETE FROM sessions WHERE session_id = ?1 AND version <= ?2";
const DELETE_RUNS = "DELETE FROM runs WHERE session_id = ?1 AND session_version <= ?2";
const DELETE_APPROVALS = "DELETE FROM approvals WHERE session_id = ?1 AND session_version <= ?2";
const FORGET_KEYED_RUNS = "UPDATE idempotency_keys SET run_id = NULL WHERE session_id = ?1 AND created_at <= ?2";
const DELETE_PARKED = "DELETE FROM parked_projections WHERE session_id = ?1 AND session_version <= ?2";

const PARK = `
  INSERT INTO parked_projections (session_id, entity, reason, release, parked_at, session_version)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6
  WHERE NOT EXISTS (SELECT 1 FROM deleted_sessions WHERE session_id = ?1 AND version >= ?6)
  ON CONFLICT (session_id, entity) DO UPDATE
  SET reason = excluded.reason, release = excluded.release, parked_at = excluded.parked_at, session_version = excluded.session_version
  WHERE excluded.parked_at >= parked_projections.parked_at`;
// Nothing remains to tell a late word that it is too late: the sweep finds such a row by its release and asks the object.
const UNPARK = "DELETE FROM parked_projections WHERE session_id = ?1 AND entity = ?2 AND parked_at <= ?3";

const SELECT_WISHED_CANCELS = `
  SELECT DISTINCT runs.run_id AS runId
  FROM json_each(?1) AS told
  JOIN cancel_wishes ON cancel_wishes.run_id = told.value AND cancel_wishes.expires_at > ?2
  JOIN runs ON runs.run_id = told.value
  JOIN sessions ON sessions.session_id = runs.session_id
  WHERE cancel_wishes.wisher = '${ANYONES}' OR cancel_wishes.wisher = '${USER_PREFIX}' || sessions.user_id`;

/** Lists search and sort by no more of a session's name than this. */
const TITLE_LENGTH = 1_000;

type RunProjection = Extract<Projection, { kind: "run" }>;
type ParkedProjection = Extract<Projection, { kind: "parked" }>;

/**
 * Writes what a session's outbox says, in one batch: all of it or nothing. Writing it again, or late, changes nothing.
 * What is too long for a row is archived before the batch that points to it, and what is deleted leaves the archive
 * after the batch that forgets it: a crash between leaves an archive that no row points to, never the reverse, and the
 * entry is delivered again.
 *
 * `cancelWishes` names the unfinished runs among the entries that someone who may see them wants cancelled.
 * @throws Error `isRefusal` says whether the entries themselves are at fault.
 */
export async function applyProjections(
  db: D1Database,
  archives: R2Bucket | undefined,
  entries: readonly Projection[],
  now: number = Date.now(),
): Promise<{ cancelWishes: string[] }> {
  const runs = await placeRuns(entries, archives);
  const unfinished = runs.filter((run) => isUnfinished(run.entry.run.status)).map((run) => run.entry.run.runId);

  const statements = entries.flatMap((entry) => {
    if (entry.kind === "session") return sessionStatements(db, entry.session);
    if (entry.kind === "approval") return [approvalStatement(db, entry)];
    if (entry.kind === "approval-deleted") return [BURY_APPROVAL, DELETE_APPROVAL].map((sql) => db.prepare(sql).bind(entry.approvalId));
    if (entry.kind === "session-deleted") return deleteStatements(db, entry);
    if (entry.kind === "parked") return [parkedStatement(db, entry)];
    return [];
  });
  const runStatements = runs.map((run) => runStatement(db, run));
  const wishes = unfinished.length === 0 ? [] : [db.prepare(SELECT_WISHED_CANCELS).bind(JSON.stringify(unfinished), now)];
  if (statements.length + runStatements.length === 0) return { cancelWishes: [] };
  const results = await db.batch<{ runId: string }>([...statements, ...runStatements, ...wishes]);

  if (archives !== undefined) {
    await dropUnused(db, archives, runs);
    for (const entry of entries) {
      if (entry.kind === "session-deleted") await deleteArchives(archives, entry.sessionId, entry.version);
    }
  }
  return { cancelWishes: wishes.length === 0 ? [] : (results.at(-1)?.results ?? []).map((row) => row.runId) };
}

/** A run with the place its document has. */
type PlacedRun = { entry: RunProjection } & ({ document: string; archiveKey: null } | { document: null; archiveKey: string });

async function placeRuns(entries: readonly Projection[], archives: R2Bucket | undefined): Promise<PlacedRun[]> {
  const placed: PlacedRun[] = [];
  for (const entry of entries) {
    if (entry.kind !== "run") continue;
    const document = writeRunDocument({ record: entry.run, events: entry.events ?? [] });
    const place = placeOf(document, archives);
    if (place === "too_long") throw new ProjectionRefused(`The run "${entry.run.runId}" is too long for a row, and no bucket is bound that could take it.`);
    if (place === "row" || archives === undefined) {
      placed.push({ entry, document, archiveKey: null });
      continue;
    }
    const archiveKey = archiveKeyOf(entry.run);
    await writeArchive(archives, archiveKey, document, entry.sessionVersion);
    placed.push({ entry, document: null, archiveKey });
  }
  return placed;
}

function sessionStatements(db: D1Database, session: Session): D1PreparedStatement[] {
  const document = JSON.stringify(session);
  if (placeOf(document, undefined) === "too_long") throw new ProjectionRefused(`The session "${session.sessionId}" is too long for a row: its state or metadata must become shorter.`);
  const identity = [session.userId ?? null, session.component?.kind ?? null, session.component?.id ?? null];
  const title = wellFormed(sessionTitle(session).slice(0, TITLE_LENGTH));
  return [
    db.prepare(UPSERT_SESSION).bind(session.sessionId, ...identity, title, session.createdAt, session.updatedAt, session.version, document),
    db.prepare(UPDATE_SESSION_IDENTITY).bind(session.sessionId, session.version, ...identity, session.createdAt),
  ];
}

function runStatement(db: D1Database, { entry, document, archiveKey }: PlacedRun): D1PreparedStatement {
  const { run, ordinal, sessionVersion } = entry;
  return db
    .prepare(UPSERT_RUN)
    .bind(
      run.runId,
      run.sessionId,
      ordinal,
      run.parentRunId ?? null,
      run.userId ?? null,
      run.component.kind,
      run.component.id,
      run.status,
      run.createdAt,
      run.updatedAt,
      run.version,
      sessionVersion,
      archiveKey,
      document,
    );
}

function approvalStatement(db: D1Database, { approval, sessionVersion }: { approval: Approval; sessionVersion: number }): D1PreparedStatement {
  const document = JSON.stringify(approval);
  if (placeOf(document, undefined) === "too_long") throw new ProjectionRefused(`The approval "${approval.id}" is too long for a row: its calls' arguments must become shorter.`);
  return db
    .prepare(UPSERT_APPROVAL)
    .bind(
      approval.id,
      approval.runId,
      approval.sessionId,
      approval.userId ?? null,
      approval.component.kind,
      approval.component.id,
      approval.status,
      approval.type,
      approval.pauseType,
      approval.scheduleId ?? null,
      approval.version,
      sessionVersion,
      document,
    );
}

const deleteStatements = (db: D1Database, { sessionId, version, at }: { sessionId: string; version: number; at: number }): D1PreparedStatement[] => [
  ...[BURY_SESSION, DELETE_SESSION, DELETE_RUNS, DELETE_APPROVALS, DELETE_PARKED].map((sql) => db.prepare(sql).bind(sessionId, version)),
  db.prepare(FORGET_KEYED_RUNS).bind(sessionId, at),
];

function parkedStatement(db: D1Database, { sessionId, sessionVersion, entity, reason, release, at }: ParkedProjection): D1PreparedStatement {
  if (reason === undefined) return db.prepare(UNPARK).bind(sessionId, entity, at);
  return db.prepare(PARK).bind(sessionId, entity, reason, release, at, sessionVersion);
}

/** Takes back archives whose row would not have them: a newer one stood there, or the session is deleted. */
async function dropUnused(db: D1Database, archives: R2Bucket, runs: readonly PlacedRun[]): Promise<void> {
  for (const { entry, archiveKey } of runs) {
    if (archiveKey === null) continue;
    const row = await db.prepare("SELECT archive_key AS archiveKey FROM runs WHERE run_id = ?1").bind(entry.run.runId).first<{ archiveKey: string | null }>();
    if (row?.archiveKey !== archiveKey) await archives.delete(archiveKey);
  }
}
