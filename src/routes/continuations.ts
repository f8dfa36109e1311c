import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Scope } from "../auth/scopes.ts";
import type { ComponentKind } from "../domain/component.ts";
import { invalid } from "../domain/errors.ts";
import { type ContinueRequest, continueRun } from "../operations/continue-run.ts";
import { findComponent } from "../operations/find-component.ts";
import { forkSession } from "../operations/fork-session.ts";
import { listCheckpoints, readSnapshot } from "../operations/read-checkpoints.ts";
import { readAnswers } from "./answers.ts";
import { fieldsContent, formInteger, parseFields, readFields, withoutFiles } from "./fields.ts";
import { IdempotencyHeader, idempotencyOf } from "./idempotency.ts";
import type { RouteEnv } from "./route-env.ts";
import { newRouter, route, type Router } from "./route.ts";
import { answerRun, onDisconnectOf, STREAMED } from "./run-answer.ts";
import { ContinueRunFields, NO_MEDIA } from "./schemas/run-form.ts";
import { CheckpointList, CheckpointSnapshot, ForkedSession, RunOutput, StartedRunBody } from "./schemas/run.ts";
import { checkpointToWire, snapshotToWire } from "./wire/checkpoints.ts";

const ofComponent = z.object({ component_id: z.string() });
const ofRun = ofComponent.extend({ run_id: z.string() });
const inSession = z.object({ session_id: z.string().min(1) });

/** Going on from what there is: a run continued, its checkpoints, a copy of its session. The same under every kind of component. */
export function continuations(kind: ComponentKind): Router {
  const scope = (action: "read" | "run"): Scope => `${kind}s:${action}`;
  const guard = (...actions: ("read" | "run")[]) => ({ scopes: actions.map(scope), param: "component_id" });
  const router = newRouter();

  const component = (c: Context<RouteEnv>) => ({ kind, id: findComponent(c.var.context, kind, c.req.param("component_id") ?? "").id });

  router.openapi(
    route({
      method: "post",
      path: "/{component_id}/runs/{run_id}/continue",
      guard: guard("run"),
      summary: "Continue a run",
      description:
        "A paused run goes on in place once everything that it waits for is answered, and every approval that it needs is given. A run that has ended goes on in a sibling with an id of its own. A run that runs already is followed.",
      request: { params: ofRun, headers: IdempotencyHeader, body: { required: true, content: fieldsContent(ContinueRunFields) } },
      responses: {
        200: { description: "The events that are new, or the run at its next end or pause", content: { ...STREAMED, "application/json": { schema: RunOutput } } },
        202: { description: "Accepted to go on in the background", content: { "application/json": { schema: StartedRunBody } } },
      },
    }),
    async (c) => {
      const { run_id: runId } = c.req.valid("param");
      const named = { runId, component: component(c) };
      const fields = parseFields(ContinueRunFields, withoutFiles(await readFields(c.req.raw), NO_MEDIA));
      const { sessionId, ...request } = asRequest(fields);
      const answer = await continueRun(c.var.context, { ...request, ...idempotencyOf(c.req.valid("header"), fields), run: { ...named, sessionId } }, c.req.raw.signal);
      return answerRun(c, answer, c.req.path.replace(/\/[^/]+\/continue\/?$/, ""));
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/{component_id}/runs/{run_id}/checkpoints",
      guard: guard("read", "run"),
      summary: "List the places a run can be continued from",
      request: { params: ofRun, query: inSession },
      responses: { 200: { description: "Behind each tool result, and the end", content: { "application/json": { schema: CheckpointList } } } },
    }),
    async (c) => {
      const run = { runId: c.req.valid("param").run_id, sessionId: c.req.valid("query").session_id, component: component(c) };
      const { record, checkpoints } = await listCheckpoints(c.var.context, run);
      return c.json({ run_id: record.runId, session_id: record.sessionId, checkpoints: checkpoints.map((checkpoint) => checkpointToWire(record, checkpoint)) });
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/{component_id}/runs/{run_id}/checkpoints/{message_index}",
      guard: guard("read", "run"),
      summary: "Read a run as it is kept at one of its messages",
      request: { params: ofRun.extend({ message_index: formInteger() }), query: inSession },
      responses: { 200: { description: "The checkpoint, and the run cut off there", content: { "application/json": { schema: CheckpointSnapshot } } } },
    }),
    async (c) => {
      const { run_id: runId, message_index: index } = c.req.valid("param");
      const read = await readSnapshot(c.var.context, { runId, sessionId: c.req.valid("query").session_id, component: component(c) }, index);
      return c.json({ checkpoint: checkpointToWire(read.record, read.checkpoint), snapshot: snapshotToWire(read) });
    },
  );

  router.openapi(
    route({
      method: "post",
      path: "/{component_id}/sessions/{session_id}/fork",
      guard: guard("run"),
      summary: "Copy a session",
      description: "The copy has the runs that have ended, under ids of their own.",
      request: { params: ofComponent.extend({ session_id: z.string() }), query: z.object({ user_id: z.string().optional() }) },
      responses: { 200: { description: "The copy's id", content: { "application/json": { schema: ForkedSession } } } },
    }),
    async (c) => {
      const { session_id: sessionId } = c.req.valid("param");
      const { user_id: userId = "" } = c.req.valid("query");
      const copy = await forkSession(c.var.context, { sessionId, component: component(c), ...(userId === "" ? {} : { userId }) });
      return c.json({ session_id: copy.sessionId, forked_from_session_id: sessionId });
    },
  );

  return router;
}

/**
 * What the fields ask for, as an operation takes it. Nothing was begun yet, so a stream's request is refused like any other.
 * @throws AppError `invalid_request`
 */
function asRequest(fields: ContinueRunFields): Omit<ContinueRequest, "run"> & { sessionId: string } {
  const { session_id: sessionId = "", regenerate, fork, input, additional_instructions: instructions, replace_original: replaceOriginal } = fields;
  if (sessionId.trim() === "") throw invalid("session_id is required", { field: "session_id" });
  const continueFrom = readContinueFrom(fields.continue_from);
  if (replaceOriginal !== undefined && !regenerate) throw invalid("replace_original can only be given with regenerate", { field: "replace_original" });
  if (input !== undefined && instructions !== undefined) throw invalid("input and additional_instructions can not both be given", { field: "additional_instructions" });
  if (regenerate && fork) throw invalid("regenerate makes a sibling anyway; it can not be given with fork", { field: "fork" });
  if (regenerate && typeof continueFrom === "number") throw invalid("regenerate can not be given with a message index in continue_from", { field: "continue_from" });
  const said = regenerate ? (input ?? instructions) : input;
  const answers = readAnswers(fields);
  return {
    sessionId,
    userId: fields.user_id,
    ...(answers.length === 0 ? {} : { answers }),
    ...(said === undefined ? {} : { input: said }),
    continueFrom,
    fork,
    regenerate,
    replaceOriginal: replaceOriginal ?? true,
    stream: fields.stream,
    background: fields.background,
    contentOnly: !fields.stream_events,
    onBusy: fields.on_busy,
    onDisconnect: onDisconnectOf(fields),
  };
}

/** An index beyond the run's end is for the run to refuse. */
function readContinueFrom(given: string | number): ContinueRequest["continueFrom"] {
  const text = String(given).trim();
  if (text === "end" || text === "last_user") return text;
  if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw invalid(`continue_from must be "end", "last_user" or a message index from 0 on, not "${text.slice(0, 100)}"`, { field: "continue_from" });
}
