import { describe, expect, it } from "vitest";
import { applyChanges, snapshot, stateAtStart } from "../../../src/session/session-state.ts";
import { agentOf, seeded } from "../engine/harness.ts";

type State = Record<string, unknown>;
const parse = (text: string) => JSON.parse(text) as State;
const cycle: State = {};
cycle.self = cycle;

describe("stateAtStart", () => {
  const agent = (options: object = {}) => agentOf({ sessionState: { plan: "free", count: 0 }, ...options });

  it("puts the session's own over what the agent starts with, under what the caller sent", () => {
    expect(stateAtStart({ count: 5, mine: 1 }, agent(), { message: "", sessionState: { mine: 2 } })).toEqual({ plan: "free", count: 5, mine: 2 });
    expect(stateAtStart({}, agent(), { message: "" })).toEqual({ plan: "free", count: 0 });
  });

  it("is replaced as a whole by what the caller sent, where the agent says so", () => {
    const overwriting = agent({ overwriteSessionState: true });
    expect(stateAtStart({ count: 5 }, overwriting, { message: "", sessionState: { mine: 2 } })).toEqual({ mine: 2 });
    expect(stateAtStart({ count: 5 }, overwriting, { message: "", sessionState: {} })).toEqual({});
    expect(stateAtStart({ count: 5 }, overwriting, { message: "" })).toEqual({ plan: "free", count: 5 });
  });

  it("shares nothing with any of them", () => {
    const stored = { list: [1] };
    const defaults = { deep: { a: 1 } };
    const state = stateAtStart(stored, agentOf({ sessionState: defaults }), { message: "" });
    (state.list as number[]).push(2);
    (state.deep as State).a = 2;
    expect([stored, defaults]).toEqual([{ list: [1] }, { deep: { a: 1 } }]);
  });

  it("leaves out of an agent's own what can not be stored", () => {
    expect(stateAtStart({}, agentOf({ sessionState: { call: () => 1, big: 1n, cycle, ok: 1 } }), { message: "" })).toEqual({ ok: 1 });
  });

  it("keeps a key named __proto__ a key", () => {
    const state = stateAtStart({}, agentOf(), { message: "", sessionState: parse('{"__proto__":{"polluted":1}}') });
    expect(JSON.stringify(state)).toBe('{"__proto__":{"polluted":1}}');
    expect(Object.getPrototypeOf(state)).toBe(Object.prototype);
  });
});

describe("snapshot", () => {
  it("is what would be read back, whatever a tool has written", () => {
    expect(snapshot({ at: new Date(0), none: undefined, call: () => 1, big: 1n, cycle, list: [undefined], nan: Number.NaN, half: "\ud83d", ok: { a: 1 } })).toEqual({
      at: "1970-01-01T00:00:00.000Z",
      list: [null],
      nan: null,
      half: "\ufffd",
      ok: { a: 1 },
    });
  });
});

describe("applyChanges", () => {
  it("writes back what changed and leaves what others changed meanwhile", () => {
    const before = { mine: 1, theirs: 1, gone: 1, same: { a: [1] } };
    const stored = { ...before, theirs: 2, new: true };
    expect(applyChanges(stored, before, { mine: 2, theirs: 1, same: { a: [1] }, added: null })).toEqual({ mine: 2, theirs: 2, new: true, same: { a: [1] }, added: null });
  });

  it("what both changed is as the run left it", () => {
    expect(applyChanges({ a: "theirs" }, { a: 1 }, { a: "mine" })).toEqual({ a: "mine" });
  });

  it("a change within a value is a change", () => {
    const before = { list: [1, { a: 1 }] };
    const after = structuredClone(before);
    (after.list[1] as { a: number }).a = 2;
    expect(applyChanges(before, before, after)).toEqual({ list: [1, { a: 2 }] });
  });

  it("what was set to undefined is gone, as it is when it is read back", () => {
    expect(applyChanges({ a: 1 }, { a: 1 }, { a: undefined })).toEqual({});
  });

  it("shares nothing with the run's own state", () => {
    const after = { list: [1] };
    const next = applyChanges({}, {}, after);
    after.list.push(2);
    expect(next).toEqual({ list: [1] });
  });

  it("changes none of what it is given", () => {
    const given = [Object.freeze({ a: 1 }), Object.freeze({ a: 1 }), Object.freeze({ b: 2 })] as const;
    expect(applyChanges(...given)).toEqual({ b: 2 });
  });

  it("keeps what is stored under a key that can not be written now", () => {
    expect(applyChanges({ a: 1, b: 1 }, { a: 1, b: 1 }, { a: 1n, b: cycle, c: 2n, d: 1 })).toEqual({ a: 1, b: 1, d: 1 });
    expect(applyChanges({ a: 1 }, { a: 1 }, { a: () => 1 })).toEqual({});
  });

  it.each(["toString", "constructor", "hasOwnProperty", "__proto__"])("takes %s for a key like any other", (name) => {
    for (const value of ["1", "{}", "null"]) {
      const state = parse(`{${JSON.stringify(name)}:${value}}`);
      expect(JSON.stringify(applyChanges({}, {}, state))).toBe(JSON.stringify(state));
      expect(applyChanges(state, state, {})).toEqual({});
      expect(JSON.stringify(applyChanges(state, {}, {}))).toBe(JSON.stringify(state));
    }
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  it("two runs that change different keys lose nothing of each other, in either order", () => {
    const random = seeded(5);
    const keys = ["a", "b", "c", "d", "__proto__", "toString"];
    for (let trial = 0; trial < 300; trial += 1) {
      const start = parse(`{${keys.filter(() => random.below(2) === 0).map((key) => `${JSON.stringify(key)}:${random.below(3)}`).join(",")}}`);
      const [mine, theirs] = [keys.slice(0, 3), keys.slice(3)].map((own) => {
        const after = snapshot(start);
        for (const key of own) {
          if (random.below(3) === 0) Reflect.deleteProperty(after, key);
          else Object.defineProperty(after, key, { value: random.below(3), enumerable: true, configurable: true, writable: true });
        }
        return after;
      }) as [State, State];
      const once = applyChanges(applyChanges(start, start, mine), start, theirs);
      const other = applyChanges(applyChanges(start, start, theirs), start, mine);
      const sorted = (state: State) => JSON.stringify(Object.entries(state).sort(([a], [b]) => (a < b ? -1 : 1)));
      expect(sorted(once)).toBe(sorted(other));
      for (const key of keys) {
        const [by, from] = keys.indexOf(key) < 3 ? [mine, once] : [theirs, once];
        expect(Object.hasOwn(from, key) && from[key]).toBe(Object.hasOwn(by, key) && by[key]);
      }
    }
  });
});
