import { env } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { type Approval } from "../../../src/domain/approval.ts";
import type { Result } from "../../../src/domain/errors.ts";
import { newId } from "../../../src/domain/ids.ts";
import type { Access } from "../../../src/domain/principal.ts";
import { endsSegment, type RunEvent } from "../../../src/domain/run-event.ts";
import type { RunStatus } from "../../../src/domain/run.ts";
import { type Effect, isWaiting } from "../../../src/domain/tool-call.ts";
import { toMessagesRequest } from "../../../src/models/anthropic/request.ts";
import type { ModelRequest } from "../../../src/models/model.ts";
import { toChatRequest } from "../../../src/models/openai/chat-request.ts";
import { toResponsesRequest } from "../../../src/models/openai/responses-request.ts";
import type { Answer, ContinuedRun, ContinueRun, ResolveApproval, RunReading, SessionCommands, StartRun } from "../../../src/session/commands.ts";
import { historyProblems } from "../../fakes/valid-history.ts";
import { inObject, newSessionId, rowsIn } from "./harness.ts";

/** A session's object, asked directly: a refusal is a value here. A stub that has thrown may stay broken, so each call has its own. */
export const object = (sessionId: string): SessionCommands => env.SESSIONS.get(env.SESSIONS.idFromName(sessionId)) as unknown as SessionCommands;

export const ALL: Access = { rows: "all" };

export interface Paused {
  sessionId: string;
  runId: string;
  /** The requirements of its waiting calls, by call id. */
  open: Record<string, string>;
  approval: Approval;
}

/** Starts a run without waiting for it. */
export async function begin(sessionId: string, message: string, options: Partial<StartRun> & { agent?: string } = {}): Promise<string> {
  const { agent = "pauser", ...rest } = options;
  const runId = newId();
  const started = await object(sessionId).startRun({
    runId,
    sessionId,
    sessionIsNew: false,
    access: ALL,
    component: { kind: "agent", id: agent, name: agent, version: "1" },
    input: { message },
    background: true,
    stream: false,
    onBusy: "reject",
    onDisconnect: "keep",
    ...rest,
  });
  if (!started.ok) throw new Error(`${started.error.code}: ${started.error.message}`);
  return runId;
}

export async function read(sessionId: string, runId: string): Promise<RunReading> {
  const reading = await object(sessionId).readRun({ runId, access: ALL });
  if (!reading.ok) throw new Error(reading.error.message);
  return reading.value;
}

export const until = (sessionId: string, runId: string, status: RunStatus): Promise<RunReading> =>
  vi.waitFor(
    async () => {
      const reading = await read(sessionId, runId);
      expect(reading.record.status).toBe(status);
      return reading;
    },
    { timeout: 10_000, interval: 2 },
  );

/** Starts a run and waits until it has ended or paused. */
export async function run(sessionId: string, message: string, status: RunStatus = "completed", options: Parameters<typeof begin>[2] = {}): Promise<RunReading> {
  return until(sessionId, await begin(sessionId, message, options), status);
}

/** The approvals of a run as its object holds them, oldest first. */
export async function approvalsIn(sessionId: string, runId: string): Promise<Approval[]> {
  const rows = await rowsIn(sessionId, "meta WHERE key LIKE 'approval:%'");
  return rows.map((row) => JSON.parse(row.value as string) as Approval).filter((approval) => approval.runId === runId).sort((a, b) => a.createdAt - b.createdAt);
}

export const openIn = (effects: readonly Effect[]): Record<string, string> => Object.fromEntries(effects.filter(isWaiting).map((effect) => [effect.callId, effect.requirement?.kind ?? ""]));

/** A run that waits for people. */
export async function paused(message: string, { sessionId = newSessionId(), ...options }: Parameters<typeof begin>[2] & { sessionId?: string } = {}): Promise<Paused> {
  const { record } = await run(sessionId, message, "paused", options);
  const [approval] = await approvalsIn(sessionId, record.runId);
  return { sessionId, runId: record.runId, open: openIn(record.effects), approval: approval as Approval };
}

export type Continue = Partial<Omit<ContinueRun, "runId" | "answers">> & { answers?: Record<string, Answer> };

/** Continues a run; answers are by call id. */
export function go(sessionId: string, runId: string, { answers, ...options }: Continue = {}): Promise<Result<ContinuedRun>> {
  return object(sessionId).continueRun({
    runId,
    newRunId: newId(),
    access: ALL,
    continueFrom: "end",
    fork: false,
    regenerate: false,
    replaceOriginal: false,
    background: true,
    stream: false,
    onBusy: "reject",
    onDisconnect: "keep",
    ...(answers === undefined ? {} : { answers: Object.entries(answers).map(([callId, answer]) => ({ callId, ...answer })) }),
    ...options,
  });
}

/** Continues a run and waits until what goes on has ended or paused. */
export async function goUntil(sessionId: string, runId: string, status: RunStatus, options: Continue = {}): Promise<RunReading> {
  const continued = await go(sessionId, runId, options);
  if (!continued.ok) throw new Error(`${continued.error.code}: ${continued.error.message}`);
  return until(sessionId, continued.value.runId, status);
}

export const resolve = (sessionId: string, approvalId: string, options: Partial<ResolveApproval> = {}): Promise<Result<Approval>> =>
  object(sessionId).resolveApproval({ approvalId, access: ALL, decision: "approved", thenContinue: false, ...options });

export const cancel = (sessionId: string, runId: string) => object(sessionId).cancelRun({ runId, access: ALL });
export const drop = (sessionId: string, approvalId: string) => object(sessionId).deleteApproval({ approvalId, access: ALL });

/** The code of a refusal; `ok` where there is none. */
export const codeOf = (result: Result<unknown>): string => (result.ok ? "ok" : result.error.code);

/** A run's whole log as it was told, deltas and all. */
export async function logOf(sessionId: string, runId: string): Promise<RunEvent[]> {
  const polled = await object(sessionId).pollEvents({ runId, access: ALL, after: -1, waitMs: 0 });
  if (!polled.ok) throw new Error(polled.error.message);
  return polled.value.events;
}

/** Indices count up from 0; where one is missing, an event says that it does not count. The last event, and no other of its kind, ends the run; pauses are followed by a continue. */
export function expectSoundLog(events: readonly RunEvent[]): void {
  const discarded = events.flatMap((event) => (event.type === "run.retried" && event.discarded !== undefined ? [event.discarded] : []));
  let expected = 0;
  for (const { index } of events) {
    for (let missing = expected; missing < index; missing += 1) expect(discarded.some(({ from, to }) => from <= missing && missing <= to), `index ${missing} is missing`).toBe(true);
    expect(index).toBeGreaterThanOrEqual(expected);
    expected = index + 1;
  }
  const ends = events.filter((event) => endsSegment(event));
  expect(ends.at(-1)).toBe(events.at(-1));
  expect(ends.filter((event) => event.type !== "run.paused").length).toBeLessThanOrEqual(1);
  for (const pause of ends.filter((event) => event.type === "run.paused").slice(0, -1)) {
    expect(events.find((event) => event.index > pause.index)?.type).toMatch(/run\.(continued|cancelled)/);
  }
}

/** The text that a client shows which drops what it is told to drop. */
export function textOf(events: readonly RunEvent[]): string {
  const discarded = events.flatMap((event) => (event.type === "run.retried" && event.discarded !== undefined ? [event.discarded] : []));
  return events.flatMap((event) => (event.type === "text.delta" && !discarded.some(({ from, to }) => from <= event.index && event.index <= to) ? [event.text] : [])).join("");
}

/** Everything that is wrong with a request: each call has one result right behind it, and every provider would take it. */
export function requestProblems(request: ModelRequest): string[] {
  const ids = request.messages.flatMap((message) => (message.role === "assistant" ? message.toolCalls.map((call) => call.id) : []));
  const results = request.messages.flatMap((message) => (message.role === "tool" ? [message.toolCallId] : []));
  return [
    ...(JSON.stringify(ids) === JSON.stringify(results) ? [] : [`Calls ${ids.join()} have the results ${results.join()}.`]),
    ...historyProblems("anthropic", toMessagesRequest(request, "claude-x") as unknown as Record<string, unknown>),
    ...historyProblems("chat", toChatRequest(request, "gpt-x", { ownServer: true }) as unknown as Record<string, unknown>),
    ...historyProblems("responses", toResponsesRequest(request, "gpt-x") as unknown as Record<string, unknown>),
  ];
}

/** Everything that a session's object has stored of its runs. */
export async function storedIn(sessionId: string): Promise<Record<string, unknown>> {
  return inObject(sessionId, (state) => Object.fromEntries(["runs", "messages", "effects", "events"].map((table) => [table, state.storage.sql.exec(`SELECT * FROM ${table}`).toArray()])));
}

/** What a run is made of in storage: the rows that a branch must leave as they are. */
export async function rowsOf(sessionId: string, runId: string): Promise<unknown> {
  return inObject(sessionId, (state) => {
    const [row] = state.storage.sql.exec<{ ordinal: number }>("SELECT * FROM runs WHERE run_id = ?", runId).toArray();
    return [row, ...["messages", "effects", "events"].map((table) => state.storage.sql.exec(`SELECT * FROM ${table} WHERE run = ?`, row?.ordinal ?? 0).toArray())];
  });
}

/** Lets a timer be due, whenever it was set for. */
export const makeDue = (sessionId: string, timer: string) => inObject(sessionId, (state) => void state.storage.sql.exec("UPDATE timers SET at = 0 WHERE name LIKE ?", timer));
