import { describe, expect, it } from "vitest";
import { z } from "zod";
import { askUser, getUserInput } from "../../../src/define/ask-person.ts";
import { defineAgent } from "../../../src/define/agent.ts";
import { defineTool } from "../../../src/define/tool.ts";
import { type Approval, shownHashOf } from "../../../src/domain/approval.ts";
import type { Message } from "../../../src/domain/message.ts";
import type { Requirement, Resolution } from "../../../src/domain/requirement.ts";
import type { RunEvent, RunEventBody } from "../../../src/domain/run-event.ts";
import type { RunRecord } from "../../../src/domain/run.ts";
import type { Effect } from "../../../src/domain/tool-call.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { hashOf } from "../../../src/lib/hash.ts";
import { agentToWire, runToWire, wireEncoder } from "../../../src/routes/wire.ts";
import { approvalToWire } from "../../../src/routes/wire/approvals.ts";
import { checkpointToWire } from "../../../src/routes/wire/checkpoints.ts";
import { toolToWire } from "../../../src/routes/wire/tool-execution.ts";

const AT = 1_795_961_622_345;
const run = { runId: "r1", sessionId: "s2", component: { kind: "agent", id: "a1", name: "Agent One", version: "1" } } as const;

/** As JSON makes it: what is undefined is gone. */
const written = (value: unknown) => JSON.parse(JSON.stringify(value)) as Record<string, any>;

const effect = (requirement: Partial<Requirement> | undefined, given: Partial<Effect> = {}): Effect => ({
  runId: "r1",
  step: 0,
  position: 0,
  callId: "c1",
  toolName: "update_crm",
  status: "planned",
  arguments: { id: 7 },
  attempt: 1,
  plannedAt: AT,
  ...(requirement === undefined ? {} : { requirement: { id: "q1", kind: "confirmation", createdAt: AT, ...requirement } }),
  ...given,
});

const tool = (requirement: Partial<Requirement> | undefined, given?: Partial<Effect>) => written(toolToWire(effect(requirement, given), AT));

describe("a call that waits", () => {
  it("S282 for a yes says so, and with the approval's type and id", () => {
    expect(tool({ approvalType: "required", approvalId: "ap1", shownHash: "abc" })).toMatchObject({
      requires_confirmation: true,
      confirmed: null,
      confirmation_note: null,
      requires_user_input: null,
      user_input_schema: null,
      user_feedback_schema: null,
      answered: null,
      external_execution_required: null,
      external_execution_silent: null,
      approval_type: "required",
      approval_id: "ap1",
      shown_hash: "abc",
      tool_call_error: null,
      result: null,
    });
  });

  it("for values shows the fields with what the model wrote", () => {
    const fields: Requirement["fields"] = [{ name: "date", type: "str", description: "When." }, { name: "seats", type: "int", value: 0 }];
    const wire = tool({ kind: "user_input", fields });
    expect(wire).toMatchObject({ requires_user_input: true, requires_confirmation: null, answered: null });
    expect(wire.user_input_schema).toEqual([
      { name: "date", field_type: "str", description: "When.", value: null },
      { name: "seats", field_type: "int", description: null, value: 0 },
    ]);
    const answered = tool({ kind: "user_input", fields, resolution: { kind: "user_input", values: { date: "", seats: 3 } } });
    expect(answered).toMatchObject({ answered: true, user_input_schema: [{ value: "" }, { value: 3 }] });
  });

  it("for a choice shows the questions, and then what was chosen", () => {
    const questions: Requirement["questions"] = [{ question: "Which?", header: "Plan", multiSelect: true, options: [{ label: "A", description: "First." }, { label: "B" }] }];
    expect(tool({ kind: "user_feedback", questions }).user_feedback_schema).toEqual([
      {
        question: "Which?",
        header: "Plan",
        multi_select: true,
        selected_options: null,
        options: [{ label: "A", description: "First.", selected: false }, { label: "B", description: null, selected: false }],
      },
    ]);
    const answered = tool({ kind: "user_feedback", questions, resolution: { kind: "user_feedback", selections: [["B"]] } });
    expect(answered).toMatchObject({ requires_user_input: true, answered: true, user_feedback_schema: [{ selected_options: ["B"], options: [{ selected: false }, { selected: true }] }] });
  });

  it("for the client to make it says so, and shows what came of it", () => {
    expect(tool({ kind: "external_execution" })).toMatchObject({ external_execution_required: true, external_execution_silent: false, result: null });
    expect(tool({ kind: "external_execution", silent: true, resolution: { kind: "external_execution", result: "200" } })).toMatchObject({ external_execution_silent: true, result: "200" });
  });

  it("S361 for someone who knows what became of it names its kind, behind the keys of AgentOS", () => {
    const wire = tool({ kind: "unknown_outcome", shownHash: "abc" }, { status: "unknown" });
    expect(wire).toMatchObject({ requirement_kind: "unknown_outcome", outcome: null, requires_confirmation: null, tool_call_error: true });
    expect(Object.keys(wire).slice(-4)).toEqual(["approval_id", "shown_hash", "requirement_kind", "outcome"]);
    expect(tool({ kind: "unknown_outcome", resolution: { kind: "unknown_outcome", decision: "skip" } }, { status: "unknown" })).toMatchObject({ outcome: "skip" });
  });

  it("S317 and was rejected shows a no and its note, whatever it waited for", () => {
    for (const kind of ["confirmation", "user_input", "external_execution"] as const) {
      expect(tool({ kind, resolution: { kind: "rejected", note: "Not today." } }, { status: "rejected", result: "…" })).toMatchObject({ confirmed: false, confirmation_note: "Not today.", tool_call_error: true });
    }
    expect(tool({ resolution: { kind: "confirmation", confirmed: false, note: "No." } })).toMatchObject({ confirmed: false, confirmation_note: "No." });
  });

  it("shows what a person approved in place of the model's arguments", () => {
    expect(tool({ resolution: { kind: "confirmation", confirmed: true, arguments: { id: 8 } } })).toMatchObject({ confirmed: true, tool_args: { id: 7 }, edited_args: { id: 8 } });
    expect(tool({ resolution: { kind: "confirmation", confirmed: true } })).not.toHaveProperty("edited_args");
  });
});

describe("a pause", () => {
  const told = (body: RunEventBody) => JSON.parse(wireEncoder.event(run, { index: 4, at: AT, ...body } as RunEvent).json);

  it("S154 is told with its calls and requirements", () => {
    const frame = told({ type: "run.paused", content: "I have tools to run.", calls: [effect({ approvalType: "required", approvalId: "ap1" })] });
    expect(frame).toMatchObject({
      event: "RunPaused",
      content: "I have tools to run.",
      tools: [{ tool_call_id: "c1", tool_name: "update_crm", tool_args: { id: 7 }, requires_confirmation: true, approval_id: "ap1" }],
      requirements: [{ id: "q1", kind: "confirmation", created_at: "2026-11-29T14:13:42.345Z", tool_execution: { tool_call_id: "c1", approval_id: "ap1" } }],
      event_index: 4,
    });
    expect(Object.values(frame.requirements[0])).not.toContain(null);
  });

  it("and the going on from it", () => {
    expect(told({ type: "run.continued" })).toMatchObject({ event: "RunContinued", run_id: "r1" });
    expect(told({ type: "run.continued" })).not.toHaveProperty("note");
    expect(told({ type: "run.continued", note: "The instructions changed." })).toMatchObject({ note: "The instructions changed." });
  });
});

const reply = (id: string, ...calls: string[]): Message => ({
  role: "assistant",
  id,
  createdAt: AT,
  content: `${id}  says\nthis. `,
  toolCalls: calls.map((call) => ({ id: call, name: "t", arguments: {} })),
  provider: "p",
  model: "m",
  finishReason: "stop",
});

const record: RunRecord = {
  ...run,
  component: { ...run.component },
  status: "paused",
  input: { message: "Change 7." },
  background: false,
  stream: true,
  onDisconnect: "keep",
  attempt: 1,
  attemptsSinceCheckpoint: 1,
  content: "",
  metrics: { usage: NO_USAGE, modelCalls: 1 },
  createdAt: AT,
  updatedAt: AT,
  version: 3,
  messages: [{ role: "user", id: "m1", createdAt: AT, content: "Change 7." }, reply("m2", "c1", "c2")],
  effects: [effect({ approvalType: "required", approvalId: "ap1" }), effect(undefined, { callId: "c2", position: 1, toolName: "look_up", status: "done", result: "found" })],
};

describe("a paused run", () => {
  it("S298 has its calls, and those of them that wait as requirements, with the same approval on both", () => {
    const wire = written(runToWire({ record, events: [] }));
    expect(wire).toMatchObject({ status: "PAUSED", tools: [{ tool_call_id: "c1", approval_id: "ap1" }, { tool_call_id: "c2", result: "found" }] });
    expect(wire.requirements).toMatchObject([{ id: "q1", tool_execution: { tool_call_id: "c1", approval_id: "ap1" } }]);
    expect(Object.values(wire)).not.toContain(null);
    expect(written(runToWire({ record: { ...record, effects: [] }, events: [] }))).not.toHaveProperty("requirements");
  });

  it.each<[Resolution, Record<string, unknown>]>([
    [{ kind: "confirmation", confirmed: true, note: "Go." }, { confirmation: true, confirmation_note: "Go." }],
    [{ kind: "rejected" }, { confirmation: false }],
    [{ kind: "external_execution", result: "200" }, { external_execution_result: "200" }],
  ])("S327 shows the decision %j alike on the call and on the requirement", (resolution, keys) => {
    const kind = resolution.kind === "rejected" ? "confirmation" : (resolution.kind as Requirement["kind"]);
    const wire = written(runToWire({ record: { ...record, effects: [effect({ kind, resolution })] }, events: [] }));
    expect(wire.requirements[0]).toMatchObject(keys);
    expect(wire.requirements[0].tool_execution).toEqual(wire.tools[0]);
  });
});

describe("an approval", () => {
  const approval: Approval = {
    id: "ap1",
    runId: "r1",
    sessionId: "s2",
    userId: "alice",
    component: { ...run.component },
    status: "pending",
    type: "required",
    pauseType: "confirmation",
    toolName: "update_crm",
    toolArguments: { id: 7 },
    toolNames: ["update_crm"],
    requirements: [{ id: "q1", kind: "confirmation", createdAt: AT, approvalType: "required", approvalId: "ap1", shownHash: "abc", callId: "c1", toolName: "update_crm", arguments: { id: 7 } }],
    approvers: 1,
    votes: [],
    requesterMayApprove: true,
    runStatus: "paused",
    createdAt: AT,
    updatedAt: AT,
    version: 1,
  };

  it("S155 has every field, null where there is nothing", async () => {
    expect(written(await approvalToWire(approval))).toEqual({
      id: "ap1",
      run_id: "r1",
      session_id: "s2",
      status: "pending",
      source_type: "agent",
      approval_type: "required",
      pause_type: "confirmation",
      tool_name: "update_crm",
      tool_args: { id: 7 },
      expires_at: null,
      agent_id: "a1",
      team_id: null,
      workflow_id: null,
      user_id: "alice",
      schedule_id: null,
      schedule_run_id: null,
      source_name: "Agent One",
      requirements: [{ id: "q1", created_at: "2026-11-29T14:13:42.345Z", kind: "confirmation", tool_execution: expect.objectContaining({ tool_call_id: "c1", tool_args: { id: 7 }, approval_id: "ap1", shown_hash: "abc" }) }],
      context: { tool_names: ["update_crm"], source_name: "Agent One" },
      resolution_data: null,
      resolved_by: null,
      resolved_at: null,
      created_at: 1_795_961_622,
      updated_at: 1_795_961_622,
      run_status: "PAUSED",
      shown_hash: "abc",
      on_expiry: null,
      approvers: 1,
      votes: [],
      requester_may_approve: true,
    });
  });

  it("S293 S295 names its team or workflow, its schedule, and who decided when", async () => {
    const team = await approvalToWire({ ...approval, component: { ...approval.component, kind: "team" }, scheduleId: "daily", scheduleRunId: "d1", status: "approved", resolvedBy: "root", resolvedAt: AT + 1_000, expiresAt: AT, onExpiry: "cancel" });
    expect(team).toMatchObject({ source_type: "team", team_id: "a1", agent_id: null, schedule_id: "daily", schedule_run_id: "d1", resolved_by: "root", resolved_at: 1_795_961_623, expires_at: 1_795_961_622, on_expiry: "cancel" });
    expect(await approvalToWire({ ...approval, component: { ...approval.component, kind: "workflow" } })).toMatchObject({ workflow_id: "a1", team_id: null });
  });

  it("of several calls shows one hash for all of them, which changes with each", async () => {
    const [one] = approval.requirements;
    const both = await approvalToWire({ ...approval, requirements: [one!, { ...one!, callId: "c2", shownHash: "def" }] });
    expect(both.shown_hash).toBe(await hashOf(["abc", "def"]));
    expect(await shownHashOf([{ shownHash: "abc" }, { shownHash: "deg" }])).not.toBe(both.shown_hash);
    expect(await shownHashOf([{}])).toBeUndefined();
  });
});

describe("a checkpoint", () => {
  const message: Message = { role: "tool", id: "m3", createdAt: AT, toolCallId: "c1", toolName: "t", content: `${"long ".repeat(23)}text\u{1f682} and more\nlines`, isError: false };

  it("says where it stands, and shows a line of what is there", () => {
    expect(checkpointToWire(record, { messageIndex: 3, isEnd: false, message })).toEqual({
      checkpoint_id: "3",
      run_id: "r1",
      session_id: "s2",
      message_index: 3,
      continue_from: 3,
      status: "RUNNING",
      reason: "checkpoint",
      created_at: 1_795_961_622,
      message_id: "m3",
      message_role: "tool",
      // Not half of the character that the limit goes through.
      message_preview: `${"long ".repeat(23)}text`,
      is_latest: false,
    });
  });

  it("at the end has the run's own status; between others it is a snapshot", () => {
    expect(checkpointToWire(record, { messageIndex: 2, isEnd: true, message: record.messages[1] })).toMatchObject({ reason: "end", status: "PAUSED", is_latest: true, message_preview: "m2 says this." });
    expect(checkpointToWire(record, { messageIndex: 1, isEnd: false, message: record.messages[0], isListed: false })).toMatchObject({ reason: "snapshot" });
    expect(written(checkpointToWire(record, { messageIndex: 0, isEnd: false, message: undefined, isListed: false }))).not.toHaveProperty("message_id");
  });
});

describe("an agent's tools", () => {
  const options = { description: "Does it.", input: z.object({ to: z.string(), when: z.string() }), execute: () => "" };
  const shown = (name: string, given: Omit<Parameters<typeof defineTool<typeof options.input>>[0], "name" | "description" | "input" | "execute">) => {
    const agent = defineAgent({ id: "a1", model: "anthropic:claude-x", tools: [defineTool({ name, ...options, ...given })] });
    return written(agentToWire(agent, {})).tools.tools[0];
  };

  it("S280 S281 S282 say what their calls wait for", () => {
    expect(shown("a", { approval: "required" })).toMatchObject({ approval_type: "required", requires_confirmation: true });
    expect(shown("b", { approval: "audit", requiresConfirmation: true })).toMatchObject({ approval_type: "audit", requires_confirmation: true });
    const external = shown("c", { approval: "required", externalExecution: "silent" });
    expect(external).toMatchObject({ approval_type: "required", external_execution: true, external_execution_silent: true });
    expect(external).not.toHaveProperty("requires_confirmation");
    expect(shown("d", { requiresUserInput: ["when"] })).toMatchObject({ requires_user_input: true, user_input_fields: ["when"] });
    expect(Object.keys(shown("e", {})).filter((key) => /requires|external|approval/.test(key))).toEqual([]);
  });

  it("S281 S283 are refused at definition where they could not work", () => {
    expect(() => shown("a", { approval: "sometimes" as "audit" })).toThrow(/"required" or "audit"/);
    expect(() => shown("a", { approval: "audit" })).toThrow(/needs confirmation, user input or external execution/);
    expect(() => shown("a", { requiresConfirmation: true, externalExecution: true })).toThrow(/only one of/);
  });

  it("that ask people are tools like others", () => {
    const agent = defineAgent({ id: "a1", model: "anthropic:claude-x", tools: [getUserInput, askUser] });
    expect(written(agentToWire(agent, {})).tools.tools).toMatchObject([{ name: "get_user_input", requires_user_input: true }, { name: "ask_user", requires_user_input: true }]);
  });
});
