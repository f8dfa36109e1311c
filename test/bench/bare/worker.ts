/**
 * The least that a Worker with a Durable Object can do for a run: it stores the messages, passes the model's tokens on as
 * numbered events, stores those a quarter of a second later, and tells D1 at the start and at the end. No tools, no turn
 * lock, no recovery, no validation: what the product costs beyond this is what its promises cost.
 */
import { DurableObject } from "cloudflare:workers";

interface Env {
  SESSIONS: DurableObjectNamespace<AgentSession>;
  DB: D1Database;
  OPENAI_BASE_URL: string;
}

interface Start {
  message: string;
  session_id: string;
}

const FLUSH_AFTER_MS = 250;
const SYSTEM = { role: "system", content: "You are a helpful assistant." };

const encoder = new TextEncoder();

export class AgentSession extends DurableObject<Env> {
  readonly #sql: SqlStorage;
  readonly #followers = new Set<Follower>();
  /** Frames of the newest run that are not stored yet. */
  #pending: string[] = [];
  #stored = 0;
  #runs: number;
  #isRunning = false;

  constructor(context: DurableObjectState, env: Env) {
    super(context, env);
    this.#sql = context.storage.sql;
    this.#sql.exec("CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL)");
    this.#sql.exec("CREATE TABLE IF NOT EXISTS events (run INTEGER NOT NULL, first INTEGER NOT NULL, frames TEXT NOT NULL, PRIMARY KEY (run, first)) WITHOUT ROWID");
    this.#runs = this.#sql.exec<{ run: number }>("SELECT COALESCE(MAX(run), 0) AS run FROM messages").one().run;
  }

  override async fetch(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === "/size") return Response.json({ databaseSize: this.#sql.databaseSize });
    const follower = new Follower((gone) => this.#followers.delete(gone));
    if (url.pathname === "/events") {
      for (const frame of this.#framesAfter(Number(url.searchParams.get("after")))) follower.write(frame);
    } else {
      this.#begin(await request.json<Start>(), follower);
    }
    if (this.#isRunning) this.#followers.add(follower);
    else follower.close();
    return new Response(follower.body, { headers: { "content-type": "text/event-stream" } });
  }

  #begin({ message, session_id: sessionId }: Start, follower: Follower): void {
    this.#runs += 1;
    const run = this.#runs;
    const history = this.#sql.exec("SELECT role, content FROM messages ORDER BY id").toArray();
    this.#sql.exec("INSERT INTO messages (run, role, content) VALUES (?, ?, ?)", run, "user", message);
    this.#pending = [];
    this.#stored = 0;
    this.#isRunning = true;
    this.#followers.add(follower);
    this.ctx.waitUntil(this.#drive({ run, runId: `${sessionId}:${run}`, sessionId, messages: [SYSTEM, ...history, { role: "user", content: message }] }));
  }

  async #drive({ run, runId, sessionId, messages }: { run: number; runId: string; sessionId: string; messages: object[] }): Promise<void> {
    this.#project(runId, sessionId, "RUNNING", "");
    let text = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      clearTimeout(timer);
      timer = undefined;
      if (this.#pending.length === 0) return;
      this.#sql.exec("INSERT INTO events (run, first, frames) VALUES (?, ?, ?)", run, this.#stored, JSON.stringify(this.#pending));
      this.#stored += this.#pending.length;
      this.#pending = [];
    };
    const emit = (event: string, fields: object) => {
      const index = this.#stored + this.#pending.length;
      const frame = `id: ${index}\nevent: ${event}\ndata: ${JSON.stringify({ event, run_id: runId, session_id: sessionId, ...fields, event_index: index })}\n\n`;
      this.#pending.push(frame);
      for (const follower of this.#followers) follower.write(frame);
      timer ??= setTimeout(flush, FLUSH_AFTER_MS);
    };

    emit("RunStarted", {});
    const response = await fetch(`${this.env.OPENAI_BASE_URL}/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "fake", messages, stream: true, stream_options: { include_usage: true } }),
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    let buffered = "";
    while (true) {
      const { value, done } = await reader.read();
      if (done) break;
      buffered += decoder.decode(value, { stream: true });
      for (let end = buffered.indexOf("\n\n"); end !== -1; end = buffered.indexOf("\n\n")) {
        const line = buffered.slice(0, end);
        buffered = buffered.slice(end + 2);
        if (!line.startsWith("data: {")) continue;
        const delta = (JSON.parse(line.slice(6)) as { choices: { delta: { content?: string } }[] }).choices[0]?.delta.content;
        if (delta === undefined) continue;
        text += delta;
        emit("RunContent", { content: delta });
      }
    }
    emit("RunCompleted", { content: text });
    flush();
    this.#sql.exec("INSERT INTO messages (run, role, content) VALUES (?, ?, ?)", run, "assistant", text);
    this.#project(runId, sessionId, "COMPLETED", text);
    this.#isRunning = false;
    for (const follower of this.#followers) follower.close();
    this.#followers.clear();
  }

  #project(runId: string, sessionId: string, status: string, content: string): void {
    const { DB } = this.env;
    const session = DB.prepare("INSERT INTO sessions (session_id, updated_at, document) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET updated_at = ?2, document = ?3");
    const run = DB.prepare("INSERT INTO runs (run_id, session_id, status, document) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET status = ?3, document = ?4");
    const document = JSON.stringify({ sessionId, runId, status, content });
    this.ctx.waitUntil(DB.batch([session.bind(sessionId, Date.now(), JSON.stringify({ sessionId })), run.bind(runId, sessionId, status, document)]));
  }

  #framesAfter(after: number): string[] {
    const rows = this.#sql.exec<{ frames: string }>("SELECT frames FROM events WHERE run = ? ORDER BY first", this.#runs).toArray();
    return [...rows.flatMap((row) => JSON.parse(row.frames) as string[]), ...this.#pending].slice(after + 1);
  }
}

/** One client: one write a tick, however many frames are waiting. */
class Follower {
  readonly body: ReadableStream<Uint8Array>;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #waiting = "";
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(onGone: (follower: Follower) => void) {
    this.body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        clearTimeout(this.#timer);
        onGone(this);
      },
    });
  }

  write(frame: string): void {
    this.#waiting += frame;
    this.#timer ??= setTimeout(() => this.#flush(), 0);
  }

  close(): void {
    this.#flush();
    this.#controller.close();
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waiting === "") return;
    this.#controller.enqueue(encoder.encode(this.#waiting));
    this.#waiting = "";
  }
}

export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    if (url.pathname === "/health") return new Response("ok");
    const stub = (sessionId: string) => env.SESSIONS.get(env.SESSIONS.idFromName(sessionId));
    if (request.method === "GET") return stub(url.searchParams.get("session_id") ?? "").fetch(`http://session${url.pathname}${url.search}`);
    const start = await request.json<Partial<Start>>();
    const sessionId = start.session_id ?? crypto.randomUUID();
    return stub(sessionId).fetch("http://session/start", { method: "POST", body: JSON.stringify({ ...start, session_id: sessionId }) });
  },
} satisfies ExportedHandler<Env>;
