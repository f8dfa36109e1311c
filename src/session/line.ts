import { ok, refused, type Result } from "../domain/errors.ts";
import type { OnBusy } from "./commands.ts";
import { MAX_WAITING, type SessionStore, type StoredRun } from "./store.ts";

/** Whether the session's line can be had, before anything is changed. `value` is the run that is ahead, if the asker may wait for it. */
export function lineFor(store: SessionStore, onBusy: OnBusy): Result<StoredRun | undefined> {
  const { holder, waiting } = store.openRuns();
  const ahead = holder ?? waiting[0];
  if (ahead === undefined) return ok(undefined);
  if (onBusy === "reject") {
    return refused("session_busy", `The session is busy with the run '${ahead.run.runId}'. Wait for its end, cancel it, or send on_busy=enqueue.`, { run_id: ahead.run.runId });
  }
  if (waiting.length >= MAX_WAITING) return refused("queue_full", `${MAX_WAITING} turns already wait for this session.`, { retry_after: 5 });
  return ok(ahead);
}

/** Whoever asks again for a run that they did not ask to stream can not have it as a stream now: they would take it for another one. */
export const notStreamed = (runId: string) => refused("conflict", `The run '${runId}' was started without a stream; read it, or follow its events.`, { run_id: runId });
