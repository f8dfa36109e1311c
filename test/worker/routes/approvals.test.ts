import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { ADMIN_SCOPE } from "../../../src/auth/scopes.ts";
import { newId } from "../../../src/domain/ids.ts";
import type { Access, Principal } from "../../../src/domain/principal.ts";
import type { PlatformEnv } from "../../../src/env.ts";
import { continueRun, type ContinueRequest } from "../../../src/operations/continue-run.ts";
import { makeOperationContext, type OperationContext } from "../../../src/operations/context.ts";
import { deleteApproval } from "../../../src/operations/delete-approval.ts";
import { forkSession } from "../../../src/operations/fork-session.ts";
import { listCheckpoints } from "../../../src/operations/read-checkpoints.ts";
import { readApproval } from "../../../src/operations/read-approval.ts";
import { resolveApproval } from "../../../src/operations/resolve-approval.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { gateReached, releaseGate } from "../../../src/testing.ts";
import { os } from "../entry.ts";
import { call, callWith, form, framesOf, json } from "../http.ts";
import { madeBy } from "../pausing-agents.ts";
import { anApproval, approvalTold, aRun, aSession, runTold, sessionTold } from "../storage/rows.ts";
import { approvalOf, approvalsOf, ask, continuePath, echo, go, read, resolve, start } from "./pauses.ts";

const change = 'update_crm {"id":7}';

function counter(tool: string): () => number {
  const before = madeBy(tool).length;
  return () => madeBy(tool).length - before;
}

/** What an edge makes for one user's request. */
const as = (subject: string, { scopes = [], rows = "user" }: { scopes?: string[]; rows?: "user" | "all" } = {}): OperationContext => {
  const principal: Principal = { kind: "user", subject, scopes };
  const access: Access = rows === "all" ? { rows: "all" } : { rows: "user", userId: subject };
  return makeOperationContext({ principal, access, env: env as unknown as PlatformEnv, registry: os.registry, requestId: "test" });
};

const onWaiting = { answers: [], continueFrom: "end", fork: false, regenerate: false, replaceOriginal: true, stream: false, background: false, contentOnly: false, onBusy: "reject", onDisconnect: "keep" } as const;
const request = (run: any): ContinueRequest => ({ ...onWaiting, answers: [], run: { runId: run.run_id, sessionId: run.session_id, component: { kind: "agent", id: "clerk" } } });

const refusal = async (ask: () => Promise<unknown>): Promise<any> => ask().then(() => undefined, (thrown: unknown) => thrown);

describe("approvals", () => {
  it("S130 S154 are listed in the moment that the pause is told, and by then the run is stored as paused", async () => {
    const sessionId = newId();
    const stream = await call("/agents/clerk/runs", form({ message: change, session_id: sessionId, user_id: "ann" }));
    const frames = await framesOf(stream);
    const pause = frames.at(-1)!;
    expect(pause).toMatchObject({ event: "RunPaused", data: { tools: [{ tool_name: "update_crm", tool_args: { id: 7 }, approval_id: expect.any(String) }] } });
    const [approval] = await approvalsOf(pause.data);
    expect(approval.id).toBe(pause.data.tools[0].approval_id);
    expect((await ask("GET", `/sessions/${sessionId}/runs`)).body).toMatchObject([{ status: "PAUSED", run_id: pause.data.run_id }]);
  });

  it("S155 S285 S286 S287 S288 S289 S290 S291 S292 S293 S294 S296 S297 S298 one a pause, with every field", async () => {
    const run = await start(`${change} & look_up {"name":"x"} & update_crm {"id":8}`, { user_id: "ann" });
    const all = await approvalsOf(run);
    expect(all).toHaveLength(1);
    const { status, body } = await ask("GET", `/approvals/${all[0].id}`);
    expect(status).toBe(200);
    expect(body).toEqual(all[0]);
    expect(body).toMatchObject({
      run_id: run.run_id,
      session_id: run.session_id,
      status: "pending",
      source_type: "agent",
      source_name: "Clerk",
      agent_id: "clerk",
      team_id: null,
      workflow_id: null,
      approval_type: "required",
      pause_type: "confirmation",
      tool_name: "update_crm",
      tool_args: { id: 7 },
      user_id: "ann",
      schedule_id: null,
      context: { tool_names: ["update_crm", "update_crm"], source_name: "Clerk" },
      resolution_data: null,
      resolved_by: null,
      resolved_at: null,
      expires_at: null,
      run_status: "PAUSED",
      approvers: 1,
    });
    expect(body.requirements.map((requirement: any) => [requirement.id, requirement.tool_execution.tool_call_id, requirement.tool_execution.approval_id])).toEqual(
      run.requirements.map((requirement: any) => [requirement.id, requirement.tool_execution.tool_call_id, body.id]),
    );
    expect(run.tools.map((tool: any) => tool.approval_id)).toEqual([body.id, null, body.id]);
    expect(await approvalsOf(run)).toHaveLength(1);
  });

  it("S300 are the same for a run that streams and for one that does not", async () => {
    const quiet = await approvalOf(await start(change));
    const frames = await framesOf(await call("/agents/clerk/runs", form({ message: change })));
    const streamed = await approvalOf(frames.at(-1)!.data);
    // Ids and times differ, and nothing else.
    const same = ({ id: _id, run_id: _run, session_id: _session, created_at: _created, updated_at: _updated, requirements, ...rest }: any) => ({ ...rest, kinds: requirements.map((requirement: any) => requirement.kind) });
    expect(same(streamed)).toEqual(same(quiet));
  });

  it("S301 are filtered by every field, and paged newest first", async () => {
    const sessionId = newId();
    const runs = [];
    for (const message of [change, 'sign {"paper":"p"}', change]) runs.push(await start(message, { session_id: sessionId, user_id: "lister" }));
    const ids = await Promise.all(runs.map(async (run) => (await approvalOf(run)).id));
    const list = async (query: string) => (await ask("GET", `/approvals?user_id=lister&${query}`)).body;
    const idsOf = async (query: string) => (await list(query)).data.map((approval: any) => approval.id);
    expect(await idsOf("")).toEqual(ids.toReversed());
    expect(await list("limit=2&page=2")).toMatchObject({ data: [{ id: ids[0] }], meta: { page: 2, limit: 2, total_pages: 2, total_count: 3, search_time_ms: expect.any(Number) } });
    expect(await list("")).toMatchObject({ meta: { limit: 100 } });
    expect(await idsOf("pause_type=external_execution")).toEqual([ids[1]]);
    expect(await idsOf(`run_id=${runs[2].run_id}`)).toEqual([ids[2]]);
    expect(await idsOf("agent_id=clerk&source_type=agent&approval_type=required&status=pending")).toHaveLength(3);
    for (const query of ["agent_id=echo", "team_id=clerk", "workflow_id=clerk", "agent_id=clerk&team_id=clerk", "status=approved", "approval_type=audit", "source_type=team", "schedule_id=daily"]) expect(await idsOf(query), query).toEqual([]);
    await resolve({ id: ids[0] }, { status: "rejected" });
    expect(await idsOf("status=rejected")).toEqual([ids[0]]);
    for (const query of ["status=open", "source_type=bot", "approval_type=maybe", "pause_type=x", "limit=0", "limit=1001", "page=x"]) expect((await ask("GET", `/approvals?${query}`)).status, query).toBe(422);
  });

  it("S302 S303 are counted while they wait, and say how they stand", async () => {
    const count = async () => (await ask("GET", "/approvals/count?user_id=counter")).body;
    expect(await count()).toEqual({ count: 0 });
    const run = await start(change, { user_id: "counter" });
    expect(await count()).toEqual({ count: 1 });
    const approval = await approvalOf(run);
    const status = async () => (await ask("GET", `/approvals/${approval.id}/status`)).body;
    expect(await status()).toEqual({ approval_id: approval.id, status: "pending", run_id: run.run_id, resolved_at: null, resolved_by: null });
    await resolve(approval, { status: "approved", resolved_by: "root" });
    expect(await count()).toEqual({ count: 0 });
    expect(await status()).toEqual({ approval_id: approval.id, status: "approved", run_id: run.run_id, resolved_at: expect.any(Number), resolved_by: "root" });
  });

  it("S304 that are not there are 404 everywhere", async () => {
    for (const id of [newId(), "nonsense", "%20"]) {
      const asks = [ask("GET", `/approvals/${id}`), ask("GET", `/approvals/${id}/status`), ask("POST", `/approvals/${id}/resolve`, { status: "approved" }), ask("DELETE", `/approvals/${id}`)];
      for (const { status, body } of await Promise.all(asks)) expect([status, body]).toEqual([404, { detail: "Approval not found", error_type: "not_found" }]);
    }
  });
});

describe("a decision", () => {
  it("S157 S305 S307 S311 is written with who, when and what, and runs nothing", async () => {
    const changes = counter("update_crm");
    const run = await start(change);
    const approval = await approvalOf(run);
    const { status, body } = await resolve(approval, { status: "approved", resolved_by: "root", resolution_data: { note: "fine" }, shown_hash: approval.shown_hash });
    expect(status).toBe(200);
    expect(body).toMatchObject({ ...approval, status: "approved", resolved_by: "root", resolved_at: expect.any(Number), resolution_data: { note: "fine" }, updated_at: expect.any(Number), votes: [{ by: "root", decision: "approved", at: expect.any(Number) }], requirements: [{ confirmation: true, confirmation_note: "fine" }] });
    expect((await ask("GET", `/approvals/${approval.id}`)).body).toEqual(body);
    expect(await approvalsOf(run)).toEqual([body]);
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(changes()).toBe(0);
  });

  it("S305 S307 is made once: of two in one moment one counts, and the other is told how it stands", async () => {
    for (let round = 0; round < 5; round++) {
      const approval = await approvalOf(await start(change));
      const answers = await Promise.all([resolve(approval, { status: "approved" }), resolve(approval, { status: "rejected" }), resolve(approval, { status: "approved" })]);
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
      const winner = answers.find(({ status }) => status === 200)!.body;
      for (const { status, body } of answers) if (status === 409) expect(body).toMatchObject({ error_type: "approval_resolved", status: winner.status });
      expect((await ask("GET", `/approvals/${approval.id}`)).body).toEqual(winner);
    }
  });

  it.each([
    [{}, 422],
    [{ status: "maybe" }, 422],
    [{ status: "pending" }, 422],
    [{ status: true }, 422],
    [{ status: "approved", resolution_data: "x" }, 422],
    [{ status: "approved", resolved_by: "x".repeat(256) }, 422],
    [{ status: "approved", continue: "yes" }, 422],
    [{ status: "approved", resolution_data: { edited_args: [1] } }, 400],
    [{ status: "approved", resolution_data: { edited_args: { id: "seven" } } }, 400],
    [{ status: "approved", shown_hash: "of something else" }, 409],
  ])("S305 of %j is %d, and the approval waits on", async (body, status) => {
    const approval = await approvalOf(await start(change));
    expect((await resolve(approval, body)).status).toBe(status);
    expect((await ask("GET", `/approvals/${approval.id}`)).body).toEqual(approval);
  });

  it("is taken as JSON alone", async () => {
    const approval = await approvalOf(await start(change));
    expect((await call(`/approvals/${approval.id}/resolve`, form({ status: "approved" }))).status).toBe(415);
    expect((await call(`/approvals/${approval.id}/resolve`, { ...json({}), body: "{" })).status).toBe(400);
  });

  it("with other arguments is what runs, and what the model is told", async () => {
    const run = await start(change);
    const approval = await approvalOf(run);
    const { body } = await resolve(approval, { status: "approved", resolution_data: { edited_args: { id: 70, note: "corrected" } } });
    expect(body.requirements[0].tool_execution).toMatchObject({ tool_args: { id: 7 }, edited_args: { id: 70, note: "corrected" } });
    const { body: ended } = await go(run);
    expect(ended).toMatchObject({ status: "COMPLETED", tools: [{ tool_args: { id: 70, note: "corrected" } }] });
    expect(madeBy("update_crm").at(-1)).toEqual({ id: 70, note: "corrected" });
  });

  it("on an external call brings its result, or leaves it to the client", async () => {
    const run = await start('sign {"paper":"p"}');
    expect(run.tools).toMatchObject([{ external_execution_required: true, external_execution_silent: true, approval_type: "required", requires_confirmation: null }]);
    await resolve(await approvalOf(run), { status: "approved", resolution_data: { result: "signed by root" } });
    expect((await go(run)).body).toMatchObject({ status: "COMPLETED", tools: [{ result: "signed by root" }] });

    const other = await start('sign {"paper":"q"}');
    await resolve(await approvalOf(other), { status: "approved" });
    expect((await go(other)).status).toBe(400);
    expect((await go(other, { tools: echo(other, { c00: { result: "signed here" } }) })).body).toMatchObject({ status: "COMPLETED", tools: [{ result: "signed here" }] });
    expect(madeBy("sign")).toEqual([]);
  });

  it("may let the run go on at once, behind whatever holds the session", async () => {
    const changes = counter("update_crm");
    const gate = newId();
    const run = await start(change);
    await start(`gate ${gate}`, { session_id: run.session_id, background: "true" });
    await gateReached(gate);
    expect(await resolve(await approvalOf(run), { status: "approved", continue: true })).toMatchObject({ status: 200, body: { status: "approved" } });
    expect(changes()).toBe(0);
    releaseGate(gate);
    await vi.waitFor(async () => expect(await read(run)).toMatchObject({ status: "COMPLETED" }));
    expect(changes()).toBe(1);
    await vi.waitFor(async () => expect(await approvalOf(run)).toMatchObject({ status: "approved", run_status: "COMPLETED" }));
  });

  it("C038 on a run that was cancelled comes too late: its approvals are cancelled with it", async () => {
    const changes = counter("update_crm");
    const run = await start(change);
    const approval = await approvalOf(run);
    await ask("POST", `/agents/clerk/runs/${run.run_id}/cancel?session_id=${run.session_id}`);
    await vi.waitFor(async () => expect(await approvalOf(run)).toMatchObject({ status: "cancelled" }));
    expect((await resolve(approval, { status: "approved" })).status).toBe(409);
    expect((await go(run)).status).toBe(409);
    expect((await ask("GET", "/approvals?status=cancelled")).body.data.map(({ id }: any) => id)).toContain(approval.id);
    expect(await start("hello", { session_id: run.session_id })).toMatchObject({ status: "COMPLETED" });
    expect(changes()).toBe(0);
  });

  it("C035 on an earlier call says nothing about a later one", async () => {
    const changes = counter("update_crm");
    const run = await start(`${change} > update_crm {"id":1000}`);
    const first = await approvalOf(run);
    await resolve(first, { status: "rejected" });
    const again = await go(run);
    expect(again.body).toMatchObject({ status: "PAUSED" });
    expect(await approvalsOf(run)).toHaveLength(2);
    expect((await resolve(first, { status: "approved" })).status).toBe(409);
    expect((await go(run, { tools: echo(run, { c00: { confirmed: true } }) })).status).toBeGreaterThanOrEqual(400);
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(changes()).toBe(0);
  });

  it("S321 counts for the calls that it names: two pauses, one approved and one rejected", async () => {
    const changes = counter("update_crm");
    const run = await start(`${change} > update_crm {"id":8}`);
    await resolve(await approvalOf(run), { status: "approved" });
    const { body: second } = await go(run);
    expect([second.status, changes()]).toEqual(["PAUSED", 1]);
    await resolve(await approvalOf(run), { status: "rejected" });
    const { body } = await go(run);
    expect(body).toMatchObject({ status: "COMPLETED", tools: [{ tool_args: { id: 7 }, confirmed: true }, { tool_args: { id: 8 }, confirmed: false }] });
    expect(new Set(body.tools.map((tool: any) => tool.approval_id)).size).toBe(2);
    expect(changes()).toBe(1);
  });
});

describe("who decides", () => {
  const root = () => as("root", { scopes: [ADMIN_SCOPE], rows: "all" });
  const decide = (context: OperationContext, approval: any, given: object = {}) => resolveApproval(context, { approvalId: approval.id, decision: "approved", thenContinue: false, ...given });

  it("S307 is the token's subject, whatever the body says", async () => {
    const approval = await approvalOf(await start(change));
    expect(await decide(root(), approval, { resolvedBy: "someone else" })).toMatchObject({ resolvedBy: "root" });
  });

  it("S308 S204 users see their own and decide on none; an admin sees and decides on all", async () => {
    const run = await start(change, { user_id: "ann" });
    const approval = await approvalOf(run);
    const ann = as("ann", { scopes: ["approvals:read", "approvals:write", "approvals:delete", "agents:run"] });
    const bob = as("bob", { scopes: ["approvals:read", "approvals:write", "approvals:delete", "agents:run", "agents:read"] });
    const missing = { code: "not_found", message: "Approval not found" };
    const page = { page: 1, limit: 100 };

    expect(await readApproval(ann, approval.id)).toMatchObject({ id: approval.id });
    expect((await ann.repositories.approvals.list(page)).items.map(({ id }) => id)).toContain(approval.id);
    for (const asked of [() => decide(ann, approval), () => deleteApproval(ann, approval.id)]) expect(await refusal(asked)).toMatchObject(missing);

    expect((await bob.repositories.approvals.list(page)).items).toEqual([]);
    expect((await bob.repositories.approvals.list({ ...page, userId: "ann" })).items).toEqual([]);
    expect(await bob.repositories.approvals.countPending()).toBe(0);
    for (const asked of [() => readApproval(bob, approval.id), () => decide(bob, approval), () => deleteApproval(bob, approval.id)]) expect(await refusal(asked)).toMatchObject(missing);
    expect(await readApproval(root(), approval.id)).toMatchObject({ status: "pending" });
    expect(await decide(root(), approval)).toMatchObject({ status: "approved" });
  });

  it("S158 whoever has no say is told 403 while it is open, and goes on once it is decided", async () => {
    const changes = counter("update_crm");
    const run = await start(change, { user_id: "ann" });
    const ann = as("ann", { scopes: ["agents:run"] });
    for (const stream of [true, false]) expect(await refusal(() => continueRun(ann, { ...request(run), stream }))).toMatchObject({ code: "forbidden", details: { approval_id: expect.any(String) } });
    // Who could decide has not.
    expect(await refusal(() => continueRun(root(), request(run)))).toMatchObject({ code: "approval_pending" });
    await decide(root(), await approvalOf(run));
    expect(await continueRun(ann, request(run))).toMatchObject({ kind: "finished", reading: { record: { status: "completed" } } });
    expect(changes()).toBe(1);
  });

  it("S254 P6 another user can neither continue a run, read its checkpoints, nor copy its session", async () => {
    const mails = counter("send_mail");
    const run = await start('send_mail {"to":"ann"}', { user_id: "ann" });
    await start("hello", { user_id: "ann", session_id: run.session_id });
    const bob = as("bob", { scopes: ["agents:run", "agents:read"] });
    const answers = [{ callId: "c00", confirmed: true }];
    const named = request(run).run;
    for (const asked of [() => continueRun(bob, { ...request(run), answers }), () => continueRun(bob, { ...request(run), answers, stream: true }), () => listCheckpoints(bob, named)]) {
      expect(await refusal(asked)).toMatchObject({ code: "not_found", message: "Run not found" });
    }
    expect(await refusal(() => forkSession(bob, named))).toMatchObject({ code: "invalid_request" });
    expect(await forkSession(as("ann"), named)).toMatchObject({ userId: "ann" });
    expect(mails()).toBe(0);
    // Q5: who may see every row continues for the requester.
    expect(await continueRun(root(), { ...request(run), answers })).toMatchObject({ reading: { record: { status: "completed", userId: "ann" } } });
    expect(mails()).toBe(1);
  });

  it("of several, each counts once and by name; one that anyone could have written does not count", async () => {
    const approval = await approvalOf(await start('pay {"amount":9}'));
    expect(approval.approvers).toBe(2);
    expect(await resolve(approval, { status: "approved", resolved_by: "made up" })).toMatchObject({ status: 403, body: { error_type: "forbidden" } });
    expect(await decide(root(), approval)).toMatchObject({ status: "pending", votes: [{ by: "root" }] });
    expect(await decide(root(), approval)).toMatchObject({ status: "pending" });
    expect(await decide(as("second", { scopes: [ADMIN_SCOPE], rows: "all" }), approval)).toMatchObject({ status: "approved", resolvedBy: "second" });
    expect((await ask("GET", `/approvals/${approval.id}`)).body).toMatchObject({ status: "approved", votes: [{ by: "root" }, { by: "second" }] });
  });

  it("is someone else where the requester may not", async () => {
    const approval = await approvalOf(await start('give_raise {"amount":9}', { user_id: "root" }));
    expect(approval.requester_may_approve).toBe(false);
    expect(await refusal(() => decide(root(), approval))).toMatchObject({ code: "forbidden" });
    expect(await resolve(approval, { status: "approved", resolved_by: "made up" })).toMatchObject({ status: 403 });
    expect(await decide(as("boss", { scopes: [ADMIN_SCOPE], rows: "all" }), approval)).toMatchObject({ status: "approved" });
  });

  it("S204 nobody without a token", async () => {
    const key = { OS_SECURITY_KEY: "open sesame" };
    expect((await callWith(key, "/approvals")).status).toBe(401);
    expect((await callWith(key, "/approvals", { headers: { authorization: "Bearer open sesame" } })).status).toBe(200);
  });
});

describe("when storage fails", () => {
  /** The same database, out of reach. */
  const unreachable = { DB: new Proxy(env.DB, { get: (_db, name) => (name === "then" ? undefined : () => { throw new Error("D1_ERROR: no way there"); }) }) };

  it("a decision that can not find its session is 503, and nothing was changed", async () => {
    const run = await start(change);
    const approval = await approvalOf(run);
    const open = { SIGNALBOX_AUTH: "none", ...unreachable };
    expect((await callWith(open, `/approvals/${approval.id}/resolve`, json({ status: "approved" }))).status).toBe(503);
    expect((await callWith(open, "/approvals")).status).toBe(503);
    expect(await approvalOf(run)).toMatchObject({ status: "pending" });
  });

  it("S299 a crash between pause, decision and continue loses none of them", async () => {
    const changes = counter("update_crm");
    const run = await start(change);
    await abortAllDurableObjects();
    const approval = await approvalOf(run);
    expect((await read(run)).tools).toMatchObject([{ approval_id: approval.id }]);
    expect((await resolve(approval, { status: "approved" })).status).toBe(200);
    await abortAllDurableObjects();
    expect((await go(run)).body).toMatchObject({ status: "COMPLETED" });
    expect(changes()).toBe(1);
  });

  it("a session that is deleted takes its approvals along", async () => {
    const run = await start(change);
    const approval = await approvalOf(run);
    expect((await ask("DELETE", `/sessions/${run.session_id}`)).status).toBe(204);
    await vi.waitFor(async () => expect(await approvalsOf(run)).toEqual([]));
    expect((await ask("GET", `/approvals/${approval.id}`)).status).toBe(404);
    expect((await resolve(approval, { status: "approved" })).status).toBe(404);
    expect((await call(continuePath(run), form({ session_id: run.session_id }))).status).toBe(404);
  });

  it("an approval whose session's object was lost is read as D1 knows it, until someone decides and finds the run lost", async () => {
    const session = aSession({ component: { kind: "agent", id: "clerk" } });
    const run = aRun({ sessionId: session.sessionId, status: "paused", component: { kind: "agent", id: "clerk", name: "Clerk", version: "1" } });
    const approval = anApproval({ sessionId: session.sessionId, runId: run.runId, component: run.component });
    await applyProjections(env.DB, env.MEDIA, [sessionTold(session), runTold(run), approvalTold(approval)]);
    expect(await ask("GET", `/approvals/${approval.id}`)).toMatchObject({ status: 200, body: { id: approval.id, status: "pending" } });
    expect((await resolve(approval, { status: "approved" })).status).toBe(409);
    await vi.waitFor(async () => expect((await ask("GET", `/approvals/${approval.id}`)).body).toMatchObject({ status: "cancelled", run_status: "ERROR" }));
    await vi.waitFor(async () => expect((await ask("GET", `/approvals?run_id=${run.runId}`)).body.data).toMatchObject([{ status: "cancelled" }]));
  });
});
