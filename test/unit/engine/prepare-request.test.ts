import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { AgentOptions } from "../../../src/define/agent.ts";
import { defineTool } from "../../../src/define/tool.ts";
import type { RunInput } from "../../../src/domain/run.ts";
import type { Turn, TurnPorts } from "../../../src/engine/ports.ts";
import { prepareContext, prepareRequest } from "../../../src/engine/prepare-request.ts";
import { agentOf, HeldClock, partsModel } from "./harness.ts";

const ping = defineTool({ name: "ping", description: "Answers.", input: z.object({ host: z.string() }), execute: () => "pong" });

function turnOf(options: Partial<AgentOptions>, input: Partial<RunInput> = {}, more: Partial<Turn> = {}): Turn {
  return {
    runId: "run-1",
    sessionId: "session-1",
    agent: agentOf(options),
    model: partsModel(),
    input: { message: "Hi.", ...input },
    messages: [{ id: "u", role: "user", content: "Hi.", createdAt: 0 }],
    effects: [],
    sessionState: {},
    ...more,
  };
}

const portsAt = (at = Date.UTC(2026, 10, 17, 12, 34, 56)): TurnPorts => {
  const clock = Object.assign(new HeldClock(), { now: () => at });
  return { env: { SETTING: "from env" }, clock, pastRuns: () => [] } as unknown as TurnPorts;
};

const contextOf = (...turn: Parameters<typeof turnOf>) => prepareContext(turnOf(...turn), portsAt());
const systemOf = async (...turn: Parameters<typeof turnOf>) => (await contextOf(...turn)).system;

describe("the system message", () => {
  it("is absent where the author says nothing", async () => {
    expect(await systemOf({})).toBeUndefined();
    expect(prepareRequest(turnOf({}), await contextOf({}))).not.toHaveProperty("system");
  });

  it("takes instructions as a text, as a list and as a function of the run", async () => {
    expect(await systemOf({ instructions: "Be brief." })).toBe("Be brief.");
    expect(await systemOf({ instructions: ["Be brief.", "Be kind."] })).toBe("- Be brief.\n- Be kind.");
    expect(await systemOf({ instructions: ["Be brief."] })).toBe("Be brief.");
    expect(await systemOf({ instructions: [] })).toBeUndefined();
    expect(await systemOf({ instructions: "" })).toBeUndefined();
    const told = await systemOf(
      {
        instructions: async ({ env, runId, sessionId, userId, sessionState, dependencies, metadata }) => [
          `${(env as unknown as Record<string, string>).SETTING} ${runId} ${sessionId} ${userId}`,
          JSON.stringify([sessionState, dependencies, metadata]),
        ],
        dependencies: { plan: () => "pro" },
      },
      { metadata: { source: "test" } },
      { userId: "alice", sessionState: { count: 1 } },
    );
    expect(told).toBe('- from env run-1 session-1 alice\n- [{"count":1},{"plan":"pro"},{"source":"test"}]');
  });

  it("puts what the author says in one order", async () => {
    const system = await systemOf({
      description: "You help.",
      role: "sales",
      instructions: "Be brief.",
      expectedOutput: "A list.",
      markdown: true,
      addDatetimeToContext: true,
      timezone: "Europe/Berlin",
      additionalContext: "It is late.",
    });
    expect(system).toBe(
      ["You help.", "Your role: sales", "Be brief.", "Expected output:\nA list.", "Use Markdown to format your answers.", "The current time is 2026-11-17 13:34:56 (Europe/Berlin).", "It is late."].join("\n\n"),
    );
  });

  it("is replaced as a whole by systemMessage", async () => {
    expect(await systemOf({ systemMessage: "Only {name}.", description: "x", markdown: true, addDatetimeToContext: true }, {}, { sessionState: { name: "this" } })).toBe("Only this.");
  });

  it("shows state and dependencies where the agent wants it", async () => {
    const system = await systemOf({ addSessionStateToContext: true, addDependenciesToContext: true, dependencies: { tier: "gold" } }, {}, { sessionState: { count: 2 } });
    expect(system).toBe('Additional context:\n{"tier":"gold"}\n\nSession state:\n{"count":2}');
  });

  it("shows of state and dependencies what JSON can say, and does not fail for the rest", async () => {
    const cycle: Record<string, unknown> = {};
    cycle.self = cycle;
    const system = await systemOf({ addDependenciesToContext: true, dependencies: { cycle, big: 1n, ok: 1 } });
    expect(system).toBe('Additional context:\n{"ok":1}');
  });
});

describe("placeholders", () => {
  it("are filled from state, then dependencies, then metadata; unknown names and other braces stay", async () => {
    const filled = await systemOf(
      { instructions: "{a} {b} {c} {d} {} {1x} {{a}} {a b}", dependencies: { a: "dependency", b: { deep: [1] } } },
      { metadata: { a: "metadata", c: 3 } },
      { sessionState: { a: "state" } },
    );
    expect(filled).toBe('state {"deep":[1]} 3 {d} {} {1x} {state} {a b}');
  });

  it("stay as they are when the agent says so", async () => {
    expect(await systemOf({ instructions: "{a}", resolveInContext: false }, {}, { sessionState: { a: "state" } })).toBe("{a}");
    expect(await systemOf({ systemMessage: "{a}", resolveInContext: false }, {}, { sessionState: { a: "state" } })).toBe("{a}");
  });

  it("are not looked for in values: what a user wrote can not fetch a dependency", async () => {
    const secret = { apiKey: "hunter2" };
    expect(await systemOf({ instructions: "Customer: {name}", dependencies: secret }, {}, { sessionState: { name: "{apiKey}" } })).toBe("Customer: {apiKey}");
    expect(await systemOf({ addSessionStateToContext: true, dependencies: secret }, {}, { sessionState: { name: "{apiKey}" } })).toBe('Session state:\n{"name":"{apiKey}"}');
  });

  it("take no value from what every object inherits", async () => {
    expect(await systemOf({ instructions: "{constructor} {toString} {__proto__}" })).toBe("{constructor} {toString} {__proto__}");
  });

  it("stay where their value has no word in JSON", async () => {
    expect(await systemOf({ instructions: "{big} {none}", dependencies: { big: 1n, none: undefined } })).toBe("{big} {none}");
  });

  it("C068 a half of a surrogate pair in a value does not get into the request", async () => {
    expect(await systemOf({ instructions: "Hello {name}" }, {}, { sessionState: { name: "\ud83d" } })).toBe("Hello \ufffd");
  });
});

describe("values of a run", () => {
  it("the agent's metadata wins over the caller's", async () => {
    expect((await contextOf({ metadata: { team: "agent" } }, { metadata: { team: "caller", mine: 1 } })).metadata).toEqual({ team: "agent", mine: 1 });
  });

  it("the caller's dependencies win over the agent's, whose functions are then not called", async () => {
    let called = 0;
    const dependencies = {
      limit: () => {
        called += 1;
        return 10;
      },
      region: async () => "eu",
      fixed: 1,
    };
    expect((await contextOf({ dependencies }, { dependencies: { limit: 99 } })).dependencies).toEqual({ limit: 99, region: "eu", fixed: 1 });
    expect(called).toBe(0);
  });

  it("a run can not change the agent's metadata for the runs after it", async () => {
    const metadata = { labels: { a: 1 } };
    const turn = turnOf({ metadata });
    const context = await prepareContext(turn, portsAt());
    (context.metadata.labels as Record<string, number>).a = 2;
    expect(metadata.labels.a).toBe(1);
  });

  it("a function that throws is the author's to hear of", async () => {
    await expect(
      contextOf({
        dependencies: {
          broken: () => {
            throw new Error("no database");
          },
        },
      }),
    ).rejects.toThrow("no database");
  });
});

describe("prepareRequest", () => {
  it("tells the model of the tools and passes the author's options on", async () => {
    const turn = turnOf({ tools: [ping], toolChoice: "auto", generation: { temperature: 0 } });
    expect(prepareRequest(turn, await prepareContext(turn, portsAt()))).toMatchObject({
      tools: [{ name: "ping", description: "Answers.", parameters: { type: "object", properties: { host: { type: "string" } }, required: ["host"] } }],
      toolChoice: "auto",
      options: { temperature: 0 },
      sessionId: "session-1",
    });
  });

  it("names no tool choice where there are no tools", async () => {
    const turn = turnOf({ toolChoice: "required" });
    expect(prepareRequest(turn, await prepareContext(turn, portsAt()))).not.toHaveProperty("toolChoice");
  });

  it.each([
    ["required", undefined],
    [{ name: "ping" }, undefined],
    ["none", "none"],
    ["auto", "auto"],
  ] as const)("forces a call only until there is one: after %j comes %j", async (toolChoice, later) => {
    const turn = turnOf({ tools: [ping], toolChoice });
    const context = await prepareContext(turn, portsAt());
    expect(prepareRequest(turn, context).toolChoice).toEqual(toolChoice);
    turn.messages.push({ id: "a", role: "assistant", createdAt: 0, content: "", toolCalls: [{ id: "c", name: "ping", arguments: { host: "x" } }], provider: "p", model: "m", finishReason: "tool_calls" });
    expect(prepareRequest(turn, context).toolChoice).toEqual(later);
  });

  it("each step's request begins with the one before it, so that providers can cache it", async () => {
    const turn = turnOf({ instructions: "Be brief.", tools: [ping], addSessionStateToContext: true }, {}, { sessionState: { count: 1 } });
    const context = await prepareContext(turn, portsAt());
    const first = prepareRequest(turn, context);
    turn.sessionState.count = 2;
    turn.messages.push({ id: "a", role: "assistant", createdAt: 0, content: "", toolCalls: [{ id: "c", name: "ping", arguments: { host: "x" } }], provider: "p", model: "m", finishReason: "tool_calls" });
    const second = prepareRequest(turn, context);
    expect(second.system).toBe(first.system);
    expect(second.messages.slice(0, first.messages.length)).toEqual(first.messages);
  });
});
