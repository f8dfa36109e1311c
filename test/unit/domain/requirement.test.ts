import { describe, expect, it } from "vitest";
import { type InputField, isOpen, problemsOf, type Requirement, type Resolution } from "../../../src/domain/requirement.ts";

const requirement = (fields: Partial<Requirement>): Requirement => ({ id: "r1", kind: "confirmation", createdAt: 1, ...fields });
const field = (name: string, type: InputField["type"], value?: unknown): InputField => ({ name, type, ...(value === undefined ? {} : { value }) });

const ofFields = (fields: InputField[], values: Record<string, unknown>) => problemsOf(requirement({ kind: "user_input", fields }), { kind: "user_input", values });

describe("problemsOf", () => {
  it("an answer of another kind is none", () => {
    const confirmation: Resolution = { kind: "confirmation", confirmed: true };
    expect(problemsOf(requirement({ kind: "external_execution" }), confirmation)).toEqual(["expects an answer of kind external_execution, not confirmation"]);
    expect(problemsOf(requirement({}), confirmation)).toEqual([]);
    expect(problemsOf(requirement({}), { kind: "confirmation", confirmed: false })).toEqual([]);
  });

  it("whoever decides on an approval may reject any kind", () => {
    for (const kind of ["confirmation", "user_input", "user_feedback", "external_execution", "unknown_outcome"] as const) {
      expect(problemsOf(requirement({ kind }), { kind: "rejected" })).toEqual([]);
    }
  });

  describe("fields", () => {
    it.each([
      ["str", "", 5],
      ["str", "text", true],
      ["int", 0, 1.5],
      ["int", -3, "3"],
      ["int", 7, Number.NaN],
      ["float", 0.5, "0.5"],
      ["float", 2, Number.POSITIVE_INFINITY],
      ["bool", false, "false"],
      ["bool", true, 1],
      ["list", [], {}],
      ["list", [1], "1"],
      ["dict", {}, []],
      ["dict", { a: 1 }, "a"],
    ] as const)("C041 of type %s take %j and not %j", (type, good, bad) => {
      expect(ofFields([field("x", type)], { x: good })).toEqual([]);
      expect(ofFields([field("x", type)], { x: bad })).toEqual([`needs a value of type ${type} for "x"`]);
    });

    it("C041 nothing is no answer, whatever way it is written; 0, false and \"\" are", () => {
      for (const values of [{}, { x: null }, { x: undefined }, Object.create({ x: "inherited" }) as Record<string, unknown>]) expect(ofFields([field("x", "str")], values)).toEqual(['needs a value for "x"']);
      expect(ofFields([field("a", "int"), field("b", "bool"), field("c", "str")], { a: 0, b: false, c: "" })).toEqual([]);
    });

    it("each that is missing or wrong is named", () => {
      expect(ofFields([field("a", "int"), field("b", "str"), field("c", "bool")], { b: "ok", c: "no" })).toEqual(['needs a value for "a"', 'needs a value of type bool for "c"']);
    });

    it("may be left as the model wrote them, if what it wrote will do", () => {
      expect(ofFields([field("a", "int", 4)], {})).toEqual([]);
      expect(ofFields([field("a", "int", "four")], {})).toEqual(['needs a value of type int for "a"']);
      expect(ofFields([field("a", "int", 4)], { a: null })).toEqual(['needs a value for "a"']);
    });
  });

  describe("questions", () => {
    const options = [{ label: "A" }, { label: "B" }];
    const asked = (selections: string[][], multiSelect = false) =>
      problemsOf(requirement({ kind: "user_feedback", questions: [{ question: "Which?", multiSelect, options }, { question: "And?", multiSelect: true, options: [] }] }), { kind: "user_feedback", selections });

    it("take one of their answers each, or several where they say so", () => {
      expect(asked([["A"], ["anything"]])).toEqual([]);
      expect(asked([["A", "B"], ["x"]], true)).toEqual([]);
      expect(asked([["A", "B"], ["x"]])).toEqual(['takes one answer to "Which?"']);
    });

    it("that are not answered, or with what is no answer of theirs, are named", () => {
      expect(asked([])).toEqual(['needs an answer to "Which?"', 'needs an answer to "And?"']);
      expect(asked([[], ["x"]])).toEqual(['needs an answer to "Which?"']);
      expect(asked([["C"], ["x"]])).toEqual(['has no option "C" for "Which?"']);
    });
  });

  it("who says that a call happened says with what result", () => {
    const unknown = requirement({ kind: "unknown_outcome" });
    expect(problemsOf(unknown, { kind: "unknown_outcome", decision: "happened" })).toEqual(["needs the result of the call that happened"]);
    expect(problemsOf(unknown, { kind: "unknown_outcome", decision: "happened", result: "" })).toEqual([]);
    for (const decision of ["run", "skip"] as const) expect(problemsOf(unknown, { kind: "unknown_outcome", decision })).toEqual([]);
  });
});

it("a requirement is open until someone has answered it, be it with a no", () => {
  expect(isOpen(requirement({}))).toBe(true);
  expect(isOpen(requirement({ resolution: { kind: "confirmation", confirmed: false } }))).toBe(false);
});
