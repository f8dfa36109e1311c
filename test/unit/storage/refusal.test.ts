import { describe, expect, it } from "vitest";
import { isRefusal, ProjectionRefused } from "../../../src/storage/refusal.ts";

describe("an error of a delivery to D1", () => {
  it.each([
    "D1_ERROR: NOT NULL constraint failed: runs.created_at: SQLITE_CONSTRAINT",
    "D1_ERROR: string or blob too big: SQLITE_TOOBIG",
    "D1_TYPE_ERROR: Type 'undefined' not supported for value 'undefined'",
  ])("is the entry's own fault: %s", (message) => {
    expect(isRefusal(new Error(message))).toBe(true);
    expect(isRefusal(new Error("Failed query", { cause: new Error(message) }))).toBe(true);
  });

  it.each([
    "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
    "D1_ERROR: Network connection lost.",
    "D1_ERROR: internal error; reference = 1234",
    "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
    "D1_ERROR: database or disk is full: SQLITE_FULL",
    "D1_ERROR: no such table: runs: SQLITE_ERROR",
    "D1_ERROR: database is locked: SQLITE_BUSY",
  ])("passes with time: %s", (message) => {
    expect(isRefusal(new Error(message))).toBe(false);
  });

  it("is known by its class where we refuse ourselves, and nothing else is", () => {
    expect(isRefusal(new ProjectionRefused("too long"))).toBe(true);
    expect(isRefusal("SQLITE_CONSTRAINT")).toBe(false);
    expect(isRefusal(undefined)).toBe(false);
  });
});
