import type { z } from "@hono/zod-openapi";
import type { ComponentKind } from "../domain/component.ts";
import type { OperationContext } from "../operations/context.ts";
import { deleteApproval } from "../operations/delete-approval.ts";
import { readApproval } from "../operations/read-approval.ts";
import { resolveApproval } from "../operations/resolve-approval.ts";
import { jsonContent, readJson } from "./read-json.ts";
import { newRouter, route } from "./route.ts";
import {
  ApprovalCount,
  ApprovalPage,
  ApprovalSchema,
  ApprovalStatusBody,
  CountApprovalsParameters,
  ListApprovalsParameters,
  ofApproval,
  ResolveApprovalBody,
} from "./schemas/approval.ts";
import { approvalToWire } from "./wire/approvals.ts";
import { pageToWire } from "./wire/sessions.ts";

const read = { scopes: ["approvals:read"] } as const;
const write = { scopes: ["approvals:write"] } as const;
const remove = { scopes: ["approvals:delete"] } as const;

const answers = (description: string, schema: z.ZodType) => ({ description, content: { "application/json": { schema } } });

/** What paused runs wait for people to decide: listed as D1 knows it, decided in the sessions' objects. */
export const approvals = newRouter();

approvals.openapi(
  route({
    method: "get",
    path: "/",
    guard: read,
    summary: "List approvals",
    request: { query: ListApprovalsParameters },
    responses: { 200: answers("A page of them, the newest first", ApprovalPage) },
  }),
  async (c) => {
    const query = c.req.valid("query");
    const page = await c.var.context.repositories.approvals.list({
      status: query.status,
      sourceType: query.source_type,
      type: query.approval_type,
      pauseType: query.pause_type,
      components: componentsIn(query),
      userId: ownerFilter(c.var.context, query.user_id),
      scheduleId: query.schedule_id,
      runId: query.run_id,
      page: Math.max(1, query.page),
      limit: query.limit,
    });
    const items = await Promise.all(page.items.map(approvalToWire));
    return c.json(pageToWire({ ...page, items }, (item) => item));
  },
);

approvals.openapi(
  route({
    method: "get",
    path: "/count",
    guard: read,
    summary: "Count the approvals that wait",
    request: { query: CountApprovalsParameters },
    responses: { 200: answers("How many nobody has decided on", ApprovalCount) },
  }),
  async (c) => {
    const { context } = c.var;
    return c.json({ count: await context.repositories.approvals.countPending(ownerFilter(context, c.req.valid("query").user_id)) });
  },
);

approvals.openapi(
  route({
    method: "get",
    path: "/{approval_id}",
    guard: read,
    summary: "Read an approval",
    request: { params: ofApproval },
    responses: { 200: answers("The approval", ApprovalSchema) },
  }),
  async (c) => c.json(await approvalToWire(await readApproval(c.var.context, c.req.valid("param").approval_id))),
);

approvals.openapi(
  route({
    method: "get",
    path: "/{approval_id}/status",
    guard: read,
    summary: "Read how an approval stands",
    request: { params: ofApproval },
    responses: { 200: answers("Its status, and who decided", ApprovalStatusBody) },
  }),
  async (c) => {
    const approval = await approvalToWire(await readApproval(c.var.context, c.req.valid("param").approval_id));
    const { id, status, run_id, resolved_at, resolved_by } = approval;
    return c.json({ approval_id: id, status, run_id, resolved_at, resolved_by });
  },
);

approvals.openapi(
  route({
    method: "post",
    path: "/{approval_id}/resolve",
    guard: write,
    summary: "Decide on an approval",
    description: "The first decision counts. It runs nothing by itself: the run goes on when it is continued, or at once with `continue`.",
    request: { params: ofApproval, body: { required: true, content: jsonContent(ResolveApprovalBody) } },
    responses: { 200: answers("The approval as it stands now", ApprovalSchema) },
  }),
  async (c) => {
    const body = await readJson(c.req.raw, ResolveApprovalBody);
    const approval = await resolveApproval(c.var.context, {
      approvalId: c.req.valid("param").approval_id,
      decision: body.status,
      data: body.resolution_data,
      resolvedBy: body.resolved_by,
      shownHash: body.shown_hash,
      thenContinue: body.continue ?? false,
    });
    return c.json(await approvalToWire(approval));
  },
);

approvals.openapi(
  route({
    method: "delete",
    path: "/{approval_id}",
    guard: remove,
    summary: "Delete an approval",
    description: "A call that waits for it stays blocked: its run can only be cancelled.",
    request: { params: ofApproval },
    responses: { 204: { description: "It is gone" } },
  }),
  async (c) => {
    await deleteApproval(c.var.context, c.req.valid("param").approval_id);
    return c.body(null, 204);
  },
);

/** For users `user_id` is what they are, whatever they say. */
const ownerFilter = ({ access }: OperationContext, userId: string | undefined): string | undefined => (access.rows === "all" ? userId : undefined);

const COMPONENT_FILTERS = { agent_id: "agent", team_id: "team", workflow_id: "workflow" } as const satisfies Record<string, ComponentKind>;

function componentsIn(query: z.infer<typeof ListApprovalsParameters>): { kind: ComponentKind; id: string }[] {
  return Object.entries(COMPONENT_FILTERS).flatMap(([name, kind]) => {
    const id = query[name as keyof typeof COMPONENT_FILTERS];
    return id === undefined ? [] : [{ kind, id }];
  });
}
