import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Scope } from "../auth/scopes.ts";
import type { ComponentKind } from "../domain/component.ts";
import { AppError, invalid } from "../domain/errors.ts";
import { isJsonObject, tryParseJson } from "../lib/json.ts";
import { cancelRun } from "../operations/cancel-run.ts";
import { findComponent } from "../operations/find-component.ts";
import { followRun, pollRun } from "../operations/follow-run.ts";
import { listRuns, readRun } from "../operations/read-run.ts";
import { startRun, type StartRequest } from "../operations/start-run.ts";
import { fieldsContent, formInteger, parseFields, readFields, withoutFiles } from "./fields.ts";
import { IdempotencyHeader, idempotencyOf } from "./idempotency.ts";
import type { RouteEnv } from "./route-env.ts";
import { newRouter, route, type Router } from "./route.ts";
import { answerRun, onDisconnectOf, STREAMED } from "./run-answer.ts";
import { NO_MEDIA, ResumeFields, StartRunFields } from "./schemas/run-form.ts";
import { PolledEventsBody, RunOutput, RunSchema, StartedRunBody } from "./schemas/run.ts";
import { failedReplay, isPastEnd, relayed, replayed, STREAM_HEADERS } from "./stream.ts";
import { runSchemaToWire, runToWire, statusToWire, wireEncoder } from "./wire.ts";

const ofComponent = z.object({ component_id: z.string() });
const ofRun = ofComponent.extend({ run_id: z.string() });
const inSession = z.object({ session_id: z.string().min(1) });

const MAX_WAIT_SECONDS = 30;

const eventsQuery = z.object({
  after: formInteger({ min: -1 }).default(-1).openapi({ description: "Index of the last event the client has. The header Last-Event-ID counts for more." }),
  wait: z.coerce.number({ error: "Input should be a number" }).min(0).max(MAX_WAIT_SECONDS).default(0).openapi({ description: "Seconds to wait for an event when there is none yet." }),
  session_id: z.string().min(1).optional(),
});

/** Starting, reading, following and cancelling runs: the same under every kind of component. */
export function runs(kind: ComponentKind): Router {
  const scope = (action: "read" | "run"): Scope => `${kind}s:${action}`;
  const guard = (...actions: ("read" | "run")[]) => ({ scopes: actions.map(scope), param: "component_id" });
  const router = newRouter();

  const named = (c: Context<RouteEnv>, runId: string) => {
    const component = findComponent(c.var.context, kind, c.req.param("component_id") ?? "");
    return { runId, component: { kind, id: component.id } };
  };

  router.openapi(
    route({
      method: "post",
      path: "/{component_id}/runs",
      guard: guard("run"),
      summary: "Start a run",
      request: { params: ofComponent, headers: IdempotencyHeader, body: { required: true, content: fieldsContent(StartRunFields) } },
      responses: {
        200: { description: "The run's events, or the run at its end or pause", content: { ...STREAMED, "application/json": { schema: RunOutput } } },
        202: { description: "Accepted to run in the background", content: { "application/json": { schema: StartedRunBody } } },
      },
    }),
    async (c) => {
      const { context } = c.var;
      findComponent(context, kind, c.req.valid("param").component_id);
      const fields = parseFields(StartRunFields, withoutFiles(await readFields(c.req.raw), NO_MEDIA));
      const component = findComponent(context, kind, c.req.valid("param").component_id, fields.version?.toString());
      const answer = await startRun(context, { ...asRequest(fields), ...idempotencyOf(c.req.valid("header"), fields), component }, c.req.raw.signal);
      return answerRun(c, answer, c.req.path);
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/{component_id}/runs",
      guard: guard("read", "run"),
      summary: "List the runs of a session",
      request: {
        params: ofComponent,
        query: inSession.extend({ status: z.string().optional().openapi({ description: "Exactly as runs show it, in capitals." }) }),
      },
      responses: { 200: { description: "Runs in the order they were accepted", content: { "application/json": { schema: z.array(RunSchema) } } } },
    }),
    async (c) => {
      const { session_id: sessionId, status } = c.req.valid("query");
      const component = findComponent(c.var.context, kind, c.req.valid("param").component_id);
      const readings = await listRuns(c.var.context, sessionId, { kind, id: component.id });
      return c.json(readings.filter(({ record }) => status === undefined || statusToWire(record.status) === status).map(runSchemaToWire));
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/{component_id}/runs/{run_id}",
      guard: guard("read", "run"),
      summary: "Read a run",
      request: { params: ofRun, query: inSession },
      responses: { 200: { description: "The run so far", content: { "application/json": { schema: RunOutput } } } },
    }),
    async (c) => {
      const run = { ...named(c, c.req.valid("param").run_id), sessionId: c.req.valid("query").session_id };
      return c.json(runToWire(await readRun(c.var.context, run)));
    },
  );

  router.openapi(
    route({
      method: "post",
      path: "/{component_id}/runs/{run_id}/cancel",
      guard: guard("run"),
      summary: "Cancel a run",
      description: "Answers `{}` for runs that are over or not known as well; a run that becomes known within a day is cancelled then.",
      request: { params: ofRun, query: inSession.partial() },
      responses: { 200: { description: "The wish is heard", content: { "application/json": { schema: z.object({}) } } } },
    }),
    async (c) => {
      await cancelRun(c.var.context, { ...named(c, c.req.valid("param").run_id), sessionId: c.req.valid("query").session_id });
      return c.json({});
    },
  );

  router.openapi(
    route({
      method: "post",
      path: "/{component_id}/runs/{run_id}/resume",
      guard: guard("run"),
      summary: "Follow a run again, framed as AgentOS does",
      request: { params: ofRun, body: { content: fieldsContent(ResumeFields) } },
      responses: { 200: { description: "`replay`, or `catch_up` and `subscribed`, with the events; or one `error` frame", content: STREAMED } },
    }),
    async (c) => {
      const run = named(c, c.req.valid("param").run_id);
      const { last_event_index: after = -1, session_id: sessionId } = parseFields(ResumeFields, await readFields(c.req.raw));
      const view = { after, framing: "agentos" } as const;
      try {
        const followed = await followRun(c.var.context, { ...run, sessionId }, view, c.req.raw.signal);
        return followed.kind === "live" ? relayed(followed.stream) : replayed(followed.reading, view);
      } catch (error) {
        if (error instanceof AppError && error.code === "not_found") return failedReplay(run.runId, `Run ${run.runId} not found`);
        throw error;
      }
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/{component_id}/runs/{run_id}/events",
      guard: guard("read", "run"),
      summary: "Read or follow a run's events",
      description: "Server-sent events when the client accepts `text/event-stream`, as an EventSource does; else JSON, with a bounded wait.",
      request: {
        params: ofRun,
        query: eventsQuery,
        headers: z.object({ "last-event-id": formInteger({ min: -1 }).optional() }),
      },
      responses: {
        200: { description: "Events after the cursor", content: { ...STREAMED, "application/json": { schema: PolledEventsBody } } },
        204: { description: "The run is over and the client has seen its last event: do not come back" },
      },
    }),
    async (c) => {
      const { context } = c.var;
      const { after: asked, wait, session_id: sessionId } = c.req.valid("query");
      const after = c.req.valid("header")["last-event-id"] ?? asked;
      const run = { ...named(c, c.req.valid("param").run_id), sessionId };
      if (!acceptsStream(c.req.header("accept"))) {
        const polled = await pollRun(context, run, { after, waitMs: wait * 1000 });
        const events = polled.events.map((event) => wireEncoder.event(polled, event).json).join(",");
        const head = JSON.stringify({ run_id: polled.runId, status: statusToWire(polled.status) }).slice(0, -1);
        return c.body(`${head},"events":[${events}],"ended":${polled.ended}}`, 200, { "content-type": "application/json" });
      }
      if (after >= 0 || c.req.method === "HEAD") {
        const { ended, events } = await pollRun(context, run, { after, waitMs: 0 });
        if (ended && events.length === 0) return c.body(null, 204);
        // Hono answers HEAD as GET without its body: a stream that nobody reads must not be opened.
        if (c.req.method === "HEAD") return c.body(null, 200, STREAM_HEADERS);
      }
      const view = { after, framing: "plain" } as const;
      const followed = await followRun(context, run, view, c.req.raw.signal);
      if (followed.kind === "live") return relayed(followed.stream);
      return isPastEnd(followed.reading, after) ? c.body(null, 204) : replayed(followed.reading, view);
    },
  );

  return router;
}

const acceptsStream = (accept: string | undefined): boolean => /\btext\/event-stream\b/i.test(accept ?? "");

/** What the fields ask for, as an operation takes it. */
function asRequest(fields: StartRunFields): Omit<StartRequest, "component"> {
  const factoryInput = typeof fields.factory_input === "string" ? tryParseJson(fields.factory_input) : fields.factory_input;
  if (fields.factory_input !== undefined && !isJsonObject(factoryInput)) throw invalid("factory_input must be a JSON object");
  if (fields.metadata !== undefined && !isJsonObject(fields.metadata)) throw invalid("metadata must be a JSON object");
  return {
    sessionId: fields.session_id,
    userId: fields.user_id,
    input: {
      message: fields.message,
      sessionState: fields.session_state,
      dependencies: fields.dependencies,
      metadata: fields.metadata,
      addHistoryToContext: fields.add_history_to_context,
      numHistoryRuns: fields.num_history_runs,
      numHistoryMessages: fields.num_history_messages,
      toolCallLimit: fields.tool_call_limit,
    },
    stream: fields.stream,
    background: fields.background,
    contentOnly: !fields.stream_events,
    onBusy: fields.on_busy,
    onDisconnect: onDisconnectOf(fields),
  };
}
