import { describe, expect, it } from "vitest";
import { resolveModel } from "../../../src/models/resolve.ts";
import { anthropic } from "../../../src/models/anthropic/index.ts";
import { openai, openaiChat } from "../../../src/models/openai/index.ts";

const factories = { anthropic: (id: string) => anthropic(id), openai: (id: string) => openai(id), "openai-chat": (id: string) => openaiChat(id) };

describe("resolveModel", () => {
  it.each([
    ["anthropic:claude-sonnet-5", "anthropic", "claude-sonnet-5"],
    ["openai:gpt-5.2", "openai", "gpt-5.2"],
    ["openai-chat:llama3.3:70b", "openai-chat", "llama3.3:70b"],
  ])("%s", (spec, provider, id) => expect(resolveModel(spec, factories)).toMatchObject({ provider, id }));

  it.each(["", "claude-sonnet-5", "anthropic:", "anthropic: ", ":x", "gemini:pro", "constructor:x", "__proto__:x"])("refuses %j and says what is allowed", (spec) => {
    expect(() => resolveModel(spec, factories)).toThrow(new RangeError(`"${spec}" names no model. A model is written as "anthropic:<id>", "openai:<id>", "openai-chat:<id>".`));
  });
});
