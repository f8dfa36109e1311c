import { describe, expect, it } from "vitest";
import { isDeeperThan, isJsonObject, jsonCopy, jsonEntries, stableStringify, tryParseJson } from "../../../src/lib/json.ts";
import { unstorable } from "../../../src/lib/storable-json.ts";
import { seeded } from "../engine/harness.ts";

const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

describe("isJsonObject", () => {
  it.each([
    [{}, true],
    [[], false],
    [null, false],
    ["x", false],
    [undefined, false],
  ])("%j: %s", (value, is) => {
    expect(isJsonObject(value)).toBe(is);
  });
});

describe("tryParseJson", () => {
  it("tells null from what is no JSON", () => {
    expect(tryParseJson("null")).toBeNull();
    for (const text of ["", "{", "undefined", "{'a':1}", "NaN"]) expect(tryParseJson(text)).toBeUndefined();
  });
});

describe("stableStringify", () => {
  it("gives one text for one value, in whatever order it was written", () => {
    const random = seeded(1);
    const shuffled = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(shuffled);
      if (!isJsonObject(value)) return value;
      return Object.fromEntries(
        Object.entries(value)
          .map(([key, inner]) => [random.next(), key, shuffled(inner)] as const)
          .sort(([a], [b]) => a - b)
          .map(([, key, inner]) => [key, inner]),
      );
    };
    const value = JSON.parse('{"b":[{"z":1,"a":2},3],"a":{"10":1,"9":2,"x":null},"__proto__":{"d":1,"c":2},"é":1,"Z":2}') as unknown;
    const text = stableStringify(value);
    expect(JSON.parse(text)).toEqual(value);
    for (let trial = 0; trial < 100; trial += 1) expect(stableStringify(shuffled(value))).toBe(text);
  });

  it("tells different values apart", () => {
    expect(stableStringify({ a: [1, 2] })).not.toBe(stableStringify({ a: [2, 1] }));
    expect(stableStringify({ a: "1" })).not.toBe(stableStringify({ a: 1 }));
  });
});

describe("isDeeperThan", () => {
  it("counts arrays and objects, and bears any depth", () => {
    expect(isDeeperThan(2, { a: [1] })).toBe(false);
    expect(isDeeperThan(1, { a: [1] })).toBe(true);
    expect(isDeeperThan(0, "x")).toBe(false);
    expect(isDeeperThan(64, nested(64))).toBe(false);
    expect(isDeeperThan(64, nested(100_000))).toBe(true);
  });
});

describe("jsonCopy", () => {
  it("is what would be read back", () => {
    expect(jsonCopy({ a: new Date(0), b: undefined, c: [() => 1], d: Number.NaN })).toEqual({ a: "1970-01-01T00:00:00.000Z", c: [null], d: null });
    expect(jsonCopy(undefined)).toBeUndefined();
    expect(jsonCopy(() => 1)).toBeUndefined();
    expect(jsonCopy(null)).toBeNull();
  });

  it("shares nothing with the original", () => {
    const original = { list: [{ a: 1 }] };
    const copy = jsonCopy(original) as typeof original;
    copy.list[0]!.a = 2;
    expect(original.list[0]!.a).toBe(1);
  });

  it("C068 holds no half of a pair, in keys and values, and leaves text alone that spells one out", () => {
    expect(jsonCopy({ "k\ud83d": "\ude00", whole: "😀", spelled: "\\ud83d", mixed: '\\\ud83d"\\u0041' })).toEqual({ "k\ufffd": "\ufffd", whole: "😀", spelled: "\\ud83d", mixed: '\\\ufffd"\\u0041' });
    const random = seeded(6);
    for (let trial = 0; trial < 1_000; trial += 1) {
      const text = Array.from({ length: random.below(10) }, () => random.pick(["\\", "u", "d", "8", "3", "\ud83d", "\ude00", '"', "\n", "\u0001", "x"])).join("");
      expect(jsonCopy([text])).toEqual([text.toWellFormed()]);
    }
  });

  it("throws for what can not be written", () => {
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    expect(() => jsonCopy(cycle)).toThrow(TypeError);
    expect(() => jsonCopy({ a: 1n })).toThrow(TypeError);
  });

  it("keeps a key named __proto__ a key", () => {
    const copy = jsonCopy(JSON.parse('{"__proto__":{"polluted":1}}')) as object;
    expect(Object.keys(copy)).toEqual(["__proto__"]);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
  });
});

describe("jsonEntries", () => {
  it("leaves out what can not be written, and only that", () => {
    expect(jsonEntries({ a: 1, b: 1n, c: undefined, d: () => 1, e: null, f: [1] })).toEqual({ a: 1, e: null, f: [1] });
  });
});

describe("unstorable", () => {
  it("says what is wrong with a value, wherever it is", () => {
    expect(unstorable({ a: [{ b: "fine 😀" }, null, 5, true] })).toBeUndefined();
    expect(unstorable({ a: ["\ud83d"] })).toContain("surrogate");
    expect(unstorable({ "\ud83d": 1 })).toContain("surrogate");
    expect(unstorable(nested(64))).toBeUndefined();
    expect(unstorable(nested(65))).toContain("deeper than 64");
    expect(unstorable(nested(100_000))).toContain("deeper than 64");
  });
});
