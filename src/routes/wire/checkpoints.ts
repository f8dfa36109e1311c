import type { Checkpoint } from "../../domain/checkpoint.ts";
import type { RunRecord } from "../../domain/run.ts";
import { cutText } from "../../lib/text.ts";
import type { Snapshot } from "../../operations/read-checkpoints.ts";
import type { CheckpointSummary, RunOutput } from "../schemas/run.ts";
import { runToWire } from "./runs.ts";
import { statusToWire, toSeconds } from "./words.ts";

const PREVIEW_LENGTH = 120;

/** A place in a run, as the list of its checkpoints shows it. */
export function checkpointToWire(record: RunRecord, { messageIndex, isEnd, message, isListed = true }: Checkpoint & { isListed?: boolean }): CheckpointSummary {
  return {
    checkpoint_id: String(messageIndex),
    run_id: record.runId,
    session_id: record.sessionId,
    message_index: messageIndex,
    continue_from: messageIndex,
    // On the way there the run was running, whatever became of it.
    status: isEnd ? statusToWire(record.status) : "RUNNING",
    reason: isEnd ? "end" : isListed ? "checkpoint" : "snapshot",
    created_at: message && toSeconds(message.createdAt),
    message_id: message?.id,
    message_role: message?.role,
    message_preview: message && cutText(message.content.replace(/\s+/g, " ").trim(), PREVIEW_LENGTH),
    is_latest: isEnd,
  };
}

/** The run at one of its messages. */
export const snapshotToWire = ({ kept }: Snapshot): RunOutput => ({
  ...runToWire({ record: kept, events: [] }),
  last_checkpoint_at_message_index: kept.messages.length,
});
