import type { Script } from "./script.ts";
import type { WireName } from "./wire.ts";

/** A request as the fake provider got it. */
export interface RecordedRequest {
  wire: WireName;
  /** `#word` in the newest user message, or empty. */
  key: string;
  headers: Record<string, string>;
  body: Record<string, unknown>;
  /** What is wrong with the history in it (`valid-history.ts`); empty when a provider would take it. */
  problems: string[];
  receivedAt: number;
  /** Whether a queued script answered it, or the default. */
  scripted: boolean;
  /** `finished`: the script ran to its end. `closed-by-client`: the client let go before. */
  state: "open" | "finished" | "closed-by-client";
}

export interface FakeProviderClient {
  requests(key?: string): Promise<RecordedRequest[]>;
  /** Queues what the next requests with this key are answered with, one script each. */
  next(key: string, ...scripts: Script[]): Promise<void>;
  release(gate: string): Promise<void>;
  /** Waits until the requests with this key are as wanted. Fails with what is there instead. */
  until(key: string, wanted: (requests: RecordedRequest[]) => boolean, deadlineMs?: number): Promise<RecordedRequest[]>;
}

/** Steers a fake provider over HTTP: from inside workerd, or when it runs in another process. */
export function fakeProviderClient(url: string): FakeProviderClient {
  async function call<T>(path: string, body?: unknown): Promise<T> {
    const response = await fetch(url + path, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`The fake provider answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  }

  const requests = (key?: string) => call<RecordedRequest[]>(`/__requests${key === undefined ? "" : `?key=${encodeURIComponent(key)}`}`);

  return {
    requests,
    next: (key, ...scripts) => call("/__script", { key, scripts }),
    release: (gate) => call("/__release", { gate }),
    async until(key, wanted, deadlineMs = 5000) {
      const deadline = Date.now() + deadlineMs;
      while (true) {
        const seen = await requests(key);
        if (wanted(seen)) return seen;
        if (Date.now() > deadline) throw new Error(`Waited ${deadlineMs} ms for requests with key "${key}"; there are: ${JSON.stringify(seen.map(({ wire, state }) => ({ wire, state })))}`);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
  };
}
