import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { describe, expect, it } from "vitest";

const SRC = join(import.meta.dirname, "../../src");

/** The contracts between the session's object and the Worker around it; plain types and names. */
const SESSION_CONTRACTS = ["session/commands.ts", "session/wire-encoder.ts"];

/**
 * Who may import whom, besides itself: folders, or single files of one. Calls go down; an arrow upwards wants a port.
 * A file beside the folders is its own layer.
 */
const MAY_IMPORT: Record<string, readonly string[]> = {
  lib: [],
  domain: ["lib"],
  models: ["domain", "lib"],
  define: ["domain", "models/model.ts"],
  engine: ["define", "domain", "lib", "models/model.ts", "models/replay.ts"],
  storage: ["domain", "lib"],
  auth: ["storage", "domain", "lib"],
  components: ["define", "storage", "domain", "lib"],
  // A definition's model is chosen by the author and carried out by the engine: the session only hands it on.
  session: ["engine", "components", "storage", "define", "domain", "lib", "models/model.ts"],
  operations: ["session/client.ts", ...SESSION_CONTRACTS, "components", "define", "storage", "auth", "domain", "lib", "env.ts"],
  routes: ["operations", ...SESSION_CONTRACTS, "components", "define", "storage", "auth", "domain", "lib", "env.ts", "version.ts"],
  background: ["operations", "session/client.ts", ...SESSION_CONTRACTS, "storage", "domain", "lib", "env.ts"],
  "env.ts": ["session/commands.ts"],
  "version.ts": [],
  "os.ts": ["routes", "background", "session", "components", "define", "models", "domain", "lib", "env.ts", "version.ts"],
  "index.ts": ["os.ts", "define", "models/model.ts", "domain", "env.ts"],
  "testing.ts": ["os.ts", "define", "models", "domain", "lib"],
  app: [],
};

interface Import {
  from: string;
  to: string;
}

const files = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !file.endsWith(".d.ts"))
  .map((file) => file.replaceAll("\\", "/"))
  .sort();

/** A file's import lines, types too: a circle in types is a circle. */
function specifiers(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  return [...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom\s+"([^"]+)"|^import\s+"([^"]+)"|\bimport\("([^"]+)"\)/gm)].map((match) => (match[1] ?? match[2] ?? match[3])!);
}

const imports: Import[] = files.flatMap((from) =>
  specifiers(from)
    .filter((specifier) => specifier.startsWith("."))
    .map((specifier) => ({ from, to: relative(SRC, join(SRC, dirname(from), specifier)).replaceAll("\\", "/") })),
);

const layerOf = (file: string): string => file.split("/")[0]!;

const isAllowed = ({ from, to }: Import): boolean =>
  layerOf(from) === layerOf(to) || (MAY_IMPORT[layerOf(from)] ?? []).some((allowed) => to === allowed || layerOf(to) === allowed);

/** The first circle there is, as the files it goes through. */
function circle(edges: readonly Import[]): string[] | undefined {
  const targets = Map.groupBy(edges, (edge) => edge.from);
  const finished = new Set<string>();
  const visit = (file: string, path: string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (finished.has(file)) return undefined;
    for (const { to } of targets.get(file) ?? []) {
      const found = visit(to, [...path, file]);
      if (found !== undefined) return found;
    }
    finished.add(file);
    return undefined;
  };
  for (const file of targets.keys()) {
    const found = visit(file, []);
    if (found !== undefined) return found;
  }
  return undefined;
}

describe("imports", () => {
  it("every layer has its row", () => {
    expect([...new Set(files.map(layerOf))].filter((layer) => !(layer in MAY_IMPORT))).toEqual([]);
  });

  it("go down the table only", () => {
    expect(imports.filter((line) => !isAllowed(line)).map(({ from, to }) => `${from} → ${to}`)).toEqual([]);
  });

  it("make no circle", () => {
    expect(circle(imports)).toBeUndefined();
  });

  it("name files that are there", () => {
    const known = new Set(files);
    expect(imports.filter(({ to }) => !known.has(to)).map(({ from, to }) => `${from} → ${to}`)).toEqual([]);
  });

  it("use no Node module: this code runs on workerd", () => {
    expect(files.filter((file) => specifiers(file).some((specifier) => specifier.startsWith("node:")))).toEqual([]);
  });

  it("reach the platform's own module from the session's class alone", () => {
    expect(files.filter((file) => specifiers(file).includes("cloudflare:workers"))).toEqual(["session/agent-session.ts"]);
  });

  it("of the app are the package's public names and its own files", () => {
    const own = files.filter((file) => layerOf(file) === "app").flatMap(specifiers);
    expect(own.filter((specifier) => !/^(\.\/|\.\.\/|signalbox($|\/)|zod$)/.test(specifier))).toEqual([]);
  });

  it("this test sees a forbidden line and a circle", () => {
    expect(imports).toContainEqual({ from: "os.ts", to: "routes/index.ts" });
    expect(isAllowed({ from: "engine/run-turn.ts", to: "routes/wire.ts" })).toBe(false);
    expect(isAllowed({ from: "operations/start-run.ts", to: "session/session.ts" })).toBe(false);
    expect(circle([{ from: "a.ts", to: "b.ts" }, { from: "b.ts", to: "c.ts" }, { from: "c.ts", to: "a.ts" }])).toEqual(["a.ts", "b.ts", "c.ts", "a.ts"]);
  });
});
