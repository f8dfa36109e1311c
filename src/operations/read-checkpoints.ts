import { type Checkpoint, checkpointsOf, safeCut } from "../domain/checkpoint.ts";
import { invalid } from "../domain/errors.ts";
import type { Message } from "../domain/message.ts";
import type { RunRecord } from "../domain/run.ts";
import type { OperationContext } from "./context.ts";
import { type NamedRun, readRun } from "./read-run.ts";

/** The places from which a run can be gone on from. */
export interface Checkpoints {
  record: RunRecord;
  /** In the order of the run; the last one is its end. */
  checkpoints: Checkpoint[];
}

/** A run as it is kept at one of its messages. */
export interface Snapshot {
  record: RunRecord;
  /** `isListed`: it is one of the run's checkpoints, and not just a place between two messages. */
  checkpoint: Checkpoint & { isListed: boolean };
  /** The run cut off there, or as near as a reply can be parted from its calls. */
  kept: RunRecord;
}

/** @throws AppError `not_found` */
export async function listCheckpoints(context: OperationContext, run: NamedRun & { sessionId: string }): Promise<Checkpoints> {
  const { record } = await readRun(context, run);
  return { record, checkpoints: checkpointsOf(continuable(record)) };
}

/** @throws AppError `not_found`, or `invalid_request` when the run has no such message. */
export async function readSnapshot(context: OperationContext, run: NamedRun & { sessionId: string }, messageIndex: number): Promise<Snapshot> {
  const { record, checkpoints } = await listCheckpoints(context, run);
  const messages = continuable(record);
  if (messageIndex < 0 || messageIndex > messages.length) throw invalid(`message_index must be from 0 to ${messages.length}.`);
  const listed = checkpoints.find((checkpoint) => checkpoint.messageIndex === messageIndex);
  const checkpoint = listed ?? { messageIndex, isEnd: false, message: messages[messageIndex - 1] };
  return { record, checkpoint: { ...checkpoint, isListed: listed !== undefined }, kept: cutOff(record, messages.slice(0, safeCut(messages, messageIndex))) };
}

/** A reply that was cut off is told as what it was, but nobody goes on from the middle of a word. */
function continuable({ messages }: RunRecord): Message[] {
  const last = messages.at(-1);
  return last?.role === "assistant" && last.partial === true ? messages.slice(0, -1) : messages;
}

function cutOff(record: RunRecord, messages: Message[]): RunRecord {
  const replies = messages.filter((message) => message.role === "assistant");
  return {
    ...record,
    content: replies.map((reply) => reply.content).join(""),
    messages,
    effects: record.effects.filter((effect) => effect.step < replies.length),
  };
}
