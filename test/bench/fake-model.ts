/**
 * A Chat Completions server that costs next to nothing: its only work is to send tokens at their times. It runs in a
 * process of its own and prints its address. What it answers is written in the newest user message, between two `#`:
 *
 *   #n=20,ms=5#              20 tokens, one each 5 ms; `ms=0` is as fast as the connection takes them
 *   #n=1200,burst=1000,ms=20#  the first 1000 at once, the others paced
 *   #n=20,ms=0,tool=1#       first a call of `lookup`, then, once it has a result, the tokens
 *
 * Each token is its own time stamp, so that whoever reads it knows how long it was under way.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { stampedToken } from "./stamp.ts";

/** How many tokens of an unpaced reply go out before other replies get their turn. */
const TOKENS_A_SLICE = 20;

interface Asked {
  n: number;
  ms: number;
  burst: number;
  tool: number;
  /** How many messages the request holds; told as its tokens, so that it shows how much of a session a model was given. */
  shown: number;
}

const HEAD = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1,"model":"fake","choices":[`;
const chunk = (delta: string, finish: string): string => `${HEAD}{"index":0,"delta":${delta},"finish_reason":${finish}}]}\n\n`;
const tokenChunk = (): string => chunk(`{"content":"${stampedToken()}"}`, "null");
const ending = ({ shown }: Asked, tokens: number, finish: string): string =>
  `${chunk("{}", finish)}${HEAD}],"usage":{"prompt_tokens":${shown},"completion_tokens":${tokens},"total_tokens":${shown + tokens}}}\n\ndata: [DONE]\n\n`;

let latestMs = 0;

const server = createServer((request, response) => {
  if (request.method !== "POST") return answerLateness(response);
  const chunks: Buffer[] = [];
  request.on("data", (data: Buffer) => chunks.push(data));
  request.on("end", () => reply(Buffer.concat(chunks).toString("latin1"), request, response));
});

/** How late a token was at most since this was last asked: whether the model itself was the bottleneck. */
function answerLateness(response: ServerResponse): void {
  response.end(JSON.stringify({ latestMs }));
  latestMs = 0;
}

function reply(body: string, request: IncomingMessage, response: ServerResponse): void {
  request.socket.setNoDelay(true);
  const to = body.lastIndexOf("#");
  const from = body.lastIndexOf("#", to - 1);
  const asked: Asked = { n: 20, ms: 0, burst: 0, tool: 0, shown: body.split('"role":').length - 1 };
  for (const pair of body.slice(from + 1, to).split(",")) {
    const [name, value] = pair.split("=");
    asked[name as keyof Asked] = Number(value);
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const isAnswered = body.indexOf('"role":"tool"', to) !== -1;
  if (asked.tool > 0 && !isAnswered) {
    const call = { index: 0, id: "call_1", type: "function", function: { name: "lookup", arguments: '{"id":"c-1001"}' } };
    response.end(`${chunk(JSON.stringify({ tool_calls: [call] }), "null")}${ending(asked, 10, '"tool_calls"')}`);
    return;
  }
  if (asked.ms === 0) sendUnpaced(response, asked.n, () => response.end(ending(asked, asked.n, '"stop"')));
  else if (asked.burst > 0) sendUnpaced(response, asked.burst, () => sendPaced(response, asked));
  else sendPaced(response, asked);
}

function sendUnpaced(response: ServerResponse, count: number, then: () => void): void {
  let left = count;
  const slice = () => {
    if (response.destroyed) return;
    let text = "";
    for (let room = Math.min(left, TOKENS_A_SLICE); room > 0; room -= 1, left -= 1) text += tokenChunk();
    const hasRoom = response.write(text);
    if (left === 0) then();
    else if (hasRoom) setImmediate(slice);
    else response.once("drain", slice);
  };
  slice();
}

function sendPaced(response: ServerResponse, asked: Asked): void {
  const { n, ms, burst } = asked;
  const startedAt = performance.now();
  let sent = 0;
  const total = n - burst;
  const next = () => {
    if (response.destroyed) return;
    const late = performance.now() - (startedAt + (sent + 1) * ms);
    latestMs = Math.max(latestMs, late);
    response.write(tokenChunk());
    sent += 1;
    if (sent === total) response.end(ending(asked, n, '"stop"'));
    else setTimeout(next, Math.max(0, startedAt + (sent + 1) * ms - performance.now()));
  };
  setTimeout(next, ms);
}

server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })));
