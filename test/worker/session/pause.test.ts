import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Approval } from "../../../src/domain/approval.ts";
import { hashOf } from "../../../src/lib/hash.ts";
import { releaseGate } from "../../../src/models/scripted.ts";
import { crash, evict, fireAlarm, inObject, newSessionId, rowsIn } from "./harness.ts";
import { doneBy, pauseModel } from "./pause-agents.ts";
import {
  ALL,
  approvalsIn,
  begin,
  cancel,
  codeOf,
  drop,
  expectSoundLog,
  go,
  goUntil,
  logOf,
  makeDue,
  object,
  openIn,
  type Paused,
  paused,
  read,
  requestProblems,
  resolve,
  run,
  storedIn,
  textOf,
  until,
} from "./pause-harness.ts";

const CRM = 'update_crm {"id":7}';
const SEND = 'confirm_send {"to":"ada"}';

const listed = async (approvalId: string): Promise<Approval | undefined> => {
  const document = await env.DB.prepare("SELECT document FROM approvals WHERE approval_id = ?").bind(approvalId).first<string>("document");
  return document === null ? undefined : (JSON.parse(document) as Approval);
};
const storedStatus = async (sessionId: string, runId: string) => (await rowsIn(sessionId, `runs WHERE run_id = '${runId}'`))[0]?.status;
const untilStored = (sessionId: string, runId: string, status: string) => vi.waitFor(async () => expect(await storedStatus(sessionId, runId)).toBe(status), { timeout: 10_000, interval: 5 });

/** Requests that the model has had since this was called. */
function asked(): () => (typeof pauseModel.requests)[number][] {
  const before = pauseModel.requests.length;
  return () => pauseModel.requests.slice(before);
}

/** D1 without a table for approvals: whatever goes with one can not be written. */
async function whileD1HasNoApprovals(work: () => Promise<void>): Promise<void> {
  await env.DB.exec("ALTER TABLE approvals RENAME TO approvals_away");
  try {
    await work();
  } finally {
    await env.DB.exec("ALTER TABLE approvals_away RENAME TO approvals");
  }
}

afterEach(() => vi.restoreAllMocks());

describe("a pause", () => {
  it("S102 S130 S131 S156 S299 is told once D1 lists the approval; the run is stored as paused, and nothing was done", async () => {
    const sessionId = newSessionId();
    const runId = await begin(sessionId, `I'll do it. & ${CRM}`);
    for (let after = -1; ; ) {
      const polled = await object(sessionId).pollEvents({ runId, access: ALL, after, waitMs: 1_000 });
      if (!polled.ok) throw new Error(polled.error.message);
      after = polled.value.events.at(-1)?.index ?? after;
      const pause = polled.value.events.find((event) => event.type === "run.paused");
      if (pause === undefined) continue;
      // In the moment that it arrives.
      const approvalId = pause.calls[0]?.requirement?.approvalId as string;
      expect(await listed(approvalId)).toMatchObject({ status: "pending", runId, runStatus: "paused" });
      expect(await env.DB.prepare("SELECT status FROM runs WHERE run_id = ?").bind(runId).first("status")).toBe("paused");
      expect(pause).toMatchObject({ content: "I'll do it.", calls: [{ callId: "c01", toolName: "update_crm", arguments: { id: 7 } }] });
      break;
    }
    const { record, events } = await until(sessionId, runId, "paused");
    expect(doneBy(runId)).toEqual([]);
    expect(record.effects).toMatchObject([{ status: "planned", requirement: { kind: "confirmation", approvalType: "required" } }]);
    expectSoundLog(await logOf(sessionId, runId));
    expect(events.map((event) => event.type)).toEqual(["run.started", "model.started", "model.completed", "text.completed", "run.paused"]);
    await evict(sessionId);
    expect(await read(sessionId, runId)).toEqual({ record, events });
  });

  it("S155 S285 S298 has one approval over all its calls that want one, and its id stands on them", async () => {
    const { sessionId, runId, approval, open } = await paused(`${CRM} & update_crm {"id":8} & ${SEND}`, { userId: "alice" });
    expect(open).toEqual({ c00: "confirmation", c01: "confirmation", c02: "confirmation" });
    expect(await approvalsIn(sessionId, runId)).toHaveLength(1);
    expect(approval).toMatchObject({ runId, sessionId, userId: "alice", status: "pending", toolName: "update_crm", toolNames: ["update_crm", "update_crm"], component: { kind: "agent", id: "pauser" } });
    const { record, events } = await read(sessionId, runId);
    const stamps = (calls: readonly { requirement?: { approvalId?: string | undefined } | undefined }[]) => calls.map((call) => call.requirement?.approvalId);
    expect(stamps(record.effects)).toEqual([approval.id, approval.id, undefined]);
    const pause = events.at(-1);
    expect(pause?.type === "run.paused" && stamps(pause.calls)).toEqual([approval.id, approval.id, undefined]);
    expect(approval.requirements.map((requirement) => [requirement.callId, requirement.approvalId])).toEqual([["c00", approval.id], ["c01", approval.id]]);
  });

  it("S279 S300 comes to each gated tool alike, streamed or not", async () => {
    const shown = async (message: string, stream: boolean) => {
      const { runId, approval } = await paused(message, { stream, background: !stream });
      expect(doneBy(runId)).toEqual([]);
      const { id: _id, runId: _run, sessionId: _session, createdAt: _created, updatedAt: _updated, expiresAt: _expires, requirements, ...rest } = approval;
      return [rest, requirements.map(({ id: _requirement, createdAt: _asked, approvalId: _approval, ...requirement }) => requirement)];
    };
    for (const message of [CRM, 'soon {"amount":5}', "approved_book {}"]) expect(await shown(message, true)).toEqual(await shown(message, false));
  });

  it("S253 is only looked at by whoever follows or reads it: no model call, and not a byte has changed", async () => {
    const { sessionId, runId } = await paused(SEND);
    const before = await storedIn(sessionId);
    const seen = asked();
    const first = await read(sessionId, runId);
    await logOf(sessionId, runId);
    await object(sessionId).pollEvents({ runId, access: ALL, after: -1, waitMs: 0 });
    await evict(sessionId);
    expect(await read(sessionId, runId)).toEqual(first);
    expect(await storedIn(sessionId)).toEqual(before);
    expect(seen()).toEqual([]);
  });

  it("S7 whose object has lost everything ends with it: its run failed, and nobody can decide on its approval any more", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    await inObject(sessionId, async (state) => {
      await state.storage.deleteAlarm();
      await state.storage.deleteAll();
    });
    await crash();
    expect(await resolve(sessionId, approval.id)).toMatchObject({ ok: false, error: { code: "approval_resolved", details: { status: "cancelled" } } });
    expect((await read(sessionId, runId)).record).toMatchObject({ status: "failed", error: { type: "object_lost" } });
    await fireAlarm(sessionId);
    await vi.waitFor(async () => expect(await listed(approval.id)).toMatchObject({ status: "cancelled", runStatus: "failed" }));
    expect(doneBy(runId)).toEqual([]);
  });

  it("P9 with an approval waits for D1, however long; the line is free meanwhile, and no crash tells it too early", async () => {
    const sessionId = newSessionId();
    await run(sessionId, "hello");
    let runId = "";
    const isUntold = async () => {
      expect((await read(sessionId, runId)).record.status).toBe("running");
      expect((await logOf(sessionId, runId)).map((event) => event.type)).not.toContain("run.paused");
    };
    await whileD1HasNoApprovals(async () => {
      runId = await begin(sessionId, CRM);
      await untilStored(sessionId, runId, "paused");
      await isUntold();
      await fireAlarm(sessionId);
      await isUntold();
      expect((await run(sessionId, "and on")).record.content).toBe("and on");
      await crash();
      await isUntold();
      await evict(sessionId);
      await fireAlarm(sessionId);
      await isUntold();
      // Whoever asks for it to go on is shown what there is.
      expect(await go(sessionId, runId)).toMatchObject({ ok: true, value: { status: "running" } });
      expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } } }))).toBe("run_not_continuable");
    });
    await fireAlarm(sessionId);
    const { record } = await until(sessionId, runId, "paused");
    expectSoundLog(await logOf(sessionId, runId));
    expect(await listed((await approvalsIn(sessionId, runId))[0]!.id)).toMatchObject({ status: "pending" });
    expect(openIn(record.effects)).toEqual({ c00: "confirmation" });
    expect(doneBy(runId)).toEqual([]);
  });

  it("P2 that was told is never taken back, also where D1 is gone when the object comes back", async () => {
    const { sessionId, runId } = await paused(CRM);
    await whileD1HasNoApprovals(async () => {
      await crash();
      expect((await read(sessionId, runId)).record.status).toBe("paused");
    });
  });

  it("that was not told yet may be cancelled: both are told, in order, and the approval is closed", async () => {
    const sessionId = newSessionId();
    await run(sessionId, "hello");
    let runId = "";
    await whileD1HasNoApprovals(async () => {
      runId = await begin(sessionId, CRM);
      await untilStored(sessionId, runId, "paused");
      expect(await cancel(sessionId, runId)).toMatchObject({ ok: true, value: { status: "cancelled" } });
      // The end of a run waits for D1 a second at most.
      await until(sessionId, runId, "cancelled");
      const log = await logOf(sessionId, runId);
      expectSoundLog(log);
      expect(log.slice(-2).map((event) => event.type)).toEqual(["run.paused", "run.cancelled"]);
    });
    await fireAlarm(sessionId);
    const [approval] = await approvalsIn(sessionId, runId);
    await vi.waitFor(async () => expect(await listed(approval!.id)).toMatchObject({ status: "cancelled", runStatus: "cancelled" }));
  });

  it("without an approval waits for nobody but a second", async () => {
    const sessionId = newSessionId();
    await run(sessionId, "hello");
    await whileD1HasNoApprovals(async () => {
      const { runId } = await paused(SEND, { sessionId });
      expect((await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } } })).record.content).toBe("done: confirm_send receipt");
    });
  });

  it("C032 lets siblings that need nobody run at once, and nothing after the batch", async () => {
    const seen = asked();
    for (const order of [`${SEND} & charge {"amount":9}`, `charge {"amount":9} & ${SEND}`]) {
      for (const confirmed of [true, false]) {
        const { sessionId, runId } = await paused(`${order} > ping {}`);
        expect(doneBy(runId).map(({ tool }) => tool)).toEqual(["charge"]);
        await goUntil(sessionId, runId, "completed", { answers: { [order.startsWith("confirm") ? "c00" : "c01"]: { confirmed } } });
        expect(doneBy(runId).map(({ tool }) => tool)).toEqual(confirmed ? ["charge", "confirm_send", "ping"] : ["charge", "ping"]);
      }
    }
    expect(seen().flatMap(requestProblems)).toEqual([]);
  });

  it("S115 does not hold the session, later turns leave it out, and it goes on in its own place", async () => {
    const sessionId = newSessionId();
    await run(sessionId, "first");
    const { runId } = await paused(SEND, { sessionId });
    const seen = asked();
    await run(sessionId, "second");
    expect(seen()[0]!.messages.map((message) => message.content)).toEqual(["first", "first", "second"]);
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } } });
    expect(seen()[1]!.messages.map((message) => message.role)).toEqual(["user", "assistant", "user", "assistant", "tool"]);
    expect(seen()[1]!.messages.some((message) => message.content === "second")).toBe(false);
    expect(record.content).toBe("done: confirm_send receipt");
    await run(sessionId, "third");
    expect(seen()[2]!.messages.filter((message) => message.role === "user").map((message) => message.content)).toEqual(["first", SEND, "second", "third"]);
    expect(seen().flatMap(requestProblems)).toEqual([]);
  });

  it("goes on with the state that others have left, and writes back only what it changed itself", async () => {
    const { sessionId, runId } = await paused('set_state {"key":"plan","value":"pro"}', { input: { message: 'set_state {"key":"plan","value":"pro"}', sessionState: { mine: 1, theirs: 1 } } });
    await object(sessionId).patchSession({ access: ALL, state: { mine: 1, theirs: 2, plan: "free" } });
    await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } } });
    const session = await object(sessionId).readSession({ access: ALL });
    expect(session.ok && session.value.state).toEqual({ mine: 1, theirs: 2, plan: "pro" });
  });

  it("C073 keeps nobody waiting: a client that goes away does not end it", async () => {
    const { sessionId, runId } = await paused(SEND, { background: false, onDisconnect: 0 });
    await object(sessionId).pollEvents({ runId, access: ALL, after: -1, waitMs: 0 });
    expect((await rowsIn(sessionId, "timers")).map(({ name }) => name)).not.toContain(`grace:${runId}`);
    expect((await read(sessionId, runId)).record.status).toBe("paused");
  });
});

describe("people's answers", () => {
  it("C029 for some of the calls are none: 400 that names the others, and nothing has changed", async () => {
    const { sessionId, runId } = await paused(`${SEND} & confirm_send {"to":"bob"}`);
    const before = await storedIn(sessionId);
    const seen = asked();
    for (const [answered, open] of [["c00", "c01"], ["c01", "c00"]] as const) {
      const refusal = await go(sessionId, runId, { answers: { [answered]: { confirmed: answered === "c00" } } });
      expect(refusal).toMatchObject({ ok: false, error: { code: "requirements_open", details: { requirements: [{ tool_call_id: open, tool_name: "confirm_send", kind: "confirmation" }] } } });
      expect(!refusal.ok && refusal.error.message).toContain(open);
    }
    for (const answers of [[], [{ callId: "c99", confirmed: true }], [{ callId: "c00", confirmed: true }, { callId: "c00", confirmed: false }]]) {
      expect(codeOf(await object(sessionId).continueRun({ ...(await commandOf(runId)), answers }))).toMatch(/requirements_open|conflict/);
    }
    expect(await storedIn(sessionId)).toEqual(before);
    expect(seen()).toEqual([]);
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c01: { confirmed: false }, c00: { confirmed: true } } });
    expect(doneBy(runId).map(({ args }) => args)).toEqual([{ to: "ada" }]);
    expect(seen()).toHaveLength(1);
    expect(seen()[0]!.messages.flatMap((message) => (message.role === "tool" ? [message.toolCallId] : []))).toEqual(["c00", "c01"]);
    expect(record.effects.map(({ status }) => status)).toEqual(["done", "rejected"]);
  });

  it("C041 go each to its own call: q1 gets 0, q2 gets the empty text; what is of the wrong type is refused by name", async () => {
    const { sessionId, runId, open } = await paused('get_user_input {"fields":[{"name":"qty","type":"int"}]} & get_user_input {"fields":[{"name":"note","type":"str"}]}');
    expect(open).toEqual({ c00: "user_input", c01: "user_input" });
    const before = await storedIn(sessionId);
    const wrong = await go(sessionId, runId, { answers: { c01: { values: { note: "" } }, c00: { values: { qty: "0" } } } });
    expect(wrong).toMatchObject({ ok: false, error: { code: "requirements_open", details: { requirements: [{ tool_call_id: "c00", problems: ['needs a value of type int for "qty"'] }] } } });
    expect(await storedIn(sessionId)).toEqual(before);
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c01: { values: { note: "" } }, c00: { values: { qty: 0 } } } });
    expect(record.effects.map(({ result }) => result)).toEqual(['{"qty":0}', '{"note":""}']);
  });

  it.each([{}, { confirmed: null as never }, { confirmed: "false" as never }, { note: "yes" }, { result: "yes" }])("C041 that say %j are no yes", async (answer) => {
    const { sessionId, runId } = await paused(SEND);
    expect(codeOf(await go(sessionId, runId, { answers: { c00: answer } }))).toBe("requirements_open");
    expect((await read(sessionId, runId)).record.status).toBe("paused");
    expect(doneBy(runId)).toEqual([]);
  });

  it("that do not fit the tool can be given again: 400 that says what is wrong, and the run waits", async () => {
    const book = await paused('book {"room":"a"}');
    expect(await go(book.sessionId, book.runId, { answers: { c00: { values: { seats: 0 } } } })).toMatchObject({ ok: false, error: { code: "requirements_open", message: expect.stringContaining("seats") } });
    await goUntil(book.sessionId, book.runId, "completed", { answers: { c00: { values: { seats: 2 } } } });
    expect(doneBy(book.runId).map(({ args }) => args)).toEqual([{ room: "a", seats: 2 }]);

    const send = await paused(SEND);
    expect(codeOf(await go(send.sessionId, send.runId, { answers: { c00: { confirmed: true, arguments: { to: 5 } } } }))).toBe("requirements_open");
    const seen = asked();
    await goUntil(send.sessionId, send.runId, "completed", { answers: { c00: { confirmed: true, arguments: { to: "grace" } } } });
    expect(doneBy(send.runId).map(({ args }) => args)).toEqual([{ to: "grace" }]);
    expect(seen()[0]!.messages[1]).toMatchObject({ toolCalls: [{ arguments: { to: "grace" } }] });
  });

  it("C031 are asked for once in every shape, the call stands once in what the model sees, and is made once", async () => {
    for (const kind of ["external", "approved"] as const) {
      for (const [stream, background] of [[true, true], [true, false], [false, true], [false, false]] as const) {
        const sessionId = newSessionId();
        await run(sessionId, "hello");
        const seen = asked();
        const { runId, approval } = await paused(kind === "external" ? 'ext_lookup {"q":"x"}' : CRM, { sessionId });
        if (kind === "approved") expect(codeOf(await resolve(sessionId, approval.id))).toBe("ok");
        await goUntil(sessionId, runId, "completed", { stream, background, answers: kind === "external" ? { c00: { result: "found" } } : {} });
        expect(seen()).toHaveLength(2);
        expect(seen()[1]!.messages.map((message) => message.role)).toEqual(["user", "assistant", "user", "assistant", "tool"]);
        expect(seen().flatMap(requestProblems)).toEqual([]);
        expect(doneBy(runId)).toHaveLength(kind === "external" ? 0 : 1);
      }
    }
  });

  it("C034 S107 are asked for anew with each pause, with an eviction between all steps", async () => {
    const seen = asked();
    const { sessionId, runId, open } = await paused(`${SEND} > ping {} > confirm_send {"to":"bob"} > get_user_input {"fields":[{"name":"why","type":"str"}]} > bye`);
    expect(open).toEqual({ c00: "confirmation" });
    const next = async (status: "paused" | "completed", answers: NonNullable<Parameters<typeof go>[2]>["answers"]) => {
      await evict(sessionId);
      return openIn((await goUntil(sessionId, runId, status, { answers: answers ?? {} })).record.effects);
    };
    expect(await next("paused", { c00: { confirmed: true } })).toEqual({ c20: "confirmation" });
    await evict(sessionId);
    // The first decision again says nothing new, and does not do for the second.
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } } }))).toBe("requirements_open");
    expect(await next("paused", { c00: { confirmed: true }, c20: { confirmed: false, note: "Leave Bob alone." } })).toEqual({ c30: "user_input" });
    expect(await next("completed", { c30: { values: { why: "so" } } })).toEqual({});
    expect(doneBy(runId).map(({ tool }) => tool)).toEqual(["confirm_send", "ping"]);
    expect(seen()).toHaveLength(5);
    expect(seen().flatMap(requestProblems)).toEqual([]);
    expect(JSON.stringify(seen()[3]!.messages)).toContain("Leave Bob alone.");
    const log = await logOf(sessionId, runId);
    expectSoundLog(log);
    expect(log.filter((event) => event.type === "run.paused")).toHaveLength(3);
    const { record } = await read(sessionId, runId);
    expect(record.messages.map((message) => message.role)).toEqual(["user", ...Array.from({ length: 4 }, () => ["assistant", "tool"]).flat(), "assistant"]);
    expect(textOf(log)).toBe(record.content);
  });

  it("C035 about an earlier call say nothing about a later one", async () => {
    const { sessionId, runId, approval } = await paused('update_crm {"id":1} > update_crm {"id":1000}');
    await resolve(sessionId, approval.id, { decision: "rejected" });
    await goUntil(sessionId, runId, "paused");
    const second = (await approvalsIn(sessionId, runId))[1]!;
    expect(second).toMatchObject({ status: "pending", toolArguments: { id: 1000 } });
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } } }))).toBe("conflict");
    expect(await resolve(sessionId, approval.id)).toMatchObject({ ok: false, error: { code: "approval_resolved", details: { status: "rejected" } } });
    expect(codeOf(await resolve(sessionId, crypto.randomUUID()))).toBe("not_found");
    expect(codeOf(await go(sessionId, runId))).toBe("approval_pending");
    expect(openIn((await read(sessionId, runId)).record.effects)).toEqual({ c10: "confirmation" });
    expect(doneBy(runId)).toEqual([]);
  });

  it("S284 for the record alone block nothing, and are on record once they were given", async () => {
    for (const confirmed of [true, false]) {
      const { sessionId, runId } = await paused('note_crm {"amount":5}');
      expect(await approvalsIn(sessionId, runId)).toEqual([]);
      const { record } = await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed } }, by: "bob" });
      const [audit] = await approvalsIn(sessionId, runId);
      expect(audit).toMatchObject({ type: "audit", status: confirmed ? "approved" : "rejected", resolvedBy: "bob", runStatus: "completed", requirements: [{ callId: "c00" }] });
      expect(record.effects[0]?.requirement?.approvalId).toBe(audit?.id);
      await vi.waitFor(async () => expect(await listed(audit!.id)).toMatchObject({ type: "audit", runStatus: "completed" }));
      expect(doneBy(runId)).toHaveLength(confirmed ? 1 : 0);
    }
  });

  it("S315 S132 S133 let the same run go on from what is stored, without asking the model again for the step", async () => {
    const { sessionId, runId } = await paused(SEND);
    await crash();
    const seen = asked();
    const { record, events } = await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } } });
    expect(record.runId).toBe(runId);
    expect(seen()).toHaveLength(1);
    expect(seen()[0]!.messages.at(-1)).toMatchObject({ role: "tool", content: "confirm_send receipt" });
    expect(events.map((event) => event.type)).toEqual(["run.started", "model.started", "model.completed", "text.completed", "run.paused", "run.continued", "tool-call.started", "tool-call.completed", "model.started", "model.completed", "text.completed", "run.completed"]);
    expectSoundLog(await logOf(sessionId, runId));
  });

  it("may come with a message, which the model reads behind the results", async () => {
    const { sessionId, runId } = await paused(SEND);
    const seen = asked();
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } }, input: "And be quick." });
    expect(seen()[0]!.messages.map((message) => message.content)).toEqual([SEND, "", "confirm_send receipt", "And be quick."]);
    expect(record.content).toBe("And be quick.");
    expect(requestProblems(seen()[0]!)).toEqual([]);
  });

  it("S274 are seen by readers once they are stored, and not before", async () => {
    const { sessionId, runId } = await paused(`${SEND} > gate s274`);
    const [first, , second] = await Promise.all([read(sessionId, runId), go(sessionId, runId, { answers: { c00: { confirmed: true } } }), read(sessionId, runId)]);
    expect(first.record.effects[0]?.requirement).not.toHaveProperty("resolution");
    expect(second.record.effects[0]?.requirement?.resolution === undefined || second.record.status === "running").toBe(true);
    releaseGate("s274");
    await until(sessionId, runId, "completed");
    expect(first.record.status).toBe("paused");
  });
});

describe("a call that nobody saw the end of", () => {
  const lost = () => paused('no_answer {"amount":9}');

  it("S106 S361 waits for someone to say; it happened, with this result", async () => {
    const { sessionId, runId, open } = await lost();
    expect(open).toEqual({ c00: "unknown_outcome" });
    expect(codeOf(await go(sessionId, runId))).toBe("requirements_open");
    expect(await go(sessionId, runId, { answers: { c00: { outcome: "happened" } } })).toMatchObject({ ok: false, error: { message: expect.stringContaining("needs the result") } });
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c00: { outcome: "happened", result: "receipt 7" } }, by: "bob" });
    expect(record.content).toBe("done: receipt 7");
    expect(record.effects).toMatchObject([{ status: "done", result: "receipt 7", requirement: { resolvedBy: "bob", resolution: { decision: "happened" } } }]);
    expect(doneBy(runId)).toHaveLength(1);
  });

  it("it did not, run it: once more, under the same key, and if that is lost as well, asked again", async () => {
    const { sessionId, runId } = await lost();
    const { record } = await goUntil(sessionId, runId, "paused", { answers: { c00: { outcome: "run" } } });
    expect(openIn(record.effects)).toEqual({ c00: "unknown_outcome" });
    expect(doneBy(runId).map(({ key }) => key)).toEqual([`${runId}:0:0`, `${runId}:0:0`]);
  });

  it("skip it: nothing is made, and the model is told that nobody knows", async () => {
    const { sessionId, runId } = await lost();
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c00: { outcome: "skip" } } });
    expect(record.content).toContain("not known");
    expect(doneBy(runId)).toHaveLength(1);
  });

  it("or the agent has said beforehand, and it is tried once more on that word", async () => {
    const { runId, open } = await paused('no_answer {"amount":9}', { agent: "rash" });
    expect(open).toEqual({ c00: "unknown_outcome" });
    expect(doneBy(runId)).toHaveLength(2);
  });

  it("is named when its run is cancelled", async () => {
    const { sessionId, runId } = await lost();
    await cancel(sessionId, runId);
    await until(sessionId, runId, "cancelled");
    expect((await logOf(sessionId, runId)).at(-1)).toMatchObject({ type: "run.cancelled", unfinished: ["c00"] });
    expect((await run(sessionId, "next")).record.content).toBe("next");
  });
});

describe("a decision on an approval", () => {
  it("S157 S307 S311 S312 S313 S314 S316 S319 is one of three advances that are seen apart", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    const state = async () => [(await read(sessionId, runId)).record.status, (await listed(approval.id))?.status, doneBy(runId).length];
    expect(await state()).toEqual(["paused", "pending", 0]);
    const resolved = await resolve(sessionId, approval.id, { by: "bob", data: { note: "Fine." } });
    expect(resolved).toMatchObject({ ok: true, value: { status: "approved", resolvedBy: "bob", resolvedAt: expect.any(Number), resolutionData: { note: "Fine." } } });
    expect(await state()).toEqual(["paused", "approved", 0]);
    const { record } = await goUntil(sessionId, runId, "completed");
    expect(await state()).toEqual(["completed", "approved", 1]);
    expect(record.content).toBe("done: update_crm receipt");
    expect(record.metadata?.approval).toMatchObject({ id: approval.id, status: "approved", resolved_by: "bob" });
    await vi.waitFor(async () => expect(await listed(approval.id)).toMatchObject({ runStatus: "completed" }));
  });

  it("S158 S309 S310 S326 is not to be gone past, whatever the client sends", async () => {
    const { sessionId, runId } = await paused(CRM);
    const before = await storedIn(sessionId);
    for (const answer of [{}, { confirmed: true }, { confirmed: true, arguments: { id: 8 } }, { confirmed: false }, { result: "done" }]) {
      expect(codeOf(await go(sessionId, runId, { answers: { c00: answer } }))).toBe("approval_pending");
    }
    expect(codeOf(await go(sessionId, runId))).toBe("approval_pending");
    expect(codeOf(await go(sessionId, runId, { input: "Just do it." }))).toBe("approval_pending");
    expect(await storedIn(sessionId)).toEqual(before);
    expect(doneBy(runId)).toEqual([]);
  });

  it("S317 S318 S363 that is a no is a no, whatever the client sends", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    await resolve(sessionId, approval.id, { decision: "rejected", data: { note: "Not this one." } });
    for (const answers of [{ c00: { confirmed: true } }, { c00: { arguments: { id: 8 } } }, { c00: { confirmed: true, arguments: { id: 8 } } }, { c00: { result: "done" } }]) expect(codeOf(await go(sessionId, runId, { answers }))).toBe("conflict");
    const fork = await goUntil(sessionId, runId, "paused", { fork: true, answers: { c00: { confirmed: true } } });
    expect(openIn(fork.record.effects)).toEqual({ c00: "confirmation" });
    const { record } = await goUntil(sessionId, runId, "completed");
    expect(record.effects).toMatchObject([{ status: "rejected", result: "The call was rejected, so it was not executed. Not this one." }]);
    expect(record.content).toContain("Not this one.");
    expect([...doneBy(runId), ...doneBy(fork.record.runId)]).toEqual([]);
  });

  it("S307 is made once: of two in one moment one counts, and the other is told how it stands", async () => {
    for (const [first, second] of [["approved", "rejected"], ["approved", "approved"], ["rejected", "approved"]] as const) {
      const { sessionId, approval } = await paused(CRM);
      const both = await Promise.all([resolve(sessionId, approval.id, { decision: first, by: "ann" }), resolve(sessionId, approval.id, { decision: second, by: "bob" })]);
      expect(both.map(codeOf).sort()).toEqual(["approval_resolved", "ok"]);
      const winner = both.find((one) => one.ok);
      expect(await listed(approval.id)).toEqual(winner?.ok && winner.value);
      expect(codeOf(await resolve(sessionId, approval.id))).toBe("approval_resolved");
    }
  });

  it("is on what was shown: another hash is a decision on something else", async () => {
    const { sessionId, approval } = await paused(CRM);
    expect(codeOf(await resolve(sessionId, approval.id, { shownHash: await hashOf({ id: 8 }) }))).toBe("conflict");
    expect((await approvalsIn(sessionId, approval.runId))[0]?.status).toBe("pending");
    expect(codeOf(await resolve(sessionId, approval.id, { shownHash: await hashOf({ id: 7 }) }))).toBe("ok");
    const two = await paused(`${CRM} & update_crm {"id":8}`);
    const hashes = await Promise.all([hashOf({ id: 7 }), hashOf({ id: 8 })]);
    expect(codeOf(await resolve(two.sessionId, two.approval.id, { shownHash: hashes[0] as string }))).toBe("conflict");
    expect(codeOf(await resolve(two.sessionId, two.approval.id, { shownHash: await hashOf(hashes) }))).toBe("ok");
  });

  it("with other arguments is what runs and what the model reads, if the tool takes them", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    const refused = await resolve(sessionId, approval.id, { data: { edited_args: { id: "seven" } } });
    expect(refused).toMatchObject({ ok: false, error: { code: "invalid_request", message: expect.stringContaining("id") } });
    expect((await approvalsIn(sessionId, runId))[0]?.status).toBe("pending");
    const edited = { id: 7, plan: "pro" };
    expect(codeOf(await resolve(sessionId, approval.id, { data: { edited_args: edited } }))).toBe("ok");
    const seen = asked();
    const { record } = await goUntil(sessionId, runId, "completed");
    expect(doneBy(runId).map(({ args }) => args)).toEqual([edited]);
    expect(seen()[0]!.messages[1]).toMatchObject({ role: "assistant", toolCalls: [{ id: "c00", arguments: edited }] });
    expect(record.effects[0]).toMatchObject({ arguments: edited, edited, argumentsHash: await hashOf(edited) });
    // Later turns read it so as well, and the record of what the model wrote stays.
    await run(sessionId, "next");
    expect(seen()[1]!.messages[1]).toMatchObject({ toolCalls: [{ arguments: edited }] });
    expect(record.messages[1]).toMatchObject({ toolCalls: [{ arguments: { id: 7 } }] });
    expect(await listed(approval.id)).toMatchObject({ toolArguments: { id: 7 }, resolutionData: { edited_args: edited } });
  });

  it("with other arguments names the call, where there are several, and edits nothing that is not there to edit", async () => {
    const { sessionId, runId, approval } = await paused(`${CRM} & update_crm {"id":8}`);
    for (const edited_args of [{ id: 9 }, { c00: { id: 9 }, c99: { id: 9 } }, { c00: 5 }, [1], "x"]) expect(codeOf(await resolve(sessionId, approval.id, { data: { edited_args } }))).toBe("invalid_request");
    expect(codeOf(await resolve(sessionId, approval.id, { data: { edited_args: { c01: { id: 9 } } } }))).toBe("ok");
    await goUntil(sessionId, runId, "completed");
    expect(doneBy(runId).map(({ args }) => args)).toEqual([{ id: 7 }, { id: 9 }]);
    const book = await paused('approved_book {"seats":2}');
    expect(codeOf(await resolve(book.sessionId, book.approval.id, { data: { edited_args: { seats: 3 } } }))).toBe("invalid_request");
  });

  it("brings the values that a call waits for, or leaves them to the client", async () => {
    const brought = await paused("approved_book {}");
    expect(brought.open).toEqual({ c00: "user_input" });
    await resolve(brought.sessionId, brought.approval.id, { data: { values: { seats: 4 } } });
    await goUntil(brought.sessionId, brought.runId, "completed");
    expect(doneBy(brought.runId).map(({ args }) => args)).toEqual([{ seats: 4 }]);

    const left = await paused("approved_book {}");
    await resolve(left.sessionId, left.approval.id);
    expect(codeOf(await go(left.sessionId, left.runId))).toBe("requirements_open");
    await goUntil(left.sessionId, left.runId, "completed", { answers: { c00: { values: { seats: 1 } } } });
    expect(doneBy(left.runId).map(({ args }) => args)).toEqual([{ seats: 1 }]);
  });

  it("that the tool would not take can be made again: what was decided once can not be changed", async () => {
    const { sessionId, runId, approval } = await paused('small_book {"room":"a"}');
    expect(await resolve(sessionId, approval.id, { data: { values: { seats: 0 } } })).toMatchObject({ ok: false, error: { code: "invalid_request", details: { tool_call_id: "c00", field: "seats" } } });
    expect((await approvalsIn(sessionId, runId))[0]?.status).toBe("pending");
    await resolve(sessionId, approval.id, { data: { values: { seats: 1 } } });
    await goUntil(sessionId, runId, "completed");
    expect(doneBy(runId).map(({ args }) => args)).toEqual([{ room: "a", seats: 1 }]);
  });

  it("of several people counts each of them once and by name; one no decides, and nobody slips in what the others did not see", async () => {
    const { sessionId, runId, approval } = await paused('by_two {"amount":500}');
    expect(codeOf(await resolve(sessionId, approval.id))).toBe("forbidden");
    for (const data of [{ edited_args: { amount: 5 } }, { values: { amount: 5 } }]) expect(codeOf(await resolve(sessionId, approval.id, { by: "ann", data }))).toBe("invalid_request");
    expect(await resolve(sessionId, approval.id, { by: "ann", data: { note: "ok" } })).toMatchObject({ ok: true, value: { status: "pending", votes: [{ by: "ann", decision: "approved" }] } });
    expect(await resolve(sessionId, approval.id, { by: "ann" })).toMatchObject({ ok: true, value: { status: "pending", votes: [{ by: "ann" }] } });
    expect(codeOf(await go(sessionId, runId))).toBe("approval_pending");
    expect(await listed(approval.id)).toMatchObject({ status: "pending", votes: [{ by: "ann" }] });
    await crash();
    expect((await read(sessionId, runId)).record.status).toBe("paused");
    expect(await resolve(sessionId, approval.id, { by: "bob" })).toMatchObject({ ok: true, value: { status: "approved", resolvedBy: "bob", votes: [{ by: "ann" }, { by: "bob" }] } });
    await goUntil(sessionId, runId, "completed");
    expect(doneBy(runId)).toHaveLength(1);

    const refused = await paused('by_two {"amount":500}');
    await resolve(refused.sessionId, refused.approval.id, { by: "ann" });
    expect(await resolve(refused.sessionId, refused.approval.id, { by: "bob", decision: "rejected" })).toMatchObject({ ok: true, value: { status: "rejected" } });
    await goUntil(refused.sessionId, refused.runId, "completed");
    expect(doneBy(refused.runId)).toEqual([]);
  });

  it("of several people in one moment loses nobody's word", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { sessionId, approval } = await paused('by_two {"amount":500} & by_two {"amount":6}');
      const shownHash = await hashOf([await hashOf({ amount: 500 }), await hashOf({ amount: 6 })]);
      const both = await Promise.all(["ann", "bob"].map((by) => resolve(sessionId, approval.id, { by, shownHash })));
      expect(both.map(codeOf)).toEqual(["ok", "ok"]);
      expect((await approvalsIn(sessionId, approval.runId))[0]).toMatchObject({ status: "approved", votes: [{ by: expect.any(String) }, { by: expect.any(String) }] });
    }
  });

  it("is someone else's where the requester may not", async () => {
    const { sessionId, approval } = await paused('by_another {"amount":5}', { userId: "alice" });
    for (const by of [{ by: "alice" }, {}]) expect(codeOf(await resolve(sessionId, approval.id, by))).toBe("forbidden");
    expect(codeOf(await resolve(sessionId, approval.id, { by: "bob" }))).toBe("ok");
  });

  it("P6 on another user's approval is a decision on nothing", async () => {
    const { sessionId, approval } = await paused(CRM, { userId: "alice", access: { rows: "user", userId: "alice" } });
    const access = { rows: "user", userId: "mallory" } as const;
    expect(codeOf(await resolve(sessionId, approval.id, { access }))).toBe("not_found");
    expect(codeOf(await object(sessionId).readApproval({ approvalId: approval.id, access }))).toBe("not_found");
    expect(codeOf(await object(sessionId).deleteApproval({ approvalId: approval.id, access }))).toBe("not_found");
    expect(await approvalsIn(sessionId, approval.runId)).toEqual([approval]);
  });

  it("S120 may let the run go on at once, behind whatever holds the session", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    const holder = await begin(sessionId, "gate then-continue");
    expect(await resolve(sessionId, approval.id, { thenContinue: true, by: "bob" })).toMatchObject({ ok: true, value: { status: "approved" } });
    expect((await read(sessionId, runId)).record.status).toBe("pending");
    expect(doneBy(runId)).toEqual([]);
    releaseGate("then-continue");
    await until(sessionId, holder, "completed");
    await until(sessionId, runId, "completed");
    expect(doneBy(runId)).toHaveLength(1);

    const free = await paused(CRM);
    await resolve(free.sessionId, free.approval.id, { thenContinue: true });
    await until(free.sessionId, free.runId, "completed");
    const no = await paused(CRM);
    await resolve(no.sessionId, no.approval.id, { thenContinue: true, decision: "rejected" });
    expect((await until(no.sessionId, no.runId, "completed")).record.effects[0]?.status).toBe("rejected");
    // What still waits for the client waits on.
    const more = await paused(`${CRM} & ${SEND}`);
    await resolve(more.sessionId, more.approval.id, { thenContinue: true });
    expect((await read(more.sessionId, more.runId)).record.status).toBe("paused");
    await goUntil(more.sessionId, more.runId, "completed", { answers: { c01: { confirmed: true } } });
  });

  it("S362 that is a yes is not the CRM's yes", async () => {
    const { sessionId, runId, approval } = await paused('refused_crm {"id":7}');
    await resolve(sessionId, approval.id);
    const { record } = await goUntil(sessionId, runId, "completed");
    expect(record.effects).toMatchObject([{ status: "failed", result: "The tool failed: 422 the plan is not for sale", requirement: { resolution: { confirmed: true } } }]);
    expect((await approvalsIn(sessionId, runId))[0]?.status).toBe("approved");
    expect(record.content).toBe("done: The tool failed: 422 the plan is not for sale");
  });

  it("S107 S299 S327 outlives a crash between any two steps, and reads the same on the call, the requirement and the approval", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    await crash();
    await resolve(sessionId, approval.id, { by: "bob", data: { note: "Fine." } });
    await crash();
    const decided = (await read(sessionId, runId)).record.effects[0]!.requirement!;
    expect(decided).toMatchObject({ approvalId: approval.id, resolution: { kind: "confirmation", confirmed: true, note: "Fine." }, resolvedBy: "bob" });
    expect((await approvalsIn(sessionId, runId))[0]!.requirements[0]).toMatchObject(decided);
    expect(codeOf(await go(sessionId, runId))).toBe("ok");
    await crash();
    await fireAlarm(sessionId);
    await until(sessionId, runId, "completed");
    await crash();
    const { record } = await read(sessionId, runId);
    expect(record).toMatchObject({ status: "completed", effects: [{ status: "done", requirement: { approvalId: approval.id, resolvedBy: "bob" } }] });
    expect(doneBy(runId)).toHaveLength(1);
    expectSoundLog(await logOf(sessionId, runId));
  });

  it("S306 S325 that nobody can make any more, since it was deleted, blocks the call for good", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    expect(codeOf(await drop(sessionId, approval.id))).toBe("ok");
    expect(codeOf(await drop(sessionId, approval.id))).toBe("not_found");
    await vi.waitFor(async () => expect(await listed(approval.id)).toBeUndefined());
    await crash();
    expect((await read(sessionId, runId)).record.status).toBe("paused");
    expect(codeOf(await resolve(sessionId, approval.id))).toBe("not_found");
    for (const answer of [{}, { confirmed: true }]) expect(await go(sessionId, runId, { answers: { c00: answer } })).toMatchObject({ ok: false, error: { code: "approval_pending", message: expect.stringContaining("can only be cancelled") } });
    await cancel(sessionId, runId);
    await until(sessionId, runId, "cancelled");
    expect(doneBy(runId)).toEqual([]);
  });
});

describe("a pause that ends without a decision", () => {
  it("C038 by a cancel closes its approvals, and the session goes on", async () => {
    const { sessionId, runId, approval } = await paused(`${CRM} & ${SEND}`);
    expect(await cancel(sessionId, runId)).toMatchObject({ ok: true, value: { status: "cancelled" } });
    const { record } = await until(sessionId, runId, "cancelled");
    expect(record.effects.map(({ status }) => status)).toEqual(["skipped", "skipped"]);
    expect(await listed(approval.id)).toMatchObject({ status: "cancelled", runStatus: "cancelled" });
    expect(codeOf(await resolve(sessionId, approval.id))).toBe("approval_resolved");
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } } }))).toBe("run_not_continuable");
    const seen = asked();
    await run(sessionId, "next");
    expect(seen().flatMap(requestProblems)).toEqual([]);
    expect(seen()[0]!.messages.map((message) => message.content)).toEqual(["next"]);
    expect(doneBy(runId)).toEqual([]);
    expectSoundLog(await logOf(sessionId, runId));
  });

  const dueAt = (approval: Approval) => expect(approval.expiresAt! - approval.createdAt).toBe(3_600_000);

  it("C038 by the end of its time rejects the call: the object's alarm says so, also after a crash", async () => {
    const { sessionId, runId, approval } = await paused('soon {"amount":5}');
    dueAt(approval);
    expect((await rowsIn(sessionId, "timers")).map(({ name }) => name)).toContain(`expiry:${approval.id}`);
    await makeDue(sessionId, "expiry:%");
    await crash();
    await fireAlarm(sessionId);
    await vi.waitFor(async () => expect(await listed(approval.id)).toMatchObject({ status: "expired", resolvedAt: expect.any(Number), requirements: [{ resolution: { kind: "rejected" } }] }));
    expect((await rowsIn(sessionId, "timers")).map(({ name }) => name)).not.toContain(`expiry:${approval.id}`);
    expect(codeOf(await resolve(sessionId, approval.id))).toBe("approval_resolved");
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } } }))).toBe("conflict");
    expect((await read(sessionId, runId)).record.status).toBe("paused");
    const { record } = await goUntil(sessionId, runId, "completed");
    expect(record.content).toContain("expired before anyone decided");
    expect(doneBy(runId)).toEqual([]);
  });

  it("C038 by the end of its time cancels the run, where the tool says so", async () => {
    const { sessionId, runId, approval } = await paused('soon_or_never {"amount":5}');
    await makeDue(sessionId, "expiry:%");
    await fireAlarm(sessionId);
    const { record } = await until(sessionId, runId, "cancelled");
    expect(record.cancelReason).toContain("expired");
    await vi.waitFor(async () => expect(await listed(approval.id)).toMatchObject({ status: "expired", runStatus: "cancelled" }));
    expect(codeOf(await resolve(sessionId, approval.id))).toBe("approval_resolved");
    expect((await run(sessionId, "next")).record.content).toBe("next");
    expect(doneBy(runId)).toEqual([]);
  });

  it("decided in time does not expire", async () => {
    const { sessionId, runId, approval } = await paused('soon {"amount":5}');
    await resolve(sessionId, approval.id);
    expect((await rowsIn(sessionId, "timers")).map(({ name }) => name)).not.toContain(`expiry:${approval.id}`);
    await goUntil(sessionId, runId, "completed");
    expect(doneBy(runId)).toHaveLength(1);
  });

  it("by a delete of its session leaves nothing, and whoever follows it hears the end", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    const heard = object(sessionId).pollEvents({ runId, access: ALL, after: (await logOf(sessionId, runId)).at(-1)!.index, waitMs: 5_000 });
    await vi.waitFor(async () => expect(codeOf(await object(sessionId).deleteSession({ access: ALL }))).toBe("ok"));
    expect(await heard).toMatchObject({ ok: true, value: { events: [{ type: "run.cancelled" }] } });
    expect(await listed(approval.id)).toBeUndefined();
    expect(codeOf(await resolve(sessionId, approval.id))).toBe("not_found");
    expect(codeOf(await go(sessionId, runId))).toBe("not_found");
    expect(doneBy(runId)).toEqual([]);
  });
});

describe("the code has changed meanwhile", () => {
  /** Edits what is stored of a paused run's call, as if it had been made for other code. */
  const edit = async ({ sessionId }: Paused, sql: string) => {
    expect(await inObject(sessionId, (state) => state.storage.sql.exec(sql).rowsWritten)).toBeGreaterThan(0);
    await evict(sessionId);
  };

  it("S260 a version that is not registered: 409, nothing runs, and the run stays as it is", async () => {
    const waiting = await paused(SEND);
    const { sessionId, runId } = waiting;
    await edit(waiting, "UPDATE runs SET data = json_set(data, '$.component.version', '2')");
    const before = await storedIn(sessionId);
    for (const options of [{ answers: { c00: { confirmed: true } } }, { fork: true }]) {
      expect(await go(sessionId, runId, options)).toMatchObject({ ok: false, error: { code: "version_unavailable", details: { component_id: "pauser", version: "2" } } });
    }
    expect(await storedIn(sessionId)).toEqual(before);
    expect(doneBy(runId)).toEqual([]);
    await edit(waiting, "UPDATE runs SET data = json_set(data, '$.component.version', '1')");
    await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } } });
  });

  it("C036 S260 an open call's tool is gone: a yes is 409 and runs nothing, a no is still a no", async () => {
    const waiting = await paused(`${SEND} & ping {}`);
    const { sessionId, runId } = waiting;
    await edit(waiting, "UPDATE effects SET data = json_set(data, '$.toolName', 'gone') WHERE position = 0");
    const before = await storedIn(sessionId);
    expect(await go(sessionId, runId, { answers: { c00: { confirmed: true } } })).toMatchObject({ ok: false, error: { code: "incompatible_tool", details: { tool_name: "gone" } } });
    expect(await storedIn(sessionId)).toEqual(before);
    const { record } = await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: false } } });
    expect(record.effects.map(({ status }) => status)).toEqual(["rejected", "done"]);
    expect(doneBy(runId, "confirm_send")).toEqual([]);
  });

  it("C036 the same where the decision was made before the tool went", async () => {
    for (const decision of ["approved", "rejected"] as const) {
      const waiting = await paused(CRM);
      const { sessionId, runId, approval } = waiting;
      await resolve(sessionId, approval.id, { decision });
      await edit(waiting, "UPDATE effects SET data = json_set(data, '$.toolName', 'gone')");
      if (decision === "approved") expect(codeOf(await go(sessionId, runId))).toBe("incompatible_tool");
      else await goUntil(sessionId, runId, "completed");
      expect(doneBy(runId)).toEqual([]);
    }
  });

  it("S260 an open call's tool takes its arguments no more: 409 that names the field, and a person may put others in their place", async () => {
    const waiting = await paused(SEND);
    const { sessionId, runId } = waiting;
    await edit(waiting, "UPDATE messages SET data = json_set(data, '$.toolCalls[0].arguments.to', 5) WHERE position = 1");
    expect(await go(sessionId, runId, { answers: { c00: { confirmed: true } } })).toMatchObject({ ok: false, error: { code: "incompatible_tool", details: { tool_name: "confirm_send", field: "to" } } });
    expect((await read(sessionId, runId)).record.status).toBe("paused");
    expect(doneBy(runId)).toEqual([]);
    await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true, arguments: { to: "grace" } } } });
    expect(doneBy(runId).map(({ args }) => args)).toEqual([{ to: "grace" }]);
  });

  it("another model is no matter, and the log says which it is now", async () => {
    const waiting = await paused(SEND);
    await edit(waiting, "UPDATE runs SET data = json_set(data, '$.model', 'older')");
    const { events } = await goUntil(waiting.sessionId, waiting.runId, "completed", { answers: { c00: { confirmed: true } } });
    expect(events.find((event) => event.type === "run.continued")).toMatchObject({ note: "The model is scripted:pauses now; before the pause it was scripted:older." });
  });
});

describe("decisions that race", () => {
  type Move = "yes" | "no" | "approve" | "edit" | "reject" | "cancel" | "go" | "drop";
  const moves: Record<Move, (waiting: Paused) => Promise<{ ok: boolean }>> = {
    yes: ({ sessionId, runId }) => go(sessionId, runId, { answers: { c00: { confirmed: true } } }),
    no: ({ sessionId, runId }) => go(sessionId, runId, { answers: { c00: { confirmed: false } } }),
    approve: ({ sessionId, approval }) => resolve(sessionId, approval.id, { by: "ann" }),
    edit: ({ sessionId, approval }) => resolve(sessionId, approval.id, { by: "eve", data: { edited_args: { id: 8 } } }),
    reject: ({ sessionId, approval }) => resolve(sessionId, approval.id, { decision: "rejected", by: "bob" }),
    drop: ({ sessionId, approval }) => drop(sessionId, approval.id),
    cancel: ({ sessionId, runId }) => cancel(sessionId, runId),
    go: ({ sessionId, runId }) => go(sessionId, runId),
  };
  const SLOW_SEND = 'checked_send {"to":"ada"}';
  const SLOW_CRM = 'checked_crm {"id":7}';
  const PAIRS: readonly (readonly [string, Move, Move])[] = [
    [SEND, "yes", "yes"],
    [SEND, "yes", "no"],
    [SEND, "no", "yes"],
    [SEND, "yes", "cancel"],
    [SEND, "cancel", "yes"],
    [CRM, "approve", "reject"],
    [CRM, "reject", "approve"],
    [CRM, "approve", "approve"],
    [CRM, "approve", "cancel"],
    [CRM, "cancel", "reject"],
    [CRM, "approve", "go"],
    [CRM, "yes", "approve"],
    [CRM, "yes", "reject"],
    // Tools whose schemas take their time.
    [SLOW_SEND, "yes", "no"],
    [SLOW_SEND, "yes", "yes"],
    [SLOW_SEND, "yes", "cancel"],
    [SLOW_CRM, "edit", "reject"],
    [SLOW_CRM, "edit", "edit"],
    [SLOW_CRM, "edit", "approve"],
    [SLOW_CRM, "edit", "cancel"],
    [SLOW_CRM, "edit", "drop"],
    [SLOW_CRM, "approve", "go"],
  ];

  it.each(Array.from({ length: 8 }, (_, part) => part))("C040 25 rounds: one decision wins, and everything tells its story (part %i)", async (part) => {
    for (let round = 0; round < 25; round += 1) {
      const [message, first, second] = PAIRS[(part * 25 + round) % PAIRS.length]!;
      const waiting = await paused(message);
      const { sessionId, runId } = waiting;
      const [a, b] = await Promise.all([moves[first](waiting), moves[second](waiting)]);
      const story = `${first} ${a.ok}, ${second} ${b.ok}`;
      const decisions = [
        [first, a],
        [second, b],
      ] as const;
      const won = decisions.filter(([move, { ok }]) => ok && !["cancel", "go", "drop"].includes(move)).map(([move]) => move);
      // The second of two alike may find the run under way as it wanted it; any other is refused.
      expect(won.length, story).toBeLessThanOrEqual(first === "yes" && second === "yes" ? 2 : 1);
      const isGated = message.includes("crm");
      if (isGated) expect(won, story).not.toContain("yes");

      const [approval] = await approvalsIn(sessionId, runId);
      const isDropped = isGated && approval === undefined;
      if (isDropped) {
        expect(codeOf(await go(sessionId, runId)), story).toBe("approval_pending");
        await cancel(sessionId, runId);
      } else if ((await read(sessionId, runId)).record.status === "paused" && approval !== undefined && approval.status !== "pending") await go(sessionId, runId);
      const { record } = await vi.waitFor(async () => {
        const reading = await read(sessionId, runId);
        expect(["completed", "cancelled"], story).toContain(reading.record.status);
        return reading;
      });
      const isYes = won[0] === "yes" || won[0] === "approve" || won[0] === "edit";
      const made = doneBy(runId);
      expect(made.length, story).toBeLessThanOrEqual(isYes && !isDropped ? 1 : 0);
      if (won[0] === "edit" || won[0] === "approve") expect(made.every(({ args }) => args.id === (won[0] === "edit" ? 8 : 7)), story).toBe(true);
      const [effect] = record.effects;
      const cancelled = isDropped || decisions.some(([move, { ok }]) => move === "cancel" && ok);
      if (record.status === "cancelled") expect(cancelled, story).toBe(true);
      else expect(effect?.status, story).toBe(isYes ? "done" : "rejected");
      if (effect?.status !== "done" && effect?.status !== "unknown") expect(made, story).toEqual([]);
      if (effect?.status === "done") expect(made, story).toHaveLength(1);
      if (approval !== undefined) {
        const [stored] = await approvalsIn(sessionId, runId);
        expect(stored?.status, story).toBe(won[0] === "approve" || won[0] === "edit" ? "approved" : won[0] === "reject" ? "rejected" : "cancelled");
        expect(stored?.runStatus, story).toBe(record.status);
      }
      const log = await logOf(sessionId, runId);
      expectSoundLog(log);
      // A call whose run was cancelled in the moment of its start may not have been made.
      expect(log.filter((event) => event.type === "tool-call.started").length, story).toBe(effect?.status === "unknown" ? 1 : made.length);
      expect(log.at(-1)?.type).toBe(`run.${record.status}`);
    }
  }, 240_000);
});

/** A continue of everything that is there, without an answer. */
async function commandOf(runId: string) {
  return { runId, newRunId: crypto.randomUUID(), access: ALL, continueFrom: "end", fork: false, regenerate: false, replaceOriginal: false, background: true, stream: false, onBusy: "reject", onDisconnect: "keep" } as const;
}
