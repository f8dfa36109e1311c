import type { Approval } from "../../../src/domain/approval.ts";
import { newId } from "../../../src/domain/ids.ts";
import type { Projection } from "../../../src/domain/projection.ts";
import type { RunEvent } from "../../../src/domain/run-event.ts";
import type { RunRecord } from "../../../src/domain/run.ts";
import type { Session } from "../../../src/domain/session.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";

/** A session as its object would tell of it. */
export const aSession = (given: Partial<Session> = {}): Session => ({
  sessionId: newId(),
  userId: "alice",
  component: { kind: "agent", id: "support" },
  firstInput: "Hello",
  state: {},
  metrics: { usage: NO_USAGE, durationMs: 0, runs: 0 },
  createdAt: 1_000,
  updatedAt: 1_000,
  version: 1,
  ...given,
});

/** A run as its session's object would tell of it. */
export const aRun = (given: Partial<RunRecord> = {}): RunRecord => ({
  runId: newId(),
  sessionId: newId(),
  userId: "alice",
  component: { kind: "agent", id: "support", name: "Support", version: "1" },
  status: "running",
  input: { message: "Hello" },
  background: false,
  stream: true,
  onDisconnect: "keep",
  attempt: 1,
  attemptsSinceCheckpoint: 1,
  content: "",
  metrics: { usage: NO_USAGE, modelCalls: 0 },
  createdAt: 1_000,
  updatedAt: 1_000,
  version: 1,
  messages: [],
  effects: [],
  ...given,
});

/** The same run, finished. */
export const finished = (run: RunRecord, given: Partial<RunRecord> = {}): RunRecord => ({
  ...run,
  status: "completed",
  content: "Hi",
  version: run.version + 1,
  updatedAt: run.updatedAt + 1,
  endedAt: run.updatedAt + 1,
  messages: [
    { role: "user", id: "m1", createdAt: run.createdAt, content: run.input.message },
    { role: "assistant", id: "m2", createdAt: run.updatedAt, content: "Hi", toolCalls: [], provider: "scripted", model: "demo", finishReason: "stop" },
  ],
  ...given,
});

/** An approval as its session's object would tell of it. */
export const anApproval = (given: Partial<Approval> = {}): Approval => {
  const id = given.id ?? newId();
  return {
    id,
    runId: newId(),
    sessionId: newId(),
    userId: "alice",
    component: { kind: "agent", id: "support", name: "Support", version: "1" },
    status: "pending",
    type: "required",
    pauseType: "confirmation",
    toolName: "update_crm",
    toolArguments: { id: 7 },
    toolNames: ["update_crm"],
    requirements: [{ id: newId(), kind: "confirmation", createdAt: 1_000, approvalType: "required", approvalId: id, callId: "c1", toolName: "update_crm", arguments: { id: 7 } }],
    approvers: 1,
    votes: [],
    requesterMayApprove: true,
    runStatus: "paused",
    createdAt: 1_000,
    updatedAt: 1_000,
    version: 1,
    ...given,
  };
};

/** The same approval, decided on. */
export const decided = (approval: Approval, status: Approval["status"] = "approved"): Approval => ({
  ...approval,
  status,
  resolvedBy: "root",
  resolvedAt: approval.updatedAt + 1,
  updatedAt: approval.updatedAt + 1,
  version: approval.version + 1,
});

export const EVENTS: RunEvent[] = [
  { index: 0, at: 1_000, type: "run.started" },
  { index: 5, at: 1_001, type: "text.delta", text: "Hi", compacted: { from: 1, to: 5 } },
  { index: 6, at: 1_002, type: "run.completed", content: "Hi", metrics: { usage: NO_USAGE, modelCalls: 1 } },
];

export const sessionTold = (session: Session): Projection => ({ kind: "session", session });

export const approvalTold = (approval: Approval, sessionVersion = 1): Projection => ({ kind: "approval", approval, sessionVersion });

export const runTold = (run: RunRecord, ordinal = 1, sessionVersion = 1, events?: RunEvent[]): Projection => ({
  kind: "run",
  run,
  ordinal,
  sessionVersion,
  ...(events === undefined ? {} : { events }),
});

/** Watches what batches cost: D1 counts the rows that it reads and writes, index rows included. */
export function metered(db: D1Database): { db: D1Database; cost: { read: number; written: number; statements: number } } {
  const cost = { read: 0, written: 0, statements: 0 };
  const watching = new Proxy(db, {
    get(target, property) {
      if (property !== "batch") {
        const value: unknown = Reflect.get(target, property);
        return typeof value === "function" ? value.bind(target) : value;
      }
      return async (statements: D1PreparedStatement[]) => {
        const results = await target.batch(statements);
        for (const { meta } of results) {
          cost.read += meta.rows_read;
          cost.written += meta.rows_written;
          cost.statements += 1;
        }
        return results;
      };
    },
  });
  return { db: watching, cost };
}
