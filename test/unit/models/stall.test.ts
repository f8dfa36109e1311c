import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { watchStall } from "../../../src/models/stall.ts";

describe("watchStall", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("aborts after silence while somebody waits", async () => {
    const watch = watchStall(new AbortController().signal, 1000);
    const waiting = watch.during(new Promise(() => {}));
    const outcome = expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    await vi.advanceTimersByTimeAsync(999);
    expect(watch.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await outcome;
    expect(watch.signal.aborted).toBe(true);
    expect(watch.stalled()).toBe(true);
  });

  it("does not count the time that the consumer takes", async () => {
    const watch = watchStall(new AbortController().signal, 1000);
    await watch.during(Promise.resolve("a byte"));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(watch.signal.aborted).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("ends a wait that would never end when the caller aborts, and calls it no stall", async () => {
    const caller = new AbortController();
    const watch = watchStall(caller.signal, 1000);
    const outcome = expect(watch.during(new Promise(() => {}))).rejects.toMatchObject({ name: "AbortError" });
    caller.abort();
    await outcome;
    await vi.advanceTimersByTimeAsync(5000);
    expect(watch.stalled()).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("closing aborts the request and lets go of the caller's signal", () => {
    const caller = new AbortController();
    const remove = vi.spyOn(caller.signal, "removeEventListener");
    const watch = watchStall(caller.signal, 1000);
    watch.close();
    expect(watch.signal.aborted).toBe(true);
    expect(remove).toHaveBeenCalledWith("abort", expect.any(Function));
  });
});
