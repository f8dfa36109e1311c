import { describe, expect, it } from "vitest";
import { AppError, refused } from "../../../src/domain/errors.ts";
import { ChosenSessionId, isRunId, isSessionId, newId } from "../../../src/domain/ids.ts";
import { canSee } from "../../../src/domain/principal.ts";
import { isDelta, isTerminalEvent } from "../../../src/domain/run-event.ts";
import { isTerminal, isUnfinished, RUN_STATUSES } from "../../../src/domain/run.ts";
import { sessionTitle } from "../../../src/domain/session.ts";
import { EFFECT_STATUSES, effectKey, isSettled } from "../../../src/domain/tool-call.ts";
import { addUsage, NO_USAGE } from "../../../src/domain/usage.ts";

describe("ids", () => {
  it("are unique and sort by time", () => {
    const ids = Array.from({ length: 1_000 }, newId);
    expect(new Set(ids).size).toBe(1_000);
    expect(ids.toSorted()).toEqual(ids);
    expect(ids.every(isRunId)).toBe(true);
  });

  it.each(["", "a\u0000b", "a\nb", "\u007f", "\u009f", "a\ud83d", "x".repeat(256), "é".repeat(128)])("no session has the id %j", (id) => {
    expect(isSessionId(id)).toBe(false);
    expect(ChosenSessionId.safeParse(id).success).toBe(false);
  });

  it.each(["a", "x".repeat(255), "é".repeat(127), "мой сеанс", "😀", "../../etc", "__proto__", " "])("a session may have the id %j", (id) => {
    expect(isSessionId(id)).toBe(true);
    expect(ChosenSessionId.parse(id)).toBe(id);
  });

  it("that the platform derives may be, and may not be chosen", () => {
    expect(isSessionId("sbx:slack:1")).toBe(true);
    expect(ChosenSessionId.safeParse("sbx:slack:1").error?.issues[0]?.message).toContain("keeps for itself");
  });

  it("of runs are UUIDs", () => {
    for (const id of ["", "run-1", "../x", `${newId()}x`]) expect(isRunId(id)).toBe(false);
  });
});

describe("statuses", () => {
  it("each run is unfinished, paused or over", () => {
    expect(RUN_STATUSES.filter(isUnfinished)).toEqual(["pending", "running"]);
    expect(RUN_STATUSES.filter(isTerminal)).toEqual(["completed", "failed", "cancelled", "regenerated"]);
  });

  it("each call is open or settled", () => {
    expect(EFFECT_STATUSES.filter((status) => !isSettled(status))).toEqual(["planned", "started"]);
  });

  it("a call's key names its place, and not the provider's id", () => {
    expect(effectKey({ runId: "r", step: 1, position: 2 })).toBe("r:1:2");
  });
});

describe("events", () => {
  it("three of them are last", () => {
    for (const type of ["run.completed", "run.failed", "run.cancelled"] as const) expect(isTerminalEvent({ type })).toBe(true);
    for (const type of ["run.started", "run.retried", "text.completed", "tool-call.failed"] as const) expect(isTerminalEvent({ type })).toBe(false);
  });

  it("two of them are told before they are stored", () => {
    expect(isDelta({ type: "text.delta" })).toBe(true);
    expect(isDelta({ type: "reasoning.delta" })).toBe(true);
    expect(isDelta({ type: "reasoning.completed" })).toBe(false);
  });
});

describe("other nouns", () => {
  it("usage adds up and has a nothing that nobody can change", () => {
    const usage = { inputTokens: 1, outputTokens: 2, cacheReadTokens: 3, cacheWriteTokens: 4, reasoningTokens: 5 };
    expect(addUsage(usage, NO_USAGE)).toEqual(usage);
    expect(addUsage(usage, usage)).toEqual({ inputTokens: 2, outputTokens: 4, cacheReadTokens: 6, cacheWriteTokens: 8, reasoningTokens: 10 });
    expect(Object.isFrozen(NO_USAGE)).toBe(true);
  });

  it("one sees one's own rows, and an operator all", () => {
    expect(canSee({ rows: "all" }, undefined)).toBe(true);
    expect(canSee({ rows: "user", userId: "alice" }, "alice")).toBe(true);
    expect(canSee({ rows: "user", userId: "alice" }, "bob")).toBe(false);
    expect(canSee({ rows: "user", userId: "alice" }, undefined)).toBe(false);
  });

  it("a session is called what someone called it, or what was said first", () => {
    expect(sessionTitle({ name: "Trip", firstInput: "Hi" })).toBe("Trip");
    expect(sessionTitle({ firstInput: "Hi" })).toBe("Hi");
    expect(sessionTitle({})).toBe("");
  });

  it("an error survives the way across the object's edge as a value", () => {
    const error = new AppError("session_busy", "Busy.", { run_id: "r" });
    const back = AppError.from(JSON.parse(JSON.stringify(error.toInfo())) as ReturnType<AppError["toInfo"]>);
    expect(back).toMatchObject({ code: "session_busy", message: "Busy.", details: { run_id: "r" } });
    expect(refused("not_found", "No.")).toEqual({ ok: false, error: { code: "not_found", message: "No." } });
  });
});
