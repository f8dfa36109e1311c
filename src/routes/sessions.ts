import { z } from "@hono/zod-openapi";
import { requireScope } from "../auth/require-scope.ts";
import { AppError, invalid, notFound } from "../domain/errors.ts";
import type { ComponentKind } from "../domain/component.ts";
import type { Access } from "../domain/principal.ts";
import type { Session } from "../domain/session.ts";
import { createSession } from "../operations/create-session.ts";
import type { OperationContext } from "../operations/context.ts";
import { deleteSessions } from "../operations/delete-sessions.ts";
import { patchSession } from "../operations/patch-session.ts";
import { readSession, readSessionRun, readSessionRuns } from "../operations/read-session.ts";
import type { RunReading } from "../session/commands.ts";
import { jsonContent, readJson } from "./read-json.ts";
import { newRouter, route } from "./route.ts";
import { RunSchema } from "./schemas/run.ts";
import {
  AgentSessionDetail,
  CreateSessionBody,
  CreateSessionParameters,
  DeleteSessionParameters,
  DeleteSessionsBody,
  ListSessionRunsParameters,
  ListSessionsParameters,
  MediaParameters,
  ofMedia,
  ofSession,
  ofSessionRun,
  PatchSessionBody,
  RenameSessionBody,
  SessionPage,
  SessionParameters,
} from "./schemas/session.ts";
import { selectDatabase } from "./select-database.ts";
import { runSchemaToWire, toSeconds, withoutNulls } from "./wire.ts";
import { pageToWire, sessionDetailToWire, sessionToWire } from "./wire/sessions.ts";

const read = { scopes: ["sessions:read"] } as const;
const write = { scopes: ["sessions:write"] } as const;
const remove = { scopes: ["sessions:delete"] } as const;

const answers = (description: string, schema: z.ZodType) => ({ description, content: { "application/json": { schema } } });
const body = (schema: z.ZodType, required = true) => ({ body: { required, content: jsonContent(schema) } });

/** The tables of sessions, as `/config` names them. */
const TABLES = ["sessions"];

const TITLES: Record<ComponentKind, string> = { agent: "Agent", team: "Team", workflow: "Workflow" };

/** Sessions: listed as D1 knows them, read and changed in their objects. */
export const sessions = newRouter();

sessions.openapi(
  route({
    method: "get",
    path: "/",
    guard: read,
    summary: "List sessions",
    request: { query: ListSessionsParameters },
    responses: { 200: answers("A page of sessions, without their runs", SessionPage) },
  }),
  async (c) => {
    const query = c.req.valid("query");
    selectDatabase(query, TABLES);
    const page = await c.var.context.repositories.sessions.list({
      type: query.type,
      componentId: query.component_id,
      userId: ownerFilter(c.var.context, query.user_id),
      name: query.session_name,
      sortBy: query.sort_by,
      sortOrder: query.sort_order,
      page: Math.max(1, query.page),
      limit: query.limit,
    });
    return c.json(pageToWire(page, (session) => withoutNulls(sessionToWire(session))));
  },
);

sessions.openapi(
  route({
    method: "post",
    path: "/",
    guard: write,
    summary: "Make a session without a run",
    request: { query: CreateSessionParameters, ...body(CreateSessionBody, false) },
    responses: { 201: answers("The session", AgentSessionDetail) },
  }),
  async (c) => {
    const { type, db_id } = c.req.valid("query");
    selectDatabase({ db_id }, TABLES);
    const fields = await readJson(c.req.raw, CreateSessionBody);
    if (!isOf("agent", type) || fields.team_id !== undefined || fields.workflow_id !== undefined) {
      throw invalid("There are no teams and workflows here: a session is an agent's.");
    }
    const session = await createSession(c.var.context, {
      sessionId: fields.session_id,
      userId: fields.user_id,
      component: fields.agent_id === undefined ? undefined : { kind: "agent", id: fields.agent_id },
      name: fields.session_name,
      state: fields.session_state,
      metadata: fields.metadata,
    });
    return c.json(detail(c.var.context, { session, runs: [] }), 201, { location: `/sessions/${encodeURIComponent(session.sessionId)}` });
  },
);

sessions.openapi(
  route({
    method: "delete",
    path: "/",
    guard: remove,
    summary: "Delete sessions",
    description: "Sessions that are not there, not the asker's or of another type are left as they are.",
    request: { query: DeleteSessionParameters, ...body(DeleteSessionsBody) },
    responses: { 204: { description: "They are gone" } },
  }),
  async (c) => {
    const query = c.req.valid("query");
    selectDatabase(query, TABLES);
    if (query.delete_media) throw noMedia();
    const { session_ids: ids, session_types: types } = await readJson(c.req.raw, DeleteSessionsBody);
    if (ids.length !== types.length) throw invalid("session_ids and session_types must have the same length.");
    await deleteSessions(c.var.context, ids.filter((_, index) => types[index] === "agent"), narrowed(c.var.context, query.user_id));
    return c.body(null, 204);
  },
);

sessions.openapi(
  route({
    method: "get",
    path: "/{session_id}",
    guard: read,
    summary: "Read a session",
    request: { params: ofSession, query: SessionParameters },
    responses: { 200: answers("The session with what was said in it", AgentSessionDetail.partial()) },
  }),
  async (c) => {
    const query = c.req.valid("query");
    selectDatabase(query, TABLES);
    const { session_id: sessionId } = c.req.valid("param");
    const missing = notFound(`${query.type === undefined ? "" : `${TITLES[query.type]} `}Session with id '${sessionId}' not found`);
    const found = await orMissing(readSession(c.var.context, { sessionId, access: narrowed(c.var.context, query.user_id) }), missing);
    if (!isOf(found.session.component?.kind ?? "agent", query.type)) throw missing;
    return c.json(withoutNulls(detail(c.var.context, found)));
  },
);

sessions.openapi(
  route({
    method: "patch",
    path: "/{session_id}",
    guard: write,
    summary: "Change a session",
    description: "Replaces what is given. `null` changes nothing.",
    request: { params: ofSession, query: SessionParameters, ...body(PatchSessionBody) },
    responses: { 200: answers("The session as it is now", AgentSessionDetail) },
  }),
  async (c) => {
    const fields = await readJson(c.req.raw, PatchSessionBody);
    const changes = { name: fields.session_name, state: fields.session_state, metadata: fields.metadata, summary: fields.summary };
    return c.json(await patched(c.var.context, c.req.valid("param").session_id, c.req.valid("query"), changes));
  },
);

sessions.openapi(
  route({
    method: "post",
    path: "/{session_id}/rename",
    guard: write,
    summary: "Rename a session",
    request: { params: ofSession, query: SessionParameters, ...body(RenameSessionBody) },
    responses: { 200: answers("The session as it is now", AgentSessionDetail) },
  }),
  async (c) => {
    const { session_name: name } = await readJson(c.req.raw, RenameSessionBody);
    return c.json(await patched(c.var.context, c.req.valid("param").session_id, c.req.valid("query"), { name }));
  },
);

sessions.openapi(
  route({
    method: "delete",
    path: "/{session_id}",
    guard: remove,
    summary: "Delete a session with its runs",
    request: { params: ofSession, query: DeleteSessionParameters },
    responses: { 204: { description: "It is gone, or was not there" } },
  }),
  async (c) => {
    const query = c.req.valid("query");
    selectDatabase(query, TABLES);
    if (query.delete_media) throw noMedia();
    await deleteSessions(c.var.context, [c.req.valid("param").session_id], narrowed(c.var.context, query.user_id));
    return c.body(null, 204);
  },
);

sessions.openapi(
  route({
    method: "get",
    path: "/{session_id}/runs",
    guard: read,
    summary: "List a session's runs",
    request: { params: ofSession, query: ListSessionRunsParameters },
    responses: { 200: answers("Runs in the order they were accepted", z.array(RunSchema.partial())) },
  }),
  async (c) => {
    const query = c.req.valid("query");
    selectDatabase(query, TABLES);
    const { session_id: sessionId } = c.req.valid("param");
    const missing = notFound(`Session with ID ${sessionId} not found`);
    if (!isOf("agent", query.type)) throw missing;
    const runs = await orMissing(readSessionRuns(c.var.context, { sessionId, access: narrowed(c.var.context, query.user_id) }), missing);
    return c.json(runs.filter(madeWithin(query.created_after, query.created_before)).map((run) => withoutNulls(runSchemaToWire(run))));
  },
);

sessions.openapi(
  route({
    method: "get",
    path: "/{session_id}/runs/{run_id}",
    guard: read,
    summary: "Read a run of a session",
    request: { params: ofSessionRun, query: SessionParameters },
    responses: { 200: answers("The run so far", RunSchema.partial()) },
  }),
  async (c) => {
    const query = c.req.valid("query");
    selectDatabase(query, TABLES);
    const { session_id: sessionId, run_id: runId } = c.req.valid("param");
    const missing = notFound(`Run with ID ${runId} not found`);
    if (!isOf("agent", query.type)) throw missing;
    const run = await orMissing(readSessionRun(c.var.context, { sessionId, runId, access: narrowed(c.var.context, query.user_id) }), missing);
    return c.json(withoutNulls(runSchemaToWire(run)));
  },
);

// A key may hold slashes. OpenAPI has no word for that, so the route and its page are declared apart.
sessions.openAPIRegistry.registerPath({
  method: "get",
  path: "/{session_id}/media/{storage_key}",
  summary: "Read a file of a session",
  security: [{ bearer: [...read.scopes] }],
  request: { params: ofMedia, query: MediaParameters },
  responses: { 503: { description: "Nothing stores media here" } },
});
sessions.get("/:session_id/media/:storage_key{.+}", requireScope(read.scopes), () => {
  throw noMedia();
});

const noMedia = () => new AppError("not_available", "Media storage is not configured on this AgentOS.");

/** The asker's access, or only one user's part of it. For users `user_id` is what they are, whatever they say. */
const narrowed = ({ access }: OperationContext, userId: string | undefined): Access =>
  access.rows === "all" && userId !== undefined ? { rows: "user", userId } : access;

const ownerFilter = ({ access }: OperationContext, userId: string | undefined): string | undefined => (access.rows === "all" ? userId : undefined);

/** Whether something of one kind is what a request for another means; for none in particular, everything is. */
const isOf = (kind: ComponentKind, type: ComponentKind | undefined): boolean => type === undefined || type === kind;

/** Says that something is missing in the words that its route is known by. */
async function orMissing<T>(asked: Promise<T>, missing: AppError): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    throw error instanceof AppError && error.code === "not_found" ? missing : error;
  }
}

const detail = (context: OperationContext, { session, runs }: { session: Session; runs: RunReading[] }): AgentSessionDetail =>
  sessionDetailToWire(session, runs, session.component === undefined ? undefined : context.registry.agent(session.component.id)?.name);

async function patched(context: OperationContext, sessionId: string, query: z.infer<typeof SessionParameters>, changes: Parameters<typeof patchSession>[2]) {
  selectDatabase(query, TABLES);
  if (!isOf("agent", query.type)) throw notFound(`Session with id '${sessionId}' not found`);
  return detail(context, await patchSession(context, { sessionId, access: narrowed(context, query.user_id) }, changes));
}

function madeWithin(after: number | undefined, before: number | undefined): (run: RunReading) => boolean {
  return ({ record }) => {
    const seconds = toSeconds(record.createdAt);
    return (after === undefined || seconds >= after) && (before === undefined || seconds <= before);
  };
}
