import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "./until.ts";

/** Something that a tool did to the world, or began to. */
export interface Act {
  tool: string;
  tag: string;
  /** The idempotency key that the tool was given. */
  key: string;
  at: number;
  /** Whether whoever asked was still there for the answer. */
  answered: boolean;
}

/** The world outside: it counts what tools do to it, and no kill of the server reaches it. */
export interface World {
  url: string;
  acts(tag?: string): Act[];
  /** How often the world changed: acts under one key of `idem` are one. */
  effects(tag: string): number;
  /** Lets those go who wait at a gate, or will. */
  release(gate: string): void;
  /** Waits until so many have come to a gate. */
  reached(gate: string, arrivals?: number): Promise<void>;
  /** How many of those who came to a gate are still waiting there. */
  waitingAt(gate: string): number;
  close(): Promise<void>;
}

export async function startWorld(): Promise<World> {
  const acts: Act[] = [];
  const released = new Set<string>();
  const arrivals = new Map<string, number>();
  const waiting = new Map<string, Set<() => void>>();

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://world");
    const [, route, name = ""] = url.pathname.split("/").map(decodeURIComponent);
    if (route === "act") {
      const { tag, key, ms } = JSON.parse(await text(request)) as { tag: string; key: string; ms: number };
      // It has happened before anyone is told: a caller that dies meanwhile can not know.
      const act: Act = { tool: name, tag, key, at: Date.now(), answered: false };
      acts.push(act);
      await sleep(ms);
      act.answered = !response.destroyed;
      response.end(resultOf(act));
      return;
    }
    if (route === "probe") {
      const found = acts.find((act) => act.key === url.searchParams.get("key"));
      response.end(JSON.stringify(found === undefined ? {} : { result: resultOf(found) }));
      return;
    }
    if (route === "gate") {
      arrivals.set(name, (arrivals.get(name) ?? 0) + 1);
      await passGate(name, response);
      response.end(`passed ${name}`);
      return;
    }
    response.writeHead(404).end();
  }

  function passGate(name: string, response: ServerResponse): Promise<void> {
    if (released.has(name)) return Promise.resolve();
    return new Promise((resolve) => {
      const here = waiting.get(name) ?? new Set();
      waiting.set(name, here);
      const go = () => {
        here.delete(go);
        resolve();
      };
      here.add(go);
      response.on("close", go);
    });
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await new Promise<void>((resolve) => server.once("listening", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    acts: (tag) => acts.filter((act) => tag === undefined || act.tag === tag),
    effects(tag) {
      const done = acts.filter((act) => act.tag === tag);
      return done.every((act) => act.tool === "idem") ? new Set(done.map((act) => act.key)).size : done.length;
    },
    release(gate) {
      released.add(gate);
      for (const go of waiting.get(gate) ?? []) go();
    },
    async reached(gate, wanted = 1) {
      await until(`${wanted} to come to the gate "${gate}"`, () => (arrivals.get(gate) ?? 0) >= wanted, { withinMs: 30_000, instead: () => Object.fromEntries(arrivals) });
    },
    waitingAt: (gate) => waiting.get(gate)?.size ?? 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The same act has the same result, whoever asks for it and when. */
const resultOf = (act: Pick<Act, "tool" | "tag">): string => `${act.tool} of ${act.tag} is done`;

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}
