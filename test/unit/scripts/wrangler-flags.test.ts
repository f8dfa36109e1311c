import { describe, expect, it } from "vitest";
import { readWranglerFlags } from "../../../scripts/wrangler-flags.ts";

describe("wrangler's flags", () => {
  it("are read in each way they can be written, the last one counting", () => {
    expect(readWranglerFlags(["--port", "1", "--port=9000", "-e", "production", "--persist-to", "a b", "-c", "x.toml"])).toMatchObject({
      port: 9000,
      env: "production",
      persistTo: "a b",
      config: "x.toml",
    });
  });

  it("take several variables after one --var, with colons in their values", () => {
    const { vars } = readWranglerFlags(["--var", "A:1", "URL:http://127.0.0.1:9/v1", "--port", "1", "--var=B:", "--var", "C"]);
    expect([...vars]).toEqual([
      ["A", "1"],
      ["URL", "http://127.0.0.1:9/v1"],
      ["B", ""],
      ["C", ""],
    ]);
  });

  it("go on to wrangler untouched, but for one that is taken out", () => {
    const flags = readWranglerFlags(["--port", "0", "--var", "A:1", "--port=0", "--test-scheduled"]);
    expect(flags.without("port")).toEqual(["--var", "A:1", "--test-scheduled"]);
    expect(flags.has("test-scheduled")).toBe(true);
    expect(flags.has("inspector-port")).toBe(false);
  });
});
