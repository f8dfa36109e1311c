import type { Approval } from "../domain/approval.ts";
import { isTerminal, type Run, type RunRecord } from "../domain/run.ts";
import type { RunEvent } from "../domain/run-event.ts";
import { restoreSession } from "../storage/restore-session.ts";
import type { StorageBindings } from "../storage/database.ts";
import type { StoredRun } from "../storage/run-document.ts";
import type { SessionCore } from "./core.ts";
import { packEvents } from "./event-rows.ts";
import { ownMessages } from "./transcript.ts";

/** Nobody knows how far the log of a lost run had come; its end is told beyond anything it can have reached. */
const BEYOND_LOST_LOG = 1_000_000;

/** What is wrong with a run that was unfinished when its object lost everything. */
const LOST = "object_lost";

/**
 * An object that holds nothing becomes what D1 knows: the session, its owner, and its finished runs. A run that D1 shows as
 * unfinished was lost with the object; nobody can know what it did, so it is never taken up again.
 */
export async function fillFromD1(bindings: StorageBindings, core: SessionCore, sessionId: string): Promise<number> {
  const known = await restoreSession(bindings, sessionId);
  if (known === undefined) return 0;
  const runs: StoredRun[] = [];
  if (known.session !== undefined) for await (const run of known.runs) runs.push(run);
  const { session, highestVersion, approvals } = known;
  // While D1 was read, a session may have been begun here.
  if (session === undefined || core.store.session() !== undefined) return Math.max(known.deletedVersion ?? 0, highestVersion);

  core.commit(() => {
    // Runs are told with the session's version: what comes next must be newer than any of them, or a delete would miss it.
    core.store.saveSession({ ...session, version: highestVersion + 1 });
    core.outbox.put("session");
    for (const { record, events } of runs) {
      if (isTerminal(record.status)) importRun(core, record, events);
      else insertLost(core, record);
    }
    for (const approval of approvals) insertApproval(core, approval);
  });
  return highestVersion;
}

/** Writes an ended run as it was read elsewhere. Call inside the transaction. */
export function importRun(core: SessionCore, record: RunRecord, events: readonly RunEvent[]): void {
  const { messages: _messages, effects, ...run } = record;
  const stored = core.store.insertRun({ ...run, content: "" }, 0, 0);
  ownMessages(record)
    .slice(1)
    .forEach((message, position) => core.store.addMessage(stored.ordinal, position + 1, message));
  for (const effect of effects) core.store.saveEffect(stored.ordinal, effect);
  for (const event of events) {
    const row = packEvents([event.type === "run.completed" ? { ...event, content: "" } : event]);
    core.parts.storage.sql.exec("INSERT INTO events (run, first, at, data) VALUES (?, ?, ?, ?)", stored.ordinal, row.first, row.at, row.data);
  }
  core.store.saveRun({ ...stored, compacted: true });
}

function insertLost(core: SessionCore, record: RunRecord): void {
  const now = core.parts.clock.now();
  const error = { type: LOST, message: "The session's storage was lost while the run was unfinished; what it did is not known.", retryable: false };
  const run: Run = { ...record, status: "failed", error, endedAt: now, updatedAt: now, version: record.version + 1 };
  const events: RunEvent[] = [
    { index: BEYOND_LOST_LOG, at: now, type: "run.retried", attempt: record.attempt, maxAttempts: record.attempt, delayMs: 0, reason: "crash", discarded: { from: 0, to: BEYOND_LOST_LOG - 1 } },
    { index: BEYOND_LOST_LOG + 1, at: now, type: "run.failed", error },
  ];
  importRun(core, { ...run, messages: [], effects: [] }, events);
  core.outbox.put(`run:${run.runId}`);
}

/** Of a lost run nobody can decide anything any more. */
function insertApproval(core: SessionCore, approval: Approval): void {
  const run = core.store.run(approval.runId)?.run;
  if (run === undefined || run.error?.type !== LOST || approval.runStatus === run.status) return core.store.saveApproval(approval);
  const status = approval.status === "pending" ? "cancelled" : approval.status;
  core.store.saveApproval({ ...approval, status, runStatus: run.status, updatedAt: core.parts.clock.now(), version: approval.version + 1 });
  core.outbox.put(`approval:${approval.id}`);
}
