import { describe, expect, it } from "vitest";
import type { FinishReason } from "../../../src/domain/message.ts";
import { parseCalls } from "../../../src/engine/parse-calls.ts";
import { seeded } from "./harness.ts";

const raw = (argumentsText: string, id = "t1", name = "charge") => ({ id, name, argumentsText });
const parseOne = (argumentsText: string, reason: FinishReason = "tool_calls") => parseCalls([raw(argumentsText)], reason, [])[0]!;

describe("parseCalls", () => {
  it("takes arguments that are a JSON object as they are", () => {
    expect(parseOne('{"amount": 5, "tags": ["a"], "to": {"id": null}}')).toEqual({ id: "t1", name: "charge", arguments: { amount: 5, tags: ["a"], to: { id: null } } });
  });

  it.each(["", "  ", "\n", "{}", "{ }", "null"])("C062 takes %j for a call without arguments", (text) => {
    expect(parseOne(text)).toEqual({ id: "t1", name: "charge", arguments: {} });
  });

  it("C062 takes arguments that were put together from fragments", () => {
    expect(parseOne('{"a":1}').arguments).toEqual({ a: 1 });
    // A start value that nobody replaced is no JSON with what follows it, and is not guessed at.
    expect(parseOne('{}{"a":1}').invalid?.reason).toContain("not valid JSON");
  });

  it.each(['{"amount": 5, "memo": "ab', '{"amount": 5,}', "{amount: 5}", "undefined", '{"a":1} trailing'])("C008 keeps %j out of what models see", (text) => {
    const call = parseOne(text);
    expect(call.arguments).toEqual({});
    expect(call.invalid).toEqual({ reason: expect.stringContaining("not valid JSON") as string, text });
  });

  it.each(["[]", "5", '"text"', "true"])("C008 refuses %j, which is JSON and no object", (text) => {
    expect(parseOne(text)).toMatchObject({ arguments: {}, invalid: { reason: expect.stringContaining("must be a JSON object"), text } });
  });

  it("C055 a call that the token limit cut is not executed, and the model is told why", () => {
    const cut = parseOne('{"path":"n.md","text":"first ha', "length");
    expect(cut.arguments).toEqual({});
    expect(cut.invalid?.reason).toContain("output token limit");
  });

  it("C055 a cut call that its server calls complete is not executed either", () => {
    expect(parseOne('{"path":"n.md","text":"first ha', "tool_calls").invalid?.reason).toContain("may have been cut off");
  });

  it("C055 of two calls before the limit only the last can be cut, so the first runs", () => {
    const calls = parseCalls([raw('{"path":"a"}', "w1"), raw('{"path":"b","te', "w2")], "length", []);
    expect(calls.map((call) => call.invalid === undefined)).toEqual([true, false]);
    expect(calls[0]?.arguments).toEqual({ path: "a" });
  });

  it("C055 a last call before the limit is not trusted even where it parses, because fields may be missing", () => {
    expect(parseOne('{"path":"n.md"}', "length").invalid?.reason).toContain("output token limit");
  });

  it("C064 makes ids unique within the reply and within the run", () => {
    const ids = (given: string[], inUse: string[] = []) => parseCalls(given.map((id) => raw("{}", id)), "tool_calls", inUse).map((call) => call.id);
    expect(ids(["x", "x", "x"])).toEqual(["x", "x_2", "x_3"]);
    expect(ids(["x"], ["x", "x_2"])).toEqual(["x_3"]);
    expect(ids(["x", "x_2", "x"])).toEqual(["x", "x_2", "x_3"]);
    expect(ids(["", ""])).toEqual(["call", "call_2"]);
  });

  it("C064 ids are unique whatever is given", () => {
    const random = seeded(64);
    for (let trial = 0; trial < 200; trial += 1) {
      const pool = ["", "x", "x_2", "x_2_2", "call", "call_2", "\ud83d"];
      const inUse = Array.from({ length: random.below(4) }, () => random.pick(pool));
      const ids = parseCalls(Array.from({ length: 6 }, () => raw("{}", random.pick(pool))), "tool_calls", inUse).map((call) => call.id);
      expect(new Set([...ids, ...inUse]).size).toBe(new Set(inUse).size + 6);
    }
  });

  it("C068 leaves no half of a surrogate pair anywhere, written as it is or as an escape", () => {
    const [call] = parseCalls([raw('{"a\\ud83d":"\\ude00 x","whole":"\\ud83d\\ude00","deep":["\\ud83d"]}', "i\ud83d", "n\ude00")], "tool_calls", []);
    expect(call).toEqual({ id: "i\ufffd", name: "n\ufffd", arguments: { "a\ufffd": "\ufffd x", whole: "😀", deep: ["\ufffd"] } });
    expect(parseOne('{"a":"\ud83d"}').arguments).toEqual({ a: "\ufffd" });
    expect(parseOne('{"a":"\ud83d').invalid?.text.isWellFormed()).toBe(true);
  });

  it("refuses arguments that nest deeper than anything can write again", () => {
    const nested = (levels: number) => `{"a":${"[".repeat(levels)}${"]".repeat(levels)}}`;
    expect(parseOne(nested(60)).invalid).toBeUndefined();
    expect(parseOne(nested(100_000))).toMatchObject({ arguments: {}, invalid: { reason: expect.stringContaining("nest deeper") } });
  });

  it("keeps a key named __proto__ a key, and changes no prototype", () => {
    const { arguments: args } = parseOne('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}');
    expect(Object.keys(args)).toEqual(["__proto__", "constructor"]);
    expect(Object.getPrototypeOf(args)).toBe(Object.prototype);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
