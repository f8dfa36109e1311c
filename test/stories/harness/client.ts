import { EventStream, type WireEvent } from "./event-stream.ts";
import { Socket } from "./socket.ts";
import { until } from "./until.ts";

/** A run as `GET …/runs/{run_id}` shows it, as far as stories look at it. */
export interface WireRun {
  run_id: string;
  session_id: string;
  agent_id: string;
  status: string;
  content?: string;
  error_type?: string;
  messages: { role: string; content: string; tool_call_id?: string; tool_call_error?: boolean; tool_calls?: { id: string; function: { name: string } }[] }[];
  tools?: NonNullable<WireEvent["tool"]>[];
  events?: WireEvent[];
  metrics: Record<string, unknown>;
  session_state?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface Answer<Body = any> {
  status: number;
  headers: Headers;
  body: Body;
}

/** A run as a client knows it once it was told of it. */
export interface KnownRun {
  runId: string;
  sessionId: string;
}

type Fields = Record<string, string | number | boolean | undefined>;

/** An HTTP client of one agent on a server, as an app's author would write it. */
export interface Client {
  url: string;
  agent: string;
  /** The same server's other agent. */
  as(agent: string): Client;
  get<Body = any>(path: string, headers?: Record<string, string>): Promise<Answer<Body>>;
  post<Body = any>(path: string, fields?: Fields, init?: RequestInit): Promise<Answer<Body>>;
  json<Body = any>(method: string, path: string, body?: unknown): Promise<Answer<Body>>;
  /** Starts without streaming; answers at the run's end, or at once with `background`. */
  run(message: string, fields?: Fields, init?: RequestInit): Promise<Answer>;
  /** Starts and streams. */
  stream(message: string, fields?: Fields, options?: { paceMs?: number }): Promise<EventStream>;
  /** Starts and streams; gives the run once its first event told which it is. */
  started(message: string, fields?: Fields): Promise<{ run: KnownRun; stream: EventStream }>;
  /** Starts in the background. */
  background(message: string, fields?: Fields): Promise<KnownRun>;
  read(run: KnownRun): Promise<WireRun>;
  /** Waits until the run is over as readers see it. */
  over(run: KnownRun, withinMs?: number): Promise<WireRun>;
  /** The whole log, in one answer. */
  log(run: KnownRun, after?: number): Promise<WireEvent[]>;
  poll(run: KnownRun, after: number, wait?: number): Promise<Answer<{ status: string; events: WireEvent[]; ended: boolean }>>;
  /** As an EventSource does it. */
  follow(run: KnownRun, options?: { after?: number; lastEventId?: number; paceMs?: number }): Promise<EventStream>;
  /** As AgentOS's clients do it. */
  resume(run: KnownRun, after?: number, options?: { paceMs?: number }): Promise<EventStream>;
  cancel(run: KnownRun): Promise<Answer>;
  socket(sessionId: string): Promise<Socket>;
}

const isOver = (status: string): boolean => status === "COMPLETED" || status === "ERROR" || status === "CANCELLED";

export function client(url: string, agent = "chat"): Client {
  const runs = `/agents/${agent}/runs`;
  const ofRun = ({ runId }: KnownRun) => `${runs}/${runId}`;
  const inSession = ({ sessionId }: KnownRun, more: Record<string, string> = {}) => `?${new URLSearchParams({ session_id: sessionId, ...more })}`;

  async function open(path: string, init: RequestInit, paceMs = 0): Promise<EventStream> {
    const abort = new AbortController();
    const response = await fetch(url + path, { ...init, signal: abort.signal });
    if (response.status !== 200 && response.status !== 204) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return new EventStream(response, abort, paceMs);
  }

  const self: Client = {
    url,
    agent,
    as: (other) => client(url, other),
    get: async (path, headers = {}) => answerOf(await fetch(url + path, { headers })),
    post: async (path, fields = {}, init = {}) => answerOf(await fetch(url + path, { method: "POST", body: form(fields), ...init })),
    json: async (method, path, body) =>
      answerOf(await fetch(url + path, { method, headers: { "content-type": "application/json" }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })),
    run: (message, fields = {}, init = {}) => self.post(runs, { message, stream: false, ...fields }, init),
    stream: (message, fields = {}, { paceMs } = {}) => open(runs, { method: "POST", body: form({ message, ...fields }) }, paceMs),
    async started(message, fields) {
      const stream = await self.stream(message, fields);
      const first = await stream.until("the run to start", () => true);
      return { run: { runId: first.run_id, sessionId: first.session_id }, stream };
    },
    async background(message, fields = {}) {
      const { status, body } = await self.run(message, { background: true, ...fields });
      if (status !== 202) throw new Error(`Starting in the background answered ${status}: ${JSON.stringify(body)}`);
      return { runId: body.run_id, sessionId: body.session_id };
    },
    async read(run) {
      const { status, body } = await self.get<WireRun>(ofRun(run) + inSession(run));
      if (status !== 200) throw new Error(`Reading the run ${run.runId} answered ${status}: ${JSON.stringify(body)}`);
      return body;
    },
    over: (run, withinMs = 30_000) =>
      until(
        `the run ${run.runId} to be over`,
        async () => {
          const read = await self.read(run);
          return isOver(read.status) ? read : undefined;
        },
        { withinMs, everyMs: 25 },
      ),
    async log(run, after = -1) {
      const { status, body } = await self.poll(run, after);
      if (status !== 200) throw new Error(`Reading the log of ${run.runId} answered ${status}: ${JSON.stringify(body)}`);
      return body.events;
    },
    poll: (run, after, wait = 0) => self.get(ofRun(run) + "/events" + inSession(run, { after: String(after), wait: String(wait) })),
    follow: (run, { after, lastEventId, paceMs } = {}) =>
      open(
        ofRun(run) + "/events" + inSession(run, after === undefined ? {} : { after: String(after) }),
        { headers: { accept: "text/event-stream", ...(lastEventId === undefined ? {} : { "last-event-id": String(lastEventId) }) } },
        paceMs,
      ),
    resume: (run, after, { paceMs } = {}) =>
      open(ofRun(run) + "/resume", { method: "POST", body: form({ session_id: run.sessionId, last_event_index: after }) }, paceMs),
    cancel: (run) => self.post(`${ofRun(run)}/cancel${inSession(run)}`),
    socket: (sessionId) => new Socket(`${url.replace("http", "ws")}/sessions/${encodeURIComponent(sessionId)}/socket`).opened(),
  };
  return self;
}

function form(fields: Fields): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) data.set(name, String(value));
  return data;
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  let body: unknown = text;
  try {
    body = JSON.parse(text);
  } catch {
    // Some answers are no JSON: the docs page, a stream.
  }
  return { status: response.status, headers: response.headers, body };
}
