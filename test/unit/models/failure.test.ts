import { describe, expect, it } from "vitest";
import { kindOfStatus, modelFailure, retryAfterMs, speaksOfOverflow, withoutSecrets } from "../../../src/models/failure.ts";

describe("retryAfterMs", () => {
  const wait = (headers: Record<string, string>) => retryAfterMs(new Headers(headers), Date.parse("2026-11-01T00:00:00Z"));

  it.each([
    [{ "retry-after": "3" }, 3000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after": "Sun, 01 Nov 2026 00:00:10 GMT" }, 10_000],
    [{ "retry-after": "Sat, 31 Oct 2026 00:00:10 GMT" }, 0],
    [{ "retry-after-ms": "120", "retry-after": "9" }, 120],
    [{ "retry-after": "soon" }, undefined],
    [{ "retry-after": "-1" }, undefined],
    [{}, undefined],
  ] as [Record<string, string>, number | undefined][])("%o is %s", (headers, expected) => expect(wait(headers)).toBe(expected));
});

describe("speaksOfOverflow", () => {
  it.each([
    "prompt is too long: 210000 tokens > 200000 maximum",
    "This model's maximum context length is 128000 tokens.",
    "Your input exceeds the context window of this model.",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "the request exceeds the available context size, try increasing it",
    "Input is too long for requested model.",
  ])("yes: %s", (message) => expect(speaksOfOverflow(message)).toBe(true));

  it.each(["messages: at least one message is required", "max_tokens: must be at least 1", "Rate limit reached: too many requests"])("no: %s", (message) => expect(speaksOfOverflow(message)).toBe(false));
});

describe("kindOfStatus", () => {
  it.each([
    [400, "invalid_request"],
    [401, "authentication"],
    [402, "billing"],
    [403, "authentication"],
    [404, "not_found"],
    [408, "server_error"],
    [409, "server_error"],
    [413, "context_overflow"],
    [422, "invalid_request"],
    [429, "rate_limited"],
    [500, "server_error"],
    [503, "overloaded"],
    [504, "server_error"],
    [529, "overloaded"],
  ] as const)("%i is %s", (status, kind) => expect(kindOfStatus(status)).toBe(kind));
});

describe("modelFailure", () => {
  it("is a sentence, short however long the provider's message is", () => {
    const failure = modelFailure("Anthropic", "overloaded", { detail: "x".repeat(5000), status: 529 });
    expect(failure.message).toMatch(/^Anthropic is overloaded \(HTTP 529\): x+…$/);
    expect(failure.message.length).toBeLessThan(700);
  });

  it("holds no secret", () => {
    const failure = { kind: "authentication", message: "key sk-123456 and sk-123456", providerCode: "bad_sk-123456" } as const;
    expect(withoutSecrets(failure, ["sk-123456", ""])).toEqual({ kind: "authentication", message: "key [secret] and [secret]", providerCode: "bad_[secret]" });
  });
});
