import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { anthropicWire } from "./anthropic-wire.ts";
import { chatWire } from "./chat-wire.ts";
import type { RecordedRequest } from "./client.ts";
import { responsesWire } from "./responses-wire.ts";
import { DEFAULT_SCRIPT, keyOf } from "./script.ts";
import type { Script, Step } from "./script.ts";
import { split } from "./split.ts";
import { historyProblems } from "./valid-history.ts";
import { errorWordOf } from "./wire.ts";
import type { Wire, WireReply } from "./wire.ts";

const WIRES: readonly Wire[] = [anthropicWire, responsesWire, chatWire];

/** Between two chunks of a split frame, so that the reader gets them as two, and before a cut, so that it gets what came before. */
const PAUSE_MS = 5;

export interface FakeProvider {
  /** `http://127.0.0.1:<port>`. Anthropic's base URL is this, OpenAI's is this and `/v1`. */
  url: string;
  /** Every request so far, in order; those of one test with its key. */
  requests(key?: string): RecordedRequest[];
  /** Queues what the next requests with this key are answered with, one script each. */
  next(scripts: Script | Script[], key?: string): void;
  /** Opens a gate, for those who wait at it and those who come later. */
  release(gate: string): void;
  close(): Promise<void>;
}

export interface FakeProviderOptions {
  port?: number;
  /**
   * What a request is answered with when nothing is queued for it. An answer that follows from the request alone is the same
   * however often the request is made again, as after a crash.
   */
  answer?: (request: RecordedRequest) => Script | undefined;
}

/**
 * A real HTTP server that speaks the wires of Anthropic's Messages, OpenAI's Responses and OpenAI's Chat Completions, and
 * plays scripts. Steered from the same process by its functions, or over HTTP (`client.ts`) from workerd and from other
 * processes.
 */
export async function startFakeProvider({ port = 0, answer }: FakeProviderOptions = {}): Promise<FakeProvider> {
  const queues = new Map<string, Script[]>();
  const requests: RecordedRequest[] = [];
  const released = new Set<string>();
  const waiting = new Map<string, (() => void)[]>();

  const provider = {
    requests: (key?: string) => requests.filter((request) => key === undefined || request.key === key),
    next(scripts: Script | Script[], key = "") {
      queues.set(key, [...(queues.get(key) ?? []), ...[scripts].flat()]);
    },
    release(gate: string) {
      released.add(gate);
      for (const go of waiting.get(gate) ?? []) go();
      waiting.delete(gate);
    },
  };

  function passGate(gate: string, gone: AbortSignal): Promise<void> {
    if (released.has(gate) || gone.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      waiting.set(gate, [...(waiting.get(gate) ?? []), resolve]);
      gone.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { error: { message: `The fake provider failed: ${String(error)}` } });
    });
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://fake");
    const route = `${request.method} ${url.pathname}`;
    const wire = WIRES.find((candidate) => route === `POST ${candidate.path}`);
    if (wire) return serve(wire, request, response);
    switch (route) {
      case "GET /__requests":
        return sendJson(response, 200, provider.requests(url.searchParams.get("key") ?? undefined));
      case "POST /__script": {
        const { key, scripts } = await readJson<{ key?: string; scripts: Script | Script[] }>(request);
        provider.next(scripts, key);
        return sendJson(response, 200, {});
      }
      case "POST /__release": {
        const { gate } = await readJson<{ gate: string }>(request);
        provider.release(gate);
        return sendJson(response, 200, {});
      }
      default:
        return sendJson(response, 404, { error: { message: `The fake provider serves no ${route}.` } });
    }
  }

  async function serve(wire: Wire, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readJson<Record<string, unknown>>(request);
    const key = keyOf(wire.lastUserText(body));
    const queued = (queues.get(key) ?? []).shift();
    const record: RecordedRequest = {
      wire: wire.name,
      key,
      headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
      body,
      problems: historyProblems(wire.name, body),
      receivedAt: Date.now(),
      scripted: queued !== undefined,
      state: "open",
    };
    requests.push(record);

    // Held until the client lets go: the only sign of a cancel that a provider ever sees.
    const gone = new AbortController();
    response.on("close", () => {
      if (record.state === "open") record.state = "closed-by-client";
      gone.abort();
    });
    if (body.stream !== true) return sendJson(response, 400, wire.errorBody("invalid_request", "The fake provider only streams."));
    await play(queued ?? answer?.(record) ?? DEFAULT_SCRIPT, wire, body, response, record, gone.signal);
  }

  async function play(script: Script, wire: Wire, body: Record<string, unknown>, response: ServerResponse, record: RecordedRequest, gone: AbortSignal): Promise<void> {
    const reply = wire.reply(body);
    let begun = false;

    async function send(text: string): Promise<void> {
      if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" }).flushHeaders();
      const chunks = split(Buffer.from(text), script);
      for (const [index, chunk] of chunks.entries()) {
        if (gone.aborted) return;
        response.write(chunk);
        if (index < chunks.length - 1) await sleep(PAUSE_MS);
      }
    }

    async function begin(step: Step): Promise<void> {
      if (begun) return;
      begun = true;
      await send(reply.begin(step.type === "open" ? step.usage : undefined));
    }

    function finish(): void {
      if (gone.aborted) return;
      record.state = "finished";
      response.end();
    }

    for (const step of script.steps) {
      if (gone.aborted) return;
      switch (step.type) {
        case "wait":
          await sleep(step.ms);
          break;
        case "gate":
          await passGate(step.name, gone);
          break;
        case "http": {
          record.state = "finished";
          const text = step.body ?? JSON.stringify(wire.errorBody(step.error ?? errorWordOf(step.status), step.message ?? ""));
          response.writeHead(step.status, { "content-type": step.body === undefined ? "application/json" : "text/html", ...step.headers }).end(text);
          return;
        }
        case "eof":
          await send("");
          return finish();
        case "cut":
          await sleep(PAUSE_MS);
          record.state = "finished";
          response.destroy();
          return;
        case "raw":
          await send(step.text);
          break;
        case "open":
          await begin(step);
          break;
        default:
          if (step.type !== "frame" && step.type !== "ping") await begin(step);
          await send(speak(reply, step));
          if (step.type === "error" || step.type === "end") return finish();
      }
    }
    finish();
  }

  server.listen(port, "127.0.0.1");
  await new Promise<void>((resolve, reject) => server.once("listening", resolve).once("error", reject));
  return {
    ...provider,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const speak = (reply: WireReply, step: Parameters<WireReply["speak"]>[0]): string => reply.speak(step);

async function readJson<T>(request: IncomingMessage): Promise<T> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as T;
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
