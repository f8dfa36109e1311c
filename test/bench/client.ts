import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { ages } from "./stamp.ts";

const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });

/** Someone who answers a message with a stream of tokens. */
export interface Target {
  name: "product" | "bare" | "model";
  /** Path and body that start a run. */
  start(run: { message: string; sessionId?: string; tools?: boolean }): { path: string; body: object };
  /** Path that follows a run from its first event. */
  follow?(run: { sessionId: string; runId: string }): string;
  url: string;
  /** What a frame with a token begins with or holds; the last frame repeats all tokens and is none. */
  tokenMark: string;
  /** What the last frame of a run that went well holds. */
  endMark: string;
}

export const product = (url: string): Target => ({
  name: "product",
  url,
  start: ({ message, sessionId, tools = false }) => ({ path: `/agents/${tools ? "bench-tools" : "bench"}/runs`, body: { message, session_id: sessionId } }),
  follow: ({ sessionId, runId }) => `/agents/bench/runs/${runId}/events?session_id=${sessionId}`,
  tokenMark: "event: RunContent\n",
  endMark: "event: RunCompleted\n",
});

export const bare = (url: string): Target => ({
  ...product(url),
  name: "bare",
  start: ({ message, sessionId }) => ({ path: "/runs", body: { message, session_id: sessionId } }),
  follow: ({ sessionId }) => `/events?session_id=${sessionId}&after=-1`,
});

/** The fake model itself: what a run would take with nothing in between. */
export const model = (url: string): Target => ({
  name: "model",
  url,
  start: ({ message }) => ({ path: "/v1/chat/completions", body: { model: "fake", messages: [{ role: "user", content: message }] } }),
  tokenMark: '"delta":{"content":',
  endMark: "data: [DONE]",
});

/** One stream as its reader saw it. Times are `performance.now()`. */
export interface Reading {
  startedAt: number;
  firstEventAt: number;
  firstTokenAt: number;
  lastTokenAt: number;
  endedAt: number;
  tokens: number;
  events: number;
  /** Milliseconds that each token was under way. */
  delays: number[];
  /** Milliseconds between one token and the next. */
  gaps: number[];
  sessionId: string;
  runId: string;
}

/** Starts a run and reads it to its end. @throws when it does not end as it should. */
export function run(target: Target, given: { message: string; sessionId?: string; tools?: boolean }): Promise<Reading> {
  const { path, body } = target.start(given);
  return read(target, "POST", path, JSON.stringify(body));
}

/** What a reader may want to do as a stream goes by. Returning `true` ends the reading. */
type Watch = (reading: Reading, newest: { delayMs: number }) => boolean | void;

export function follow(target: Target, run: { sessionId: string; runId: string }, watch: Watch): Promise<Reading> {
  return read(target, "GET", target.follow?.(run) ?? "", undefined, watch);
}

/** As `run`, with someone who looks at each token. */
export function runWatched(target: Target, given: { message: string; sessionId?: string }, watch: Watch): Promise<Reading> {
  const { path, body } = target.start(given);
  return read(target, "POST", path, JSON.stringify(body), watch);
}

function read(target: Target, method: string, path: string, body: string | undefined, watch?: Watch): Promise<Reading> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    const reading: Reading = { startedAt, firstEventAt: 0, firstTokenAt: 0, lastTokenAt: 0, endedAt: 0, tokens: 0, events: 0, delays: [], gaps: [], sessionId: "", runId: "" };
    const headers = { accept: "text/event-stream", ...(body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }) };
    const request = httpRequest(`${target.url}${path}`, { method, agent, headers }, (response: IncomingMessage) => {
      let buffered = "";
      let hasEnded = false;
      response.setEncoding("latin1");
      response.on("data", (data: string) => {
        const now = performance.now();
        buffered += data;
        let from = 0;
        for (let end = buffered.indexOf("\n\n"); end !== -1; end = buffered.indexOf("\n\n", from)) {
          const frame = buffered.slice(from, end + 1);
          from = end + 2;
          hasEnded = frame.includes(target.endMark);
          if (take(reading, frame, target, now, watch)) {
            request.destroy();
            resolve({ ...reading, endedAt: now });
            return;
          }
        }
        buffered = buffered.slice(from);
      });
      response.on("end", () => {
        if (response.statusCode === 200 && hasEnded) resolve({ ...reading, endedAt: performance.now() });
        else reject(new Error(`${target.name} answered ${response.statusCode} after ${reading.tokens} tokens; the rest: ${buffered.slice(0, 500)}`));
      });
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

function take(reading: Reading, frame: string, target: Target, now: number, watch: Watch | undefined): boolean {
  if (!frame.includes("data: ")) return false;
  reading.events += 1;
  if (reading.firstEventAt === 0) {
    reading.firstEventAt = now;
    reading.sessionId = /"session_id":"([^"]+)"/.exec(frame)?.[1] ?? "";
    reading.runId = /"run_id":"([^"]+)"/.exec(frame)?.[1] ?? "";
  }
  if (!frame.includes(target.tokenMark)) return false;
  for (const delayMs of ages(frame)) {
    reading.tokens += 1;
    reading.delays.push(delayMs);
    if (reading.firstTokenAt === 0) reading.firstTokenAt = now;
    else reading.gaps.push(now - reading.lastTokenAt);
    reading.lastTokenAt = now;
    if (watch?.(reading, { delayMs }) === true) return true;
  }
  return false;
}
