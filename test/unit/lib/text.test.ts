import { describe, expect, it } from "vitest";
import { cutText, TextJoiner, wellFormed } from "../../../src/lib/text.ts";
import { seeded } from "../engine/harness.ts";

describe("wellFormed", () => {
  it("C068 makes U+FFFD of each lone half and leaves the rest as it is", () => {
    expect(wellFormed("a\ud83db\ude00c😀\u0000")).toBe("a\ufffdb\ufffdc😀\u0000");
    expect(wellFormed("")).toBe("");
  });
});

describe("cutText", () => {
  it("cuts at a length, and not through a pair", () => {
    expect(cutText("abc", 2)).toBe("ab");
    expect(cutText("a😀b", 2)).toBe("a");
    expect(cutText("a😀b", 3)).toBe("a😀");
    expect(cutText("a😀", 3)).toBe("a😀");
    expect(cutText("abc", 0)).toBe("");
    expect(cutText("abc", -1)).toBe("");
  });
});

describe("TextJoiner", () => {
  it("C068 tells well-formed pieces that join to the whole text, however it is cut", () => {
    const random = seeded(2);
    const units = ["a", "\ud83d", "\ude00", "\u200d", "é", "\n", "\u0000"];
    for (let trial = 0; trial < 2_000; trial += 1) {
      const text = Array.from({ length: random.below(10) }, () => random.pick(units)).join("");
      const joiner = new TextJoiner();
      const told: string[] = [];
      for (let from = 0; from < text.length; ) told.push(joiner.push(text.slice(from, (from += random.below(3)))));
      told.push(joiner.end());
      expect(told.join("")).toBe(text.toWellFormed());
      expect(told.every((piece) => piece.isWellFormed())).toBe(true);
    }
  });

  it("begins anew after its end", () => {
    const joiner = new TextJoiner();
    joiner.push("\ud83d");
    expect(joiner.end()).toBe("\ufffd");
    expect(joiner.push("\ude00")).toBe("\ufffd");
    expect(joiner.end()).toBe("");
  });
});
