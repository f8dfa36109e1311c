import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { backoffDelay } from "../../../src/lib/backoff.ts";
import { systemClock } from "../../../src/lib/clock.ts";

describe("backoffDelay", () => {
  it("is the same each time, or doubles, up to a bound", () => {
    const delays = (options: Parameters<typeof backoffDelay>[1]) => [1, 2, 3, 4, 2_000].map((retry) => backoffDelay(retry, options));
    expect(delays({ baseMs: 100, exponential: false })).toEqual([100, 100, 100, 100, 100]);
    expect(delays({ baseMs: 100, exponential: true, maxMs: 500 })).toEqual([100, 200, 400, 500, 500]);
    expect(delays({ baseMs: 0, exponential: false })).toEqual([0, 0, 0, 0, 0]);
  });
});

describe("systemClock", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const state = async (promise: Promise<void>) => {
    let done = false;
    void promise.then(() => (done = true));
    await vi.advanceTimersByTimeAsync(0);
    return () => done;
  };

  it("sleeps as long as it is told", async () => {
    const done = await state(systemClock.sleep(1_000));
    await vi.advanceTimersByTimeAsync(999);
    expect(done()).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(done()).toBe(true);
  });

  it("wakes at once when the signal aborts, and leaves no timer behind", async () => {
    const stop = new AbortController();
    const done = await state(systemClock.sleep(1_000, stop.signal));
    stop.abort();
    await vi.advanceTimersByTimeAsync(0);
    expect(done()).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
    expect((await state(systemClock.sleep(1_000, stop.signal)))()).toBe(true);
  });

  it.each([Number.POSITIVE_INFINITY, 2 ** 31, 1e12])("does not wake at once for being told to sleep %d ms", async (ms) => {
    const done = await state(systemClock.sleep(ms));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(done()).toBe(false);
  });
});
