import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fakeProviderClient } from "../../fakes/client.ts";
import type { FakeProviderClient } from "../../fakes/client.ts";
import { startFakeProvider } from "../../fakes/provider.ts";
import type { FakeProvider } from "../../fakes/provider.ts";
import { end, gate, http, open, say, script } from "../../fakes/script.ts";
import { split } from "../../fakes/split.ts";

let provider: FakeProvider;
let client: FakeProviderClient;

beforeAll(async () => {
  provider = await startFakeProvider();
  client = fakeProviderClient(provider.url);
});
afterAll(() => provider.close());

const ask = (path: string, text: string, signal?: AbortSignal) =>
  fetch(provider.url + path, { method: "POST", body: JSON.stringify({ stream: true, messages: [{ role: "user", content: text }], input: [{ role: "user", content: text }] }), signal: signal ?? null });

describe("the fake provider", () => {
  it.each(["/v1/messages", "/v1/responses", "/v1/chat/completions"])("%s answers ok where nothing is queued", async (path) => {
    const response = await ask(path, "hello #default");
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    expect(await response.text()).toContain('"ok"');
  });

  it("plays what is queued for a key, in order, and keeps keys apart", async () => {
    await client.next("one", script(say("first"), end()), script(say("second"), end()));
    provider.next(script(say("other"), end()), "two");
    expect(await (await ask("/v1/chat/completions", "x #two")).text()).toContain("other");
    expect(await (await ask("/v1/messages", "x #one")).text()).toContain("first");
    expect(await (await ask("/v1/responses", "x #one")).text()).toContain("second");
    expect((await client.requests("one")).map(({ wire, scripted, state }) => [wire, scripted, state])).toEqual([
      ["anthropic", true, "finished"],
      ["responses", true, "finished"],
    ]);
  });

  it("a gate holds until it is released, before or after it is reached", async () => {
    await client.next("gate", script(say("a"), gate("g1"), gate("g2"), say("b"), end()));
    await client.release("g2");
    const answer = (await ask("/v1/messages", "x #gate")).text();
    await client.until("gate", ([request]) => request?.state === "open");
    await client.release("g1");
    expect(await answer).toContain('"b"');
  });

  it("tells which requests the client closed, before and after the headers", async () => {
    await client.next("gone", script(gate("never")), script(open(), gate("never")));
    for (let round = 1; round <= 2; round += 1) {
      const controller = new AbortController();
      const asked = ask("/v1/messages", "x #gone", controller.signal);
      asked.catch(() => {});
      await client.until("gone", (all) => all.length === round);
      if (round === 2) await asked;
      controller.abort();
      await client.until("gone", (all) => all.at(-1)!.state === "closed-by-client");
    }
  });

  it("answers with a status before any stream, in the vendor's words", async () => {
    await client.next("status", script(http(529, { "retry-after": "3" })));
    const response = await ask("/v1/messages", "x #status");
    expect([response.status, response.headers.get("retry-after")]).toEqual([529, "3"]);
    expect(await response.json()).toMatchObject({ type: "error", error: { type: "overloaded_error" } });
  });

  it("cuts bytes inside what a script names, and every so many", () => {
    const cut = (text: string, how: Parameters<typeof split>[1]) => split(Buffer.from(text), how).map((chunk) => chunk.toString("latin1").length);
    expect(cut("ab😀cd", { splitInside: ["😀"] })).toEqual([4, 4]);
    expect(cut("abcdefg", { chunkBytes: 3 })).toEqual([3, 3, 1]);
    expect(cut("abc", {})).toEqual([3]);
  });
});
