import { env, exports } from "cloudflare:workers";
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { EventSourceParserStream } from "eventsource-parser/stream";
import { expect, vi } from "vitest";

/** One event as a client reads it. */
export interface WireEvent {
  event: string;
  event_index: number;
  run_id: string;
  session_id: string;
  [field: string]: unknown;
}

const stubOf = (sessionId: string) => env.SESSIONS.get(env.SESSIONS.idFromName(sessionId));

export const newSessionId = () => `s-${crypto.randomUUID()}`;

export function request(path: string, init: RequestInit & { form?: Record<string, string> } = {}): Promise<Response> {
  const { form, ...rest } = init;
  return exports.default.fetch(new Request(`http://signalbox${path}`, { ...rest, ...(form === undefined ? {} : { method: "POST", body: new URLSearchParams(form) }) }));
}

/** Starts a streamed run; the stream is the caller's to read. */
export const start = (sessionId: string, message: string, fields: Record<string, string> = {}, agent = "words") =>
  request(`/agents/${agent}/runs`, { form: { message, session_id: sessionId, ...fields } });

/** Starts a run, waits for its end, and gives back what a client that does not stream is told. */
export async function ask(sessionId: string, message: string, fields: Record<string, string> = {}, agent = "words"): Promise<Record<string, any>> {
  const response = await start(sessionId, message, { stream: "false", ...fields }, agent);
  expect(response.status).toBe(200);
  return response.json();
}

/** Starts a run that nobody watches. */
export async function background(sessionId: string, message: string, fields: Record<string, string> = {}): Promise<string> {
  const response = await start(sessionId, message, { stream: "false", background: "true", ...fields });
  expect(response.status).toBe(202);
  return (await response.json<{ run_id: string }>()).run_id;
}

/** A stream read event by event. */
export function reading(response: Response) {
  expect(response.status).toBe(200);
  const events: WireEvent[] = [];
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
  const next = async (): Promise<WireEvent | undefined> => {
    const { value, done } = await reader.read();
    if (done) return undefined;
    const event = JSON.parse(value.data) as WireEvent;
    if (value.id !== undefined) expect(Number(value.id)).toBe(event.event_index);
    events.push(event);
    return event;
  };
  return {
    events,
    next,
    async until(name: string): Promise<WireEvent> {
      for (let event = await next(); event !== undefined; event = await next()) if (event.event === name) return event;
      throw new Error(`The stream ended without ${name}: ${events.map((event) => event.event).join(" ")}`);
    },
    async rest(): Promise<WireEvent[]> {
      while ((await next()) !== undefined);
      return events;
    },
    drop: () => reader.cancel(),
  };
}

/** The run as a client polls it. */
export async function getRun(sessionId: string, runId: string, agent = "words"): Promise<Record<string, any>> {
  const response = await request(`/agents/${agent}/runs/${runId}?session_id=${encodeURIComponent(sessionId)}`);
  expect(response.status).toBe(200);
  return response.json();
}

export async function untilStatus(sessionId: string, runId: string, status: string): Promise<Record<string, any>> {
  return vi.waitFor(
    async () => {
      const run = await getRun(sessionId, runId);
      expect(run.status).toBe(status);
      return run;
    },
    { timeout: 5_000, interval: 10 },
  );
}

/** The whole log from the start, as a client that comes late reads it. */
export async function readLog(sessionId: string, runId: string, after = -1): Promise<WireEvent[]> {
  const response = await request(`/agents/words/runs/${runId}/events?after=${after}&session_id=${encodeURIComponent(sessionId)}`, { headers: { accept: "text/event-stream" } });
  return reading(response).rest();
}

/** Indices count up from 0; where one is missing, an event says that it does not count. One terminal event, and it is last. */
export function expectValidLog(events: readonly WireEvent[]): void {
  const discarded = events.flatMap((event) => (event.discarded === undefined ? [] : [event.discarded as { from: number; to: number }]));
  let expected = 0;
  for (const { event_index: index } of events) {
    expect(index).toBeGreaterThanOrEqual(expected);
    for (let missing = expected; missing < index; missing += 1) expect(discarded.some(({ from, to }) => from <= missing && missing <= to)).toBe(true);
    expected = index + 1;
  }
  const terminal = events.filter(({ event }) => ["RunCompleted", "RunError", "RunCancelled"].includes(event));
  expect(terminal).toHaveLength(1);
  expect(events.at(-1)).toBe(terminal[0]);
}

/** The text that a client shows which drops what it is told to drop. */
export function shownText(events: readonly WireEvent[]): string {
  const discarded = events.flatMap((event) => (event.discarded === undefined ? [] : [event.discarded as { from: number; to: number }]));
  return events
    .filter(({ event, event_index: index }) => event === "RunContent" && !discarded.some(({ from, to }) => from <= index && index <= to))
    .map(({ content }) => content)
    .join("");
}

/** The object's memory goes, its storage and its sockets stay, and it is at rest: what hibernation is. */
export const evict = (sessionId: string) => evictDurableObject(stubOf(sessionId));
/** Every object's memory goes in the middle of whatever it does, and what is connected to it breaks: a crash, a deploy. */
export const crash = () => abortAllDurableObjects();
export const fireAlarm = (sessionId: string) => runDurableObjectAlarm(stubOf(sessionId));
export const inObject = <T>(sessionId: string, work: (state: DurableObjectState) => T | Promise<T>): Promise<T> => runInDurableObject(stubOf(sessionId), (_instance, state) => work(state));
export const rowsIn = (sessionId: string, table: string) => inObject(sessionId, (state) => state.storage.sql.exec<Record<string, SqlStorageValue>>(`SELECT * FROM ${table}`).toArray());
