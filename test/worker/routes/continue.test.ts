import { abortAllDurableObjects, evictAllDurableObjects } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { newId } from "../../../src/domain/ids.ts";
import { gateReached, releaseGate } from "../../../src/testing.ts";
import { call, form, framesOf, json } from "../http.ts";
import { fromSteps, made, madeBy } from "../pausing-agents.ts";
import { approvalOf, ask, continuePath, echo, go, read, resolve, start } from "./pauses.ts";

/** What the world has seen of a tool since this was asked first. */
function counter(tool: string): () => number {
  const before = madeBy(tool).length;
  return () => madeBy(tool).length - before;
}

/** The requests that the model has had since this was asked. */
function requests(): () => (typeof fromSteps.requests)[number][] {
  const before = fromSteps.requests.length;
  return () => fromSteps.requests.slice(before);
}

const mail = 'send_mail {"to":"ann"}';

describe("a run that waits for a yes", () => {
  it("S115 S132 S159 goes on in place once it has one, and the call is made once", async () => {
    const mails = counter("send_mail");
    const run = await start(mail);
    expect(run).toMatchObject({ status: "PAUSED", tools: [{ tool_call_id: "c00", requires_confirmation: true, confirmed: null, approval_id: null }] });
    expect(mails()).toBe(0);
    const { status, body } = await go(run, { tools: echo(run, { c00: { confirmed: true } }) });
    expect([status, body.status, body.run_id]).toEqual([200, "COMPLETED", run.run_id]);
    expect(body.tools).toMatchObject([{ tool_call_id: "c00", confirmed: true, result: expect.stringContaining("send_mail receipt") }]);
    expect(mails()).toBe(1);
    expect(await read(run)).toEqual(body);
  });

  it("S318 that gets a no tells the model so, with the note, and makes no call", async () => {
    const mails = counter("send_mail");
    const seen = requests();
    const run = await start(mail);
    const { body } = await go(run, { requirements: JSON.stringify([{ id: run.requirements[0].id, confirmation: false, confirmation_note: "Ann is away." }]) });
    expect(body).toMatchObject({ status: "COMPLETED", tools: [{ confirmed: false, confirmation_note: "Ann is away.", tool_call_error: true }] });
    expect(JSON.stringify(seen().at(-1)!.messages)).toContain("Ann is away.");
    expect(mails()).toBe(0);
  });

  it("S160 streams what is new alone, indices going on, and all of it can be had again", async () => {
    const run = await start(mail);
    const before = run.events.at(-1).event_index;
    const frames = await framesOf(await call(continuePath(run), form({ session_id: run.session_id, tools: echo(run, { c00: { confirmed: true } }) })));
    expect(frames[0]).toMatchObject({ id: String(before + 1), event: "RunContinued" });
    expect(frames.map(({ event }) => event)).not.toContain("RunPaused");
    expect(frames.map(({ event }) => event)).toEqual(expect.arrayContaining(["ToolCallStarted", "ToolCallCompleted", "RunContent"]));
    expect(frames.at(-1)).toMatchObject({ event: "RunCompleted" });
    expect(frames.map(({ id }) => Number(id))).toEqual(frames.map((_, place) => before + 1 + place));
    const again = await framesOf(await call(`/agents/clerk/runs/${run.run_id}/resume`, form({ session_id: run.session_id, last_event_index: String(before - 1) })));
    expect(again.filter(({ id }) => id !== undefined).map(({ event }) => event)).toEqual(["RunPaused", ...frames.map(({ event }) => event)]);
  });

  it("a stream without events has the text and the end alone", async () => {
    const run = await start(mail);
    const frames = await framesOf(await call(continuePath(run), form({ session_id: run.session_id, stream_events: "false", tools: echo(run, { c00: { confirmed: true } }) })));
    expect([...new Set(frames.map(({ event }) => event))]).toEqual(["RunContent", "RunCompleted"]);
  });

  it("S247 in the background answers 202, and the run is read where it says", async () => {
    const run = await start(mail);
    const accepted = await call(continuePath(run), form({ session_id: run.session_id, stream: "false", background: "true", tools: echo(run, { c00: { confirmed: true } }) }));
    expect([accepted.status, await accepted.json()]).toEqual([202, { run_id: run.run_id, session_id: run.session_id, status: "PENDING" }]);
    const location = accepted.headers.get("location")!;
    expect(location).toBe(`/agents/clerk/runs/${run.run_id}?session_id=${run.session_id}`);
    await vi.waitFor(async () => expect((await ask("GET", location)).body.status).toBe("COMPLETED"));
  });

  it("S158 S326 is not to be gone past: without an answer nothing runs, and the answer that is lacking is named", async () => {
    const mails = counter("send_mail");
    const run = await start(`${mail} & send_mail {"to":"bob"}`);
    const partial: Record<string, string>[] = [{}, { tools: "[]" }, { tools: echo(run) }, { tools: echo(run, { c00: { confirmed: true } }) }, { requirements: JSON.stringify(run.requirements) }];
    for (const fields of partial) {
      const { status, body } = await go(run, fields);
      expect([status, body.error_type], JSON.stringify(fields)).toEqual([400, "requirements_open"]);
      expect(body.detail).toContain("c01");
    }
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(mails()).toBe(0);
  });

  it.each([{ confirmed: "false" }, { confirmed: null }, { confirmed: 1 }, {}, { answered: true }])("C041 is not to be gone past with %j", async (answer) => {
    const mails = counter("send_mail");
    const run = await start(mail);
    const { status, body } = await go(run, { tools: echo(run, { c00: answer }) });
    expect(status).toBe(400);
    expect(body.detail).toMatch(/confirmed|c00/);
    expect(await read(run)).toMatchObject({ status: "PAUSED", tools: [{ confirmed: null }] });
    expect(mails()).toBe(0);
  });

  it("C029 takes an answer to no call of its own for none, and two that differ for neither", async () => {
    const mails = counter("send_mail");
    const run = await start(mail);
    const twice = [{ tool_call_id: "c00", confirmed: true }, { tool_call_id: "c00", confirmed: false }];
    for (const tools of [[{ tool_call_id: "c77", confirmed: true }], twice, [...twice].reverse()]) {
      const { status } = await go(run, { tools: JSON.stringify(tools) });
      expect(status).toBeGreaterThanOrEqual(400);
      expect(status).toBeLessThan(500);
    }
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(mails()).toBe(0);
  });

  it("C031 in every shape: the answer is asked for once, and the call stands once in what the model sees", async () => {
    for (const [stream, background] of [["true", "true"], ["true", "false"], ["false", "true"], ["false", "false"]] as const) {
      const mails = counter("send_mail");
      const session = { session_id: newId() };
      await start("hello", session);
      const run = await start(mail, session);
      const seen = requests();
      const answer = await call(continuePath(run), form({ ...session, stream, background, tools: echo(run, { c00: { confirmed: true } }) }));
      await answer.text();
      const ended = await vi.waitFor(async () => {
        const now = await read(run);
        expect(now.status).toBe("COMPLETED");
        return now;
      });
      expect(mails()).toBe(1);
      expect(seen()).toHaveLength(1);
      const roles = seen()[0]!.messages.filter(({ role }) => role !== "system").map(({ role }) => role);
      expect(roles).toEqual(["user", "assistant", "user", "assistant", "tool"]);
      expect(ended.tools).toHaveLength(1);
    }
  });

  it("waits through an eviction, and goes on from what is stored without asking the model again for the step", async () => {
    const run = await start('send_mail {"to":"carl"} > look_up {"name":"carl"}');
    await evictAllDurableObjects();
    const seen = requests();
    const { body } = await go(run, { tools: echo(run, { c00: { confirmed: true } }) });
    expect(body).toMatchObject({ status: "COMPLETED", run_id: run.run_id });
    expect(seen()).toHaveLength(2);
    expect(madeBy("send_mail").at(-1)).toEqual({ to: "carl" });
  });

  it("C034 pauses again, with the new call alone open", async () => {
    const run = await start('send_mail {"to":"ann"} > look_up {"name":"x"} > ask_user {"questions":[{"question":"Which?","options":[{"label":"A"},{"label":"B"}]}]}');
    const second = await go(run, { tools: echo(run, { c00: { confirmed: false, confirmation_note: "no" } }) });
    expect(second.body).toMatchObject({ status: "PAUSED", run_id: run.run_id });
    const [open] = second.body.tools.filter((tool: any) => tool.user_feedback_schema !== null);
    expect(open).toMatchObject({ tool_name: "ask_user", answered: null, user_feedback_schema: [{ question: "Which?", selected_options: null }] });
    // The whole list again, the first call's decision with it.
    const third = await go(run, { tools: echo(second.body, { [open.tool_call_id]: { user_feedback_schema: [{ selected_options: ["B"] }] } }) });
    expect(third.body).toMatchObject({ status: "COMPLETED" });
    expect(third.body.content).toContain('"answers":["B"]');
    expect(third.body.tools.map((tool: any) => tool.tool_name)).toEqual(["send_mail", "look_up", "ask_user"]);
  });

  it("arguments that a person put in place of the model's are what runs, if the tool takes them", async () => {
    const run = await start(mail);
    const wrong = await go(run, { tools: echo(run, { c00: { confirmed: true, edited_args: { to: 7 } } }) });
    expect(wrong.status).toBeGreaterThanOrEqual(400);
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    const { body } = await go(run, { tools: echo(run, { c00: { confirmed: true, tool_args: { to: "mallory" }, edited_args: { to: "dora" } } }) });
    expect(body).toMatchObject({ status: "COMPLETED", tools: [{ tool_args: { to: "dora" }, edited_args: { to: "dora" } }] });
    expect(madeBy("send_mail").at(-1)).toEqual({ to: "dora" });
  });
});

describe("when the session's object is reset in the middle", () => {
  it("who waits for a continued run still gets its end, and the call that was made is not made again", async () => {
    const mails = counter("send_mail");
    const gate = newId();
    const run = await start(`${mail} > gate ${gate}`);
    const waiting = go(run, { tools: echo(run, { c00: { confirmed: true } }) });
    await gateReached(gate);
    await abortAllDurableObjects();
    await gateReached(gate, 2);
    releaseGate(gate);
    expect((await waiting).body).toMatchObject({ status: "COMPLETED", run_id: run.run_id });
    expect(mails()).toBe(1);
  });

  it("who waits for a sibling gets the sibling's end", async () => {
    const gate = newId();
    const run = await start("hello");
    const waiting = go(run, { input: `gate ${gate}` });
    await gateReached(gate);
    await abortAllDurableObjects();
    await gateReached(gate, 2);
    releaseGate(gate);
    expect((await waiting).body).toMatchObject({ status: "COMPLETED", forked_from_run_id: run.run_id });
    expect((await ask("GET", `/agents/clerk/runs?session_id=${run.session_id}`)).body).toHaveLength(2);
  });
});

describe("a run that waits for values", () => {
  it("S238 takes them into the call's arguments; what the model wrote may stay", async () => {
    const run = await start('book {"room":"red","date":"","seats":4}');
    const [tool] = run.tools;
    expect(tool).toMatchObject({ requires_user_input: true, requires_confirmation: null });
    expect(tool.user_input_schema).toEqual([
      { name: "date", field_type: "str", description: "When.", value: "" },
      { name: "seats", field_type: "int", description: null, value: 4 },
    ]);
    const filled = tool.user_input_schema.map((field: any) => (field.name === "date" ? { ...field, value: "Monday" } : field));
    const wrong = await go(run, { tools: echo(run, { c00: { user_input_schema: [{ name: "seats", value: "many" }] } }) });
    expect([wrong.status, wrong.body.error_type]).toEqual([400, "requirements_open"]);
    expect(wrong.body.detail).toContain("seats");
    const { body } = await go(run, { tools: echo(run, { c00: { user_input_schema: filled, answered: true } }) });
    expect(body).toMatchObject({ status: "COMPLETED", tools: [{ answered: true, user_input_schema: [{ value: "Monday" }, { value: 4 }] }] });
    expect(madeBy("book").at(-1)).toEqual({ room: "red", date: "Monday", seats: 4 });
  });

  it("takes what the model filled in for no answer, until someone says that it is one", async () => {
    const bookings = counter("book");
    const run = await start('book {"room":"red","date":"Monday","seats":4}');
    const echoed = await go(run, { tools: echo(run) });
    expect([echoed.status, echoed.body.error_type, bookings()]).toEqual([400, "requirements_open", 0]);
    const { body } = await go(run, { tools: echo(run, { c00: { answered: true } }) });
    expect([body.status, bookings()]).toEqual(["COMPLETED", 1]);
    expect(madeBy("book").at(-1)).toEqual({ room: "red", date: "Monday", seats: 4 });
  });

  it("C041 of two calls of one tool gives each its own, and 0 and the empty text are values", async () => {
    const field = (name: string, type: string) => JSON.stringify({ fields: [{ name, type }] });
    const run = await start(`get_user_input ${field("qty", "int")} & get_user_input ${field("note", "str")}`);
    const tools = JSON.stringify([
      { tool_call_id: "c01", user_input_schema: [{ name: "note", value: "" }] },
      { tool_call_id: "c00", user_input_schema: [{ name: "qty", value: 0 }] },
    ]);
    const { body } = await go(run, { tools });
    expect(body).toMatchObject({ status: "COMPLETED", tools: [{ result: '{"qty":0}' }, { result: '{"note":""}' }] });
  });
});

describe("a run that waits for the client", () => {
  it("S239 S253 is told what came of the call, once", async () => {
    const run = await start('fetch_page {"url":"/x"}');
    expect(run.tools).toMatchObject([{ external_execution_required: true, external_execution_silent: false, result: null }]);
    const missing = await go(run, { tools: echo(run) });
    expect([missing.status, missing.body.error_type]).toEqual([400, "requirements_open"]);
    const { body } = await go(run, { tools: echo(run, { c00: { result: "the page" } }) });
    expect(body).toMatchObject({ status: "COMPLETED", content: expect.stringContaining("the page"), tools: [{ result: "the page" }] });
    expect(body.messages.filter((message: any) => message.role === "tool")).toMatchObject([{ content: "the page" }]);
    expect(madeBy("fetch_page")).toEqual([]);
    // Read again as often as anyone likes: nothing is asked of the model.
    const seen = requests();
    await framesOf(await call(`/agents/clerk/runs/${run.run_id}/resume`, form({ session_id: run.session_id })));
    expect(seen()).toHaveLength(0);
    expect(await read(run)).toEqual(body);
  });
});

describe("an approval on the way", () => {
  const change = 'update_crm {"id":7}';

  it("S309 S310 S158 is not to be gone past, whatever the client sends", async () => {
    const changes = counter("update_crm");
    const run = await start(change);
    const everything = { confirmed: true, edited_args: { id: 9 }, result: "done", answered: true };
    const tries: Record<string, string>[] = [
      {},
      { tools: echo(run, { c00: everything }) },
      { tools: echo(run, { c00: everything }), background: "true" },
      { requirements: JSON.stringify([{ id: run.requirements[0].id, confirmation: true }]) },
    ];
    for (const fields of tries) {
      const { status, body } = await go(run, fields);
      expect([status, body.error_type], JSON.stringify(fields)).toEqual([400, "approval_pending"]);
    }
    const streamed = await call(continuePath(run), form({ session_id: run.session_id, tools: echo(run, { c00: everything }) }));
    expect([streamed.status, streamed.headers.get("content-type")]).toEqual([400, "application/json"]);
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(changes()).toBe(0);
  });

  it("S240 S312 S313 S314 S316 S319 once it is given, an empty continue makes the call", async () => {
    const changes = counter("update_crm");
    const seen = requests();
    const run = await start(change);
    const approval = await approvalOf(run);
    expect([run.status, approval.status, changes()]).toEqual(["PAUSED", "pending", 0]);
    expect((await resolve(approval, { status: "approved" })).status).toBe(200);
    // S311: deciding runs nothing.
    expect([(await read(run)).status, (await approvalOf(run)).status, changes()]).toEqual(["PAUSED", "approved", 0]);
    expect(seen()).toHaveLength(1);
    const { body } = await go(run, { tools: "[]" });
    expect([body.status, (await approvalOf(run)).status, changes()]).toEqual(["COMPLETED", "approved", 1]);
    // S133: the stored call ran with its stored arguments; the model was asked for the answer alone.
    expect(madeBy("update_crm").at(-1)).toEqual({ id: 7 });
    expect(seen()).toHaveLength(2);
    const receipt = body.tools[0].result;
    expect(receipt).toMatch(/^update_crm receipt/);
    expect(body.messages.find((message: any) => message.role === "tool")).toMatchObject({ content: receipt, tool_args: { id: 7 } });
    expect(body.content).toContain(receipt);
    expect(body.metadata.approval).toMatchObject({ status: "approved" });
  });

  it("S317 S363 S318 refused, the call is never made, whatever the client sends", async () => {
    const changes = counter("update_crm");
    const run = await start(change);
    await resolve(await approvalOf(run), { status: "rejected", resolution_data: { note: "Not that one." } });
    const forced = await go(run, { tools: echo(run, { c00: { confirmed: true, edited_args: { id: 9 }, result: "done" } }) });
    expect(forced.status).toBeGreaterThanOrEqual(400);
    expect(changes()).toBe(0);
    const branch = await go(run, { fork: "true", tools: echo(run, { c00: { confirmed: true } }) });
    if (branch.status === 200) expect(branch.body).toMatchObject({ status: "PAUSED" });
    expect(changes()).toBe(0);
    const { body } = await go(run);
    expect(body).toMatchObject({ status: "COMPLETED", tools: [{ confirmed: false, confirmation_note: "Not that one.", tool_call_error: true }] });
    expect(body.content).toContain("Not that one.");
    expect(changes()).toBe(0);
  });

  it("S306 S325 that was deleted blocks for good; the run can be cancelled", async () => {
    const changes = counter("update_crm");
    const run = await start(change);
    const approval = await approvalOf(run);
    expect(await ask("DELETE", `/approvals/${approval.id}`)).toMatchObject({ status: 204, body: undefined });
    expect((await ask("GET", `/approvals/${approval.id}`)).status).toBe(404);
    const { status, body } = await go(run, { tools: echo(run, { c00: { confirmed: true } }) });
    expect([status, body.error_type]).toEqual([400, "approval_pending"]);
    expect(await ask("POST", `/agents/clerk/runs/${run.run_id}/cancel?session_id=${run.session_id}`)).toMatchObject({ status: 200 });
    expect(await read(run)).toMatchObject({ status: "CANCELLED" });
    expect(changes()).toBe(0);
  });

  it("S327 the decision reads the same on the call and on the requirement, also after an eviction", async () => {
    const run = await start(change);
    await resolve(await approvalOf(run), { status: "approved", resolved_by: "root" });
    await evictAllDurableObjects();
    const decided = await read(run);
    expect(decided.tools[0]).toMatchObject({ confirmed: true, approval_id: run.tools[0].approval_id });
    expect(decided.requirements[0]).toMatchObject({ confirmation: true, tool_execution: decided.tools[0] });
    const { body } = await go(run);
    expect(body).toMatchObject({ status: "COMPLETED" });
    expect(body.requirements[0].tool_execution).toEqual(body.tools[0]);
  });

  it("S284 that is for the record alone blocks nothing, and is there once the client has decided", async () => {
    const run = await start('send_quote {"amount":5}');
    expect(run.tools).toMatchObject([{ approval_type: "audit", requires_confirmation: true }]);
    expect((await ask("GET", `/approvals?approval_type=audit&run_id=${run.run_id}`)).body.data).toEqual([]);
    const { body } = await go(run, { user_id: "ann", tools: echo(run, { c00: { confirmed: true } }) });
    expect(body.status).toBe("COMPLETED");
    await vi.waitFor(async () => {
      const { data } = (await ask("GET", `/approvals?approval_type=audit&run_id=${run.run_id}`)).body;
      expect(data).toMatchObject([{ status: "approved", approval_type: "audit", tool_name: "send_quote", tool_args: { amount: 5 }, resolved_by: "ann", resolved_at: expect.any(Number) }]);
    });
  });
});

describe("a run that has ended", () => {
  it("S242 goes on with a message in a sibling; the source stays as it was", async () => {
    const run = await start("first thing");
    const { status, body } = await go(run, { input: "second thing" });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: "COMPLETED", forked_from_run_id: run.run_id, session_id: run.session_id, content: "second thing" });
    expect(body.run_id).not.toBe(run.run_id);
    expect(body.messages.map((message: any) => message.content)).toEqual(["first thing", "first thing", "second thing", "second thing"]);
    expect(await read(run)).toEqual(run);
  });

  it("S245 S246 is answered anew without its calls being made again; the source is replaced, or not", async () => {
    const lookups = counter("look_up");
    const run = await start('look_up {"name":"ann"}');
    expect(lookups()).toBe(1);
    const kept = await go(run, { regenerate: "true", replace_original: "false" });
    expect(kept.body).toMatchObject({ status: "COMPLETED", regenerated_from: run.run_id });
    expect(await read(run)).toMatchObject({ status: "COMPLETED" });
    const replaced = await go(run, { regenerate: "true", additional_instructions: "shorter" });
    expect(replaced.body).toMatchObject({ status: "COMPLETED", regenerated_from: run.run_id, content: expect.stringContaining("shorter") });
    expect(await read(run)).toMatchObject({ status: "REGENERATED" });
    expect(lookups()).toBe(1);
    const again = await go(run, { input: "more" });
    expect([again.status, again.body.error_type]).toEqual([409, "run_not_continuable"]);
  });

  it("S244 S364 a paused one forks: the sibling asks again, and the source waits on", async () => {
    const mails = counter("send_mail");
    const run = await start(mail);
    const { body } = await go(run, { fork: "true", tools: echo(run, { c00: { confirmed: true } }) });
    expect(body.run_id).not.toBe(run.run_id);
    expect(body).toMatchObject({ status: "PAUSED", forked_from_run_id: run.run_id });
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(mails()).toBe(0);
  });

  it("S238 cancelled can not be continued", async () => {
    const run = await start(mail);
    await ask("POST", `/agents/clerk/runs/${run.run_id}/cancel?session_id=${run.session_id}`);
    for (const stream of ["true", "false"]) {
      const answer = await call(continuePath(run), form({ session_id: run.session_id, stream, tools: echo(run, { c00: { confirmed: true } }) }));
      expect([answer.status, ((await answer.json()) as any).error_type]).toEqual([409, "run_not_continuable"]);
    }
  });

  it("running is followed by a second continue, and changed by none", async () => {
    const mails = counter("send_mail");
    const gate = newId();
    const run = await start(`${mail} > gate ${gate}`);
    const tools = echo(run, { c00: { confirmed: true } });
    await call(continuePath(run), form({ session_id: run.session_id, stream: "false", background: "true", tools }));
    await gateReached(gate);
    const others: Record<string, string>[] = [{ input: "and more" }, { tools: echo(run, { c00: { confirmed: false } }) }, { fork: "true" }];
    for (const fields of others) {
      const late = await go(run, fields);
      expect([late.status, JSON.stringify(fields)]).toEqual([409, JSON.stringify(fields)]);
    }
    // Two clicks say the same thing twice.
    const again: Record<string, string>[] = [{}, { tools }];
    const attached = await Promise.all(again.map((fields) => call(continuePath(run), form({ session_id: run.session_id, ...fields }))));
    releaseGate(gate);
    for (const answer of attached) expect((await framesOf(answer)).at(-1)).toMatchObject({ event: "RunCompleted" });
    expect(mails()).toBe(1);
  });

  it("C026 a session that is busy is told before anything changes", async () => {
    const gate = newId();
    const run = await start(mail);
    await start(`gate ${gate}`, { session_id: run.session_id, background: "true" });
    await gateReached(gate);
    const busy = await go(run, { tools: echo(run, { c00: { confirmed: true } }) });
    expect([busy.status, busy.body.error_type]).toEqual([409, "session_busy"]);
    expect(await read(run)).toMatchObject({ status: "PAUSED", tools: [{ confirmed: null }] });
    const queued = go(run, { on_busy: "enqueue", tools: echo(run, { c00: { confirmed: true } }) });
    releaseGate(gate);
    expect((await queued).body).toMatchObject({ status: "COMPLETED", run_id: run.run_id });
  });
});

describe("what is asked for", () => {
  const bad: [Record<string, string>, RegExp][] = [
    [{ session_id: "" }, /session_id/],
    [{ session_id: "   " }, /session_id/],
    [{ tools: "{nope" }, /Invalid JSON in tools field/],
    [{ requirements: "nope" }, /Invalid JSON in requirements field/],
    [{ tools: '{"tool_call_id":"c00"}' }, /tools must be a JSON array/],
    [{ tools: "[{}]" }, /tool_call_id/],
    [{ continue_from: "abc" }, /continue_from/],
    [{ continue_from: "-1" }, /continue_from/],
    [{ continue_from: "1.5" }, /continue_from/],
    [{ continue_from: "99" }, /continue_from/],
    [{ replace_original: "true" }, /replace_original/],
    [{ replace_original: "false" }, /replace_original/],
    [{ input: "a", additional_instructions: "b" }, /additional_instructions/],
    [{ regenerate: "true", input: "a", additional_instructions: "b" }, /additional_instructions/],
    [{ regenerate: "true", fork: "true" }, /fork/],
    [{ regenerate: "true", continue_from: "1" }, /continue_from/],
  ];

  it.each(bad)("S243 S246 %j is 400, streaming or not, and changes nothing", async (fields, says) => {
    const run = await start("all done");
    const runs = () => ask("GET", `/agents/clerk/runs?session_id=${run.session_id}`);
    for (const stream of ["true", "false"]) {
      const answer = await call(continuePath(run), form({ session_id: run.session_id, stream, ...fields }));
      const body = (await answer.json()) as any;
      expect([answer.status, body.error_type]).toEqual([400, "invalid_request"]);
      expect(body.detail).toMatch(says);
    }
    expect(await read(run)).toEqual(run);
    expect((await runs()).body).toHaveLength(1);
  });

  it("S243 any place in the run will do, and the sibling says where it was cut", async () => {
    const lookups = counter("look_up");
    const run = await start('look_up {"name":"a"} & look_up {"name":"b"} > look_up {"name":"c"}');
    expect(run.messages.map((message: any) => message.role)).toEqual(["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]);
    const cuts: Record<string, number> = { "0": 0, "1": 1, "2": 1, "3": 4, "4": 4, "5": 4, "6": 6, "7": 7, end: 7, last_user: 1 };
    const runsBefore = lookups();
    for (const [from, cut] of Object.entries(cuts)) {
      const { status, body } = await go(run, { continue_from: from, fork: "true", ...(from === "0" ? { input: "anew" } : {}) });
      expect([from, status, body.status], JSON.stringify(body.detail)).toEqual([from, 200, "COMPLETED"]);
      expect(body).toMatchObject({ forked_from_run_id: run.run_id, forked_from_message_index: cut });
    }
    expect(lookups()).toBeGreaterThanOrEqual(runsBefore);
    for (const from of ["8", "-1", "abc"]) expect((await go(run, { continue_from: from, fork: "true" })).status).toBe(400);
    expect(await read(run)).toEqual(run);
  });

  it("is taken as JSON as well, arrays as they are", async () => {
    const run = await start(mail);
    const tools = run.tools.map((tool: any) => ({ ...tool, confirmed: true }));
    const answer = await call(continuePath(run), json({ session_id: run.session_id, stream: false, tools }));
    expect([answer.status, ((await answer.json()) as any).status]).toEqual([200, "COMPLETED"]);
    const sibling = await call(continuePath(run), json({ session_id: run.session_id, stream: false, continue_from: 1, fork: true }));
    expect(await sibling.json()).toMatchObject({ forked_from_message_index: 1 });
  });

  it("S254 S255 of no such run, of another session's or agent's, is 404", async () => {
    const mails = counter("send_mail");
    const run = await start(mail);
    const tools = echo(run, { c00: { confirmed: true } });
    const missing = { detail: "Run not found", error_type: "not_found" };
    const asks: [string, Record<string, string>][] = [
      [continuePath({ run_id: newId() }), { session_id: run.session_id }],
      [continuePath({ run_id: "nonsense" }), { session_id: run.session_id }],
      [continuePath(run), { session_id: "elsewhere" }],
      [continuePath(run), { session_id: newId() }],
      [continuePath(run, "echo"), { session_id: run.session_id }],
    ];
    for (const [path, fields] of asks) {
      for (const stream of ["true", "false"]) {
        const answer = await call(path, form({ ...fields, stream, tools }));
        expect([path, answer.status, await answer.json()]).toEqual([path, 404, missing]);
      }
    }
    expect((await call(continuePath(run, "nobody"), form({ session_id: run.session_id }))).status).toBe(404);
    expect(await read(run)).toMatchObject({ status: "PAUSED" });
    expect(mails()).toBe(0);
  });

  it("a file is refused before anything else", async () => {
    const run = await start(mail);
    const body = new FormData();
    body.append("session_id", run.session_id);
    body.append("files", new File(["x"], "x.txt"));
    expect((await call(continuePath(run), { method: "POST", body })).status).toBe(422);
  });
});

describe("checkpoints", () => {
  const list = (run: any) => ask("GET", `/agents/clerk/runs/${run.run_id}/checkpoints?session_id=${run.session_id}`);
  const snapshot = (run: any, index: number | string) => ask("GET", `/agents/clerk/runs/${run.run_id}/checkpoints/${index}?session_id=${run.session_id}`);

  it("S352 C042 are behind each result and at the end; each can be read and gone on from, and the source is as before", async () => {
    const run = await start('look_up {"name":"a"} & look_up {"name":"b"} > look_up {"name":"c"}');
    const { body } = await list(run);
    expect(body).toMatchObject({ run_id: run.run_id, session_id: run.session_id });
    expect(body.checkpoints.map((checkpoint: any) => [checkpoint.checkpoint_id, checkpoint.message_index, checkpoint.continue_from, checkpoint.reason, checkpoint.status, checkpoint.is_latest])).toEqual([
      ["3", 3, 3, "checkpoint", "RUNNING", false],
      ["4", 4, 4, "checkpoint", "RUNNING", false],
      ["6", 6, 6, "checkpoint", "RUNNING", false],
      ["7", 7, 7, "end", "COMPLETED", true],
    ]);
    expect(body.checkpoints[0]).toMatchObject({ message_role: "tool", message_id: run.messages[2].id, message_preview: run.messages[2].content });

    const cuts = [0, 1, 1, 4, 4, 4, 6, 7];
    for (const [index, cut] of cuts.entries()) {
      const { status, body: read } = await snapshot(run, index);
      expect([index, status]).toEqual([index, 200]);
      const listed = body.checkpoints.find((checkpoint: any) => checkpoint.message_index === index);
      expect(read.checkpoint).toMatchObject(listed ?? { message_index: index, reason: "snapshot" });
      expect(read.snapshot.messages).toEqual(run.messages.slice(0, cut));
      expect(read.snapshot.last_checkpoint_at_message_index).toBe(cut);
      expect(read.snapshot.tools?.map((tool: any) => tool.tool_call_id) ?? []).toEqual(["c00", "c01", "c10"].slice(0, cut >= 6 ? 3 : cut >= 4 ? 2 : 0));
    }
    for (const { continue_from: from } of body.checkpoints) {
      expect((await go(run, { continue_from: String(from), fork: "true" })).status).toBe(200);
    }
    expect(await read(run)).toEqual(run);
    expect((await list(run)).body).toEqual(body);
  });

  it("of a paused run keep what it has, and each is cut as its snapshot says", async () => {
    const run = await start(`${mail} & look_up {"name":"x"}`);
    expect(run.messages.map((message: any) => message.role)).toEqual(["user", "assistant", "tool"]);
    expect((await list(run)).body.checkpoints).toMatchObject([{ message_index: 3, reason: "end", status: "PAUSED" }]);
    for (const index of [1, 2, 3]) {
      const { snapshot: kept } = (await snapshot(run, index)).body;
      const { body } = await go(run, { continue_from: String(index), fork: "true" });
      expect([index, body.status, body.forked_from_message_index]).toEqual([index, "PAUSED", kept.last_checkpoint_at_message_index]);
    }
    expect((await go(run, { continue_from: "4", fork: "true" })).status).toBe(400);
  });

  it("beyond the run are refused with what there is, and of no such run are not there", async () => {
    const run = await start("hello");
    for (const index of [3, -1]) {
      const { status, body } = await snapshot(run, index);
      expect([status, body.error_type]).toEqual([400, "invalid_request"]);
      expect(body.detail).toContain("0 to 2");
    }
    expect((await snapshot(run, "x")).status).toBe(422);
    expect((await list({ ...run, run_id: newId() })).status).toBe(404);
    expect((await list({ ...run, session_id: "elsewhere" })).status).toBe(404);
    expect((await ask("GET", `/agents/clerk/runs/${run.run_id}/checkpoints`)).status).toBe(422);
    expect((await ask("GET", `/agents/echo/runs/${run.run_id}/checkpoints?session_id=${run.session_id}`)).status).toBe(404);
  });
});

describe("a copy of a session", () => {
  it("has the runs that have ended, under ids of their own, and goes its own way", async () => {
    const sessionId = newId();
    const first = await start('look_up {"name":"ann"}', { session_id: sessionId, user_id: "ann", session_state: '{"mood":"calm"}' });
    await start(mail, { session_id: sessionId });
    const fork = await ask("POST", `/agents/clerk/sessions/${sessionId}/fork`);
    expect(fork).toMatchObject({ status: 200, body: { session_id: expect.any(String), forked_from_session_id: sessionId } });
    const copyId = fork.body.session_id;
    expect(copyId).not.toBe(sessionId);

    const runs = (await ask("GET", `/sessions/${copyId}/runs`)).body;
    expect(runs).toMatchObject([{ status: "COMPLETED", run_input: first.input.input_content, content: first.content, forked_from_session_id: sessionId }]);
    expect(runs[0].run_id).not.toBe(first.run_id);
    expect((await ask("GET", `/sessions/${copyId}`)).body).toMatchObject({ user_id: "ann", session_state: { mood: "calm" } });

    const seen = requests();
    await start("and now", { session_id: copyId });
    expect(JSON.stringify(seen()[0]!.messages)).toContain("look_up receipt");
    expect((await ask("GET", `/sessions/${sessionId}/runs`)).body).toHaveLength(2);
  });

  it("of nothing is refused in the same words as of what is not there", async () => {
    const empty = await ask("POST", "/sessions", { agent_id: "clerk" });
    const paused = await start(mail);
    for (const id of [empty.body.session_id, paused.session_id, newId()]) {
      const { status, body } = await ask("POST", `/agents/clerk/sessions/${id}/fork`);
      expect([status, body.error_type, body.detail.replace(id, "…")]).toEqual([400, "invalid_request", "There is no session '…' with runs that could be copied."]);
    }
    const other = await start("hello");
    expect((await ask("POST", `/agents/echo/sessions/${other.session_id}/fork`)).status).toBe(400);
    expect((await ask("POST", `/agents/nobody/sessions/${other.session_id}/fork`)).status).toBe(404);
  });
});

it("nothing here was made without someone's word", () => {
  // Whatever went wrong above: pay, sign and give_raise were never asked for.
  for (const tool of ["pay", "sign", "give_raise"]) expect(made.get(tool)).toBeUndefined();
});
