import { describe, expect, it } from "vitest";
import { z } from "zod";
import { type AgentDefinition, defineAgent } from "../../../src/define/agent.ts";
import type { ApprovalOptions } from "../../../src/define/approval-policy.ts";
import { defineTool } from "../../../src/define/tool.ts";
import type { Requirement, Resolution } from "../../../src/domain/requirement.ts";
import type { Run } from "../../../src/domain/run.ts";
import type { Effect } from "../../../src/domain/tool-call.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { auditApproval, decisionNote, filledIn, needApproval, openApproval, resolutionOf } from "../../../src/session/approvals.ts";

const run: Run = {
  runId: "run-1",
  sessionId: "s",
  userId: "alice",
  component: { kind: "agent", id: "sales", name: "Sales", version: "1" },
  status: "running",
  input: { message: "Go." },
  background: false,
  stream: true,
  onDisconnect: 1,
  attempt: 1,
  attemptsSinceCheckpoint: 1,
  content: "",
  metrics: { usage: NO_USAGE, modelCalls: 1 },
  createdAt: 1,
  updatedAt: 1,
  version: 1,
};

const effect = (callId: string, toolName: string, requirement?: Partial<Requirement>): Effect => ({
  runId: "run-1",
  step: 0,
  position: 0,
  callId,
  toolName,
  status: "planned",
  arguments: { of: callId },
  attempt: 1,
  plannedAt: 1,
  ...(requirement === undefined ? {} : { requirement: { id: `r-${callId}`, kind: "confirmation", createdAt: 1, ...requirement } }),
});

const agentWith = (tools: Record<string, ApprovalOptions>): AgentDefinition =>
  defineAgent({ id: "sales", model: "x:y", tools: Object.entries(tools).map(([name, approval]) => defineTool({ name, description: "", input: z.object({}).loose(), requiresConfirmation: true, approval, execute: () => 1 })) });

describe("the record of a pause", () => {
  const crm = effect("c1", "update_crm", { approvalType: "required", shownHash: "h1" });

  it("covers the calls that someone with authority decides on, and no others", () => {
    expect(needApproval([crm, effect("c2", "send", { approvalType: "audit" }), effect("c3", "send", {}), effect("c4", "read")])).toEqual([crm]);
  });

  it("S155 S285 says which run, session, call, requester and component it is about", () => {
    const approval = openApproval(run, [crm, effect("c2", "refund", { approvalType: "required" })], agentWith({ update_crm: "required", refund: "required" }), 100);
    expect(approval).toMatchObject({
      runId: "run-1",
      sessionId: "s",
      userId: "alice",
      component: run.component,
      status: "pending",
      type: "required",
      pauseType: "confirmation",
      toolName: "update_crm",
      toolArguments: { of: "c1" },
      toolNames: ["update_crm", "refund"],
      approvers: 1,
      votes: [],
      requesterMayApprove: true,
      runStatus: "paused",
      createdAt: 100,
      version: 1,
    });
    expect(approval.requirements).toMatchObject([{ id: "r-c1", callId: "c1", toolName: "update_crm", arguments: { of: "c1" }, shownHash: "h1", approvalId: approval.id }, { callId: "c2", toolName: "refund", approvalId: approval.id }]);
    expect(approval).not.toHaveProperty("expiresAt");
  });

  it("holds to the strictest of the tools' rules", () => {
    const agent = agentWith({ a: { approvers: 2 }, b: { requesterMayApprove: false, expiresIn: 60, onExpiry: "cancel" }, c: { expiresIn: 600 } });
    const approval = openApproval(run, ["a", "b", "c"].map((name) => effect(name, name, { approvalType: "required" })), agent, 1_000);
    expect(approval).toMatchObject({ approvers: 2, requesterMayApprove: false, expiresAt: 61_000, onExpiry: "cancel" });
  });

  it.each([
    [["confirmation", "external_execution"], "external_execution"],
    [["external_execution", "user_input"], "user_input"],
    [["confirmation"], "confirmation"],
  ] as const)("of %j is of the kind %s", (kinds, pauseType) => {
    expect(openApproval(run, kinds.map((kind) => effect(kind, kind, { kind, approvalType: "required" })), agentWith({}), 1).pauseType).toBe(pauseType);
  });
});

describe("the record of what was decided", () => {
  it.each<[Resolution, string]>([
    [{ kind: "confirmation", confirmed: true }, "approved"],
    [{ kind: "confirmation", confirmed: false }, "rejected"],
    [{ kind: "rejected" }, "rejected"],
    [{ kind: "user_input", values: {} }, "approved"],
    [{ kind: "external_execution", result: "" }, "approved"],
  ])("S284 %j is %s", (resolution, status) => {
    expect(auditApproval(run, effect("c1", "send", { approvalType: "audit", resolution }), "bob", 7)).toMatchObject({ type: "audit", status, resolvedBy: "bob", resolvedAt: 7, toolName: "send" });
  });
});

describe("what an approval's outcome means for one call", () => {
  const asked = (fields: Partial<Requirement>): Requirement => ({ id: "r1", kind: "confirmation", createdAt: 1, ...fields });
  const approved = (data?: Record<string, unknown>) => ({ status: "approved" as const, ...(data === undefined ? {} : { resolutionData: data }) });

  it("a yes confirms, with the note and the arguments that were approved", () => {
    expect(resolutionOf(asked({}), approved(), undefined)).toEqual({ kind: "confirmation", confirmed: true });
    expect(resolutionOf(asked({}), approved({ note: "Fine." }), { to: "bob" })).toEqual({ kind: "confirmation", confirmed: true, note: "Fine.", arguments: { to: "bob" } });
  });

  it.each(["confirmation", "user_input", "user_feedback", "external_execution"] as const)("S317 a no to a call that waits for %s is a no, as is the end of its time", (kind) => {
    expect(resolutionOf(asked({ kind }), { status: "rejected", resolutionData: { note: "No.", values: { a: 1 }, result: "x" } }, undefined)).toEqual({ kind: "rejected", note: "No." });
    expect(resolutionOf(asked({ kind }), { status: "expired" }, undefined)).toEqual({ kind: "rejected", note: "The approval expired before anyone decided." });
  });

  it("values come from the resolution's data, wholly or not at all; the rest is for the client to say", () => {
    const input = asked({ kind: "user_input", fields: [{ name: "a", type: "int" }, { name: "b", type: "str", value: "as it was" }] });
    expect(resolutionOf(input, approved({ values: { a: 0 } }), undefined)).toEqual({ kind: "user_input", values: { a: 0, b: "as it was" } });
    expect(resolutionOf(input, approved({ a: 5, b: "new", c: 1 }), undefined)).toEqual({ kind: "user_input", values: { a: 5, b: "new" } });
    expect(resolutionOf(input, approved({ values: { a: "five" } }), undefined)).toBeUndefined();
    expect(resolutionOf(input, approved(), undefined)).toBeUndefined();
  });

  it("a result from outside comes from the resolution's data, or from the client", () => {
    const outside = asked({ kind: "external_execution" });
    expect(resolutionOf(outside, approved({ result: "" }), undefined)).toEqual({ kind: "external_execution", result: "" });
    for (const data of [undefined, {}, { result: 5 }]) expect(resolutionOf(outside, approved(data), undefined)).toBeUndefined();
    expect(resolutionOf(asked({ kind: "user_feedback" }), approved({ selections: [["A"]] }), undefined)).toBeUndefined();
  });
});

it("fields that a person left keep what the model wrote, and nothing is a field that is none", () => {
  const fields = [{ name: "a", type: "int" as const, value: 1 }, { name: "b", type: "str" as const }, { name: "c", type: "bool" as const, value: true }];
  expect(filledIn({ id: "r", kind: "user_input", createdAt: 1, fields }, { c: false, other: 1 })).toEqual({ a: 1, c: false });
  expect(filledIn({ id: "r", kind: "user_input", createdAt: 1 }, { a: 1 })).toEqual({});
});

it("what is kept with the run of a decision names who made it and when", () => {
  const approval = { ...openApproval(run, [effect("c1", "t", {})], agentWith({}), 1), status: "approved" as const, resolvedBy: "bob", resolvedAt: 2_500, resolutionData: { note: "x" } };
  expect(decisionNote(approval)).toEqual({ id: approval.id, status: "approved", approval_type: "required", resolved_by: "bob", resolved_at: 2, resolution_data: { note: "x" } });
});
