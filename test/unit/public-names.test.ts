import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { VERSION } from "../../src/version.ts";

const index = readFileSync(join(import.meta.dirname, "../../src/index.ts"), "utf8");

/** Names in the index's export lists: values, and types after the word. */
function exported(): { values: string[]; types: string[] } {
  const lists = [...index.matchAll(/^export (type )?\{([^}]*)\}/gm)];
  const names = lists.flatMap(([, allTypes, list]) => list!.split(",").map((name) => name.trim()).filter(Boolean).map((name) => (allTypes === undefined ? name : `type ${name}`)));
  return {
    values: names.filter((name) => !name.startsWith("type ")).sort(),
    types: names.filter((name) => name.startsWith("type ")).map((name) => name.slice(5)).sort(),
  };
}

// A name on these lists is a promise to authors: adding one is a decision, removing one breaks them.
it("the package exports these names and no others", () => {
  expect(exported()).toEqual({
    values: ["askUser", "createAgentOS", "defineAgent", "defineTool", "getUserInput"],
    types: [
      "AgentDefinition",
      "AgentOS",
      "AgentOSOptions",
      "AgentOptions",
      "ApprovalOptions",
      "GenerationOptions",
      "Instructions",
      "Model",
      "ModelChoice",
      "ModelContext",
      "ModelFailure",
      "ModelPart",
      "ModelRequest",
      "PlatformEnv",
      "ProbeResult",
      "RunContext",
      "RunStatus",
      "ToolChoice",
      "ToolContext",
      "ToolDefinition",
      "ToolEffect",
      "ToolHook",
      "ToolHookCall",
      "ToolOptions",
      "ToolSpec",
    ],
  });
});

it("the index is names only", () => {
  const code = index.replace(/\/\*\*?[\s\S]*?\*\//g, "").trim();
  expect(code.replace(/^export (type )?\{[^}]*\} from "[^"]+";$/gm, "").trim()).toBe("");
});

it("the package opens these doors", () => {
  expect(Object.keys(packageJson.exports)).toEqual([".", "./models/anthropic", "./models/openai", "./models/scripted", "./testing"]);
});

it("S65 the version that clients are told is the package's", () => {
  expect(VERSION).toBe(packageJson.version);
});
