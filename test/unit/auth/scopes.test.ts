import { describe, expect, it } from "vitest";
import { ADMIN_SCOPE, matches, reachOf } from "../../../src/auth/scopes.ts";

describe("scopes", () => {
  it.each([
    { held: ["agents:read"], required: "agents:read", met: true },
    { held: ["agents:*:read"], required: "agents:read", met: true },
    { held: [ADMIN_SCOPE], required: "approvals:delete", met: true },
    { held: ["system:read"], required: "config:read", met: true },
    { held: ["agents:support:read"], required: "agents:read", met: false },
    { held: ["agents:write"], required: "agents:read", met: false },
    { held: ["agents:run"], required: "agents:read", met: false },
    { held: ["sessions:read"], required: "agents:read", met: false },
    { held: [], required: "agents:read", met: false },
  ] as const)("$held meets $required: $met", ({ held, required, met }) => {
    expect(matches(held, required)).toBe(met);
  });

  it.each([
    { held: ["agents:support:run"], id: "support", met: true },
    { held: ["agents:support:run"], id: "sales", met: false },
    { held: ["agents:*:run"], id: "sales", met: true },
    { held: ["agents:run"], id: "sales", met: true },
    { held: ["agents:support:read"], id: "support", met: false },
  ])("$held meets agents:run for $id: $met", ({ held, id, met }) => {
    expect(matches(held, "agents:run", id)).toBe(met);
  });

  it.each(["", "agents", "agents:", ":read", "agents:a:b:read", "agent_os:ADMIN", "*", "*:*", "agents:read:", "AGENTS:read"])("the shape %j grants nothing", (text) => {
    expect(matches([text], "agents:read", "a")).toBe(false);
    expect(reachOf([text], "agents:read")).toEqual(new Set());
  });

  it("only itself meets the scope that is everything", () => {
    expect(matches([ADMIN_SCOPE], ADMIN_SCOPE)).toBe(true);
    for (const held of ["agent_os:*:admin", "agent_os:x:admin", "config:admin", "config:write"]) expect(matches([held], ADMIN_SCOPE, "x"), held).toBe(false);
  });

  it("a list reaches the resources whose ids are held, or all", () => {
    expect(reachOf(["agents:a:read", "agents:b:read", "agents:c:run"], "agents:read")).toEqual(new Set(["a", "b"]));
    expect(reachOf(["agents:a:read", "agents:read"], "agents:read")).toBe("all");
    expect(reachOf([ADMIN_SCOPE], "agents:read")).toBe("all");
  });
});
