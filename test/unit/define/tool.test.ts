import { describe, expect, it } from "vitest";
import { z } from "zod";
import { askUser, getUserInput } from "../../../src/define/ask-person.ts";
import { defineTool, type ToolOptions } from "../../../src/define/tool.ts";

const input = z.object({ to: z.string().describe("Whom."), seats: z.number().int(), price: z.number(), paid: z.boolean(), tags: z.array(z.string()), extra: z.object({}), word: z.enum(["a", "b"]) });
const define = (options: Partial<ToolOptions<typeof input>> = {}) => defineTool({ name: "act", description: "Acts.", input, execute: () => undefined, ...options });

describe("approval", () => {
  it("S281 is required or audit; anything else is refused at definition", () => {
    expect(define({ approval: "required" }).approval).toEqual({ type: "required", onExpiry: "reject", approvers: 1, requesterMayApprove: true });
    expect(define({ approval: "audit", requiresConfirmation: true }).approval?.type).toBe("audit");
    expect(define({ approval: {} }).approval?.type).toBe("required");
    expect(() => define({ approval: "optional" as never })).toThrow(new RangeError('Tool "act": approval must be "required" or "audit", not "optional".'));
    expect(() => define({ approval: { type: "never" as never } })).toThrow(RangeError);
  });

  it("S282 required turns confirmation on where the tool waits for nothing else, and leaves it where it does", () => {
    expect(define({ approval: "required" }).pause).toEqual({ kind: "confirmation" });
    expect(define({ approval: "required", externalExecution: true }).pause).toEqual({ kind: "external_execution", silent: false });
    expect(define({ approval: "required", requiresUserInput: ["to"] }).pause?.kind).toBe("user_input");
    expect(define({ approval: "required", requiresConfirmation: true }).pause).toEqual({ kind: "confirmation" });
    expect(define().pause).toBeUndefined();
  });

  it("S283 audit wants a tool that waits for something: an error at definition otherwise, in plain words", () => {
    expect(() => define({ approval: "audit" })).toThrow(new RangeError('Tool "act": approval "audit" records what people decide, so the tool needs confirmation, user input or external execution.'));
    for (const option of [{ requiresConfirmation: true }, { requiresUserInput: true }, { externalExecution: true }] as const) expect(define({ approval: "audit", ...option }).approval?.type).toBe("audit");
  });

  it("takes its rules, and refuses those that can not work", () => {
    expect(define({ approval: { expiresIn: 60, onExpiry: "cancel", approvers: 2, requesterMayApprove: false } }).approval).toEqual({ type: "required", expiresInMs: 60_000, onExpiry: "cancel", approvers: 2, requesterMayApprove: false });
    for (const expiresIn of [0, -1, Number.NaN]) expect(() => define({ approval: { expiresIn } })).toThrow(/expiresIn/);
    for (const approvers of [0, 1.5, -1, Number.NaN]) expect(() => define({ approval: { approvers } })).toThrow(/approvers/);
    expect(() => define({ approval: { onExpiry: "approve" as never } })).toThrow(/onExpiry/);
  });
});

describe("pause options", () => {
  it("exclude each other", () => {
    for (const pair of [{ requiresConfirmation: true, requiresUserInput: true }, { requiresConfirmation: true, externalExecution: true }, { requiresUserInput: ["to"], externalExecution: "silent" }] as const) {
      expect(() => define(pair)).toThrow(/only one of/);
    }
    expect(define({ requiresConfirmation: false, requiresUserInput: false, externalExecution: false }).pause).toBeUndefined();
  });

  it("an external call may be silent", () => {
    expect(define({ externalExecution: "silent" }).pause).toEqual({ kind: "external_execution", silent: true });
  });

  it("a person fills in the named arguments, or all of them, in AgentOS's words for types", () => {
    const all = [
      { name: "to", type: "str", description: "Whom." },
      { name: "seats", type: "int" },
      { name: "price", type: "float" },
      { name: "paid", type: "bool" },
      { name: "tags", type: "list" },
      { name: "extra", type: "dict" },
      { name: "word", type: "str" },
    ];
    expect(define({ requiresUserInput: true }).pause).toEqual({ kind: "user_input", fields: all });
    expect(define({ requiresUserInput: [] }).pause).toEqual({ kind: "user_input", fields: all });
    expect(define({ requiresUserInput: ["seats", "to"] }).pause).toEqual({ kind: "user_input", fields: [all[1], all[0]] });
    expect(() => define({ requiresUserInput: ["nobody"] })).toThrow(new RangeError('Tool "act": requiresUserInput names "nobody", which is none of its arguments.'));
    expect(() => define({ requiresUserInput: ["toString"] })).toThrow(RangeError);
  });

  it("that an argument may be null or left out does not change its type", () => {
    const tool = defineTool({
      name: "act",
      description: "",
      input: z.object({ a: z.number().nullable(), b: z.number().int().optional(), c: z.union([z.string(), z.number()]), d: z.unknown(), e: z.boolean().nullish() }),
      requiresUserInput: true,
      execute: () => undefined,
    });
    expect(tool.pause).toMatchObject({ fields: [{ name: "a", type: "float" }, { name: "b", type: "int" }, { name: "c", type: "str" }, { name: "d", type: "str" }, { name: "e", type: "bool" }] });
  });

  it("definitions can not be changed afterwards", () => {
    const tool = define({ approval: "required" });
    expect(() => Object.assign(tool, { pause: undefined })).toThrow(TypeError);
    expect(() => Object.assign(tool.approval as object, { approvers: 0 })).toThrow(TypeError);
  });
});

describe("the tools that ask a person", () => {
  it("wait for what the model asks, and nothing ever calls them", () => {
    expect(getUserInput).toMatchObject({ name: "get_user_input", effect: "none", pause: { kind: "asked_input" } });
    expect(askUser).toMatchObject({ name: "ask_user", effect: "none", pause: { kind: "user_feedback" } });
  });

  it("tell the model how to ask", () => {
    expect(getUserInput.parameters).toMatchObject({ type: "object", required: ["fields"] });
    expect(askUser.parameters).toMatchObject({ type: "object", required: ["questions"] });
    expect(getUserInput.input.safeParse({ fields: [{ name: "qty", type: "int" }] }).success).toBe(true);
    expect(getUserInput.input.safeParse({ fields: [] }).success).toBe(false);
    expect(getUserInput.input.safeParse({ fields: [{ name: "qty", type: "number" }] }).success).toBe(false);
    expect(askUser.input.safeParse({ questions: [{ question: "Which?", options: [{ label: "A" }] }] }).success).toBe(true);
    expect(askUser.input.safeParse({ questions: [] }).success).toBe(false);
  });
});
