import { readdirSync } from "node:fs";
import { expect, it } from "vitest";
import { MIGRATIONS } from "../../../src/storage/migrations-applied.ts";

it("C120 the release knows the migrations it was built with, by their names", () => {
  const files = readdirSync(`${import.meta.dirname}/../../../migrations`).filter((name) => name.endsWith(".sql"));
  expect([...MIGRATIONS]).toEqual(files.sort());
});
