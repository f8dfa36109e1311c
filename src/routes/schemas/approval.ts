import { z } from "@hono/zod-openapi";
import { APPROVAL_STATUSES } from "../../domain/approval.ts";
import { COMPONENT_KINDS } from "../../domain/component.ts";
import { formText } from "../fields.ts";
import { RunRequirement, RunStatusWord } from "./run.ts";
import { given, optional, pageNumber, pageSize, SessionPage, text } from "./session.ts";

const json = z.record(z.string(), z.unknown());

const APPROVAL_TYPES = ["required", "audit"] as const;
const PAUSE_TYPES = ["confirmation", "user_input", "external_execution"] as const;

const word = <const Words extends readonly [string, ...string[]]>(words: Words) => given(z.enum(words)).openapi({ type: "string", enum: [...words] });

export const ofApproval = z.object({ approval_id: z.string() });

export const ListApprovalsParameters = z.object({
  status: word(APPROVAL_STATUSES),
  source_type: word(COMPONENT_KINDS),
  approval_type: word(APPROVAL_TYPES),
  pause_type: word(PAUSE_TYPES),
  agent_id: text("Of one agent."),
  team_id: text("Of one team."),
  workflow_id: text("Of one workflow."),
  user_id: text("Whose run it is. Users see their own whatever this says."),
  schedule_id: text("Of the runs of one schedule."),
  run_id: text("Of one run."),
  limit: pageSize(100),
  page: pageNumber,
});

export const CountApprovalsParameters = ListApprovalsParameters.pick({ user_id: true });

const MAX_RESOLVER_LENGTH = 255;

export const ResolveApprovalBody = z.object({
  status: z.enum(["approved", "rejected"]),
  resolved_by: optional(formText().max(MAX_RESOLVER_LENGTH)).meta({ description: "Who decides, where the request's credentials do not say." }),
  resolution_data: optional(json).meta({
    description:
      "What goes with the decision: `values` of input fields by name, the `result` of an external call, a `note` that the model is told, `edited_args` to run with in place of the model's (with several calls: by call id).",
  }),
  shown_hash: optional(z.string()).meta({ description: "The `shown_hash` of what was decided on: if it is not what waits, the decision is refused." }),
  continue: optional(z.boolean()).meta({ description: "Let the run go on at once, in the background, behind whatever holds the session." }),
});

export const ApprovalSchema = z
  .object({
    id: z.string(),
    run_id: z.string(),
    session_id: z.string(),
    status: z.enum(APPROVAL_STATUSES),
    source_type: z.enum(COMPONENT_KINDS),
    approval_type: z.enum(APPROVAL_TYPES),
    pause_type: z.enum(PAUSE_TYPES),
    tool_name: z.string(),
    tool_args: json,
    expires_at: z.number().int().nullable(),
    agent_id: z.string().nullable(),
    team_id: z.string().nullable(),
    workflow_id: z.string().nullable(),
    user_id: z.string().nullable(),
    schedule_id: z.string().nullable(),
    schedule_run_id: z.string().nullable(),
    source_name: z.string(),
    requirements: z.array(RunRequirement),
    context: z.object({ tool_names: z.array(z.string()), source_name: z.string() }),
    resolution_data: json.nullable(),
    resolved_by: z.string().nullable(),
    resolved_at: z.number().int().nullable(),
    created_at: z.number().int(),
    updated_at: z.number().int(),
    run_status: RunStatusWord.nullable(),
    shown_hash: z.string().nullable().openapi({ description: "Hash of all that is shown. Send it along with the decision." }),
    on_expiry: z.enum(["reject", "cancel"]).nullable(),
    approvers: z.number().int().openapi({ description: "How many different people must approve." }),
    votes: z.array(z.object({ by: z.string(), decision: z.enum(["approved", "rejected"]), at: z.number().int() })),
    requester_may_approve: z.boolean(),
  })
  .openapi("Approval");
export type ApprovalSchema = z.infer<typeof ApprovalSchema>;

export const ApprovalPage = z.object({ data: z.array(ApprovalSchema), meta: SessionPage.shape.meta }).openapi("ApprovalPage");

export const ApprovalCount = z.object({ count: z.number().int() }).openapi("ApprovalCount");

export const ApprovalStatusBody = ApprovalSchema.pick({ status: true, run_id: true, resolved_at: true, resolved_by: true })
  .extend({ approval_id: z.string() })
  .openapi("ApprovalStatus");
