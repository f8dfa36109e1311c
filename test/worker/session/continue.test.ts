import { describe, expect, it } from "vitest";
import { newId } from "../../../src/domain/ids.ts";
import { type Message } from "../../../src/domain/message.ts";
import { releaseGate } from "../../../src/models/scripted.ts";
import { crash, evict, fireAlarm, inObject, newSessionId, rowsIn } from "./harness.ts";
import { doneBy, flakyModel, pauseModel, world } from "./pause-agents.ts";
import { ALL, approvalsIn, begin, cancel, codeOf, type Continue, expectSoundLog, go, goUntil, logOf, object, openIn, paused, read, requestProblems, resolve, rowsOf, run, storedIn, textOf, until } from "./pause-harness.ts";

const SEND = 'confirm_send {"to":"ada"}';
const CRM = 'update_crm {"id":7}';

/** Requests that the model has had since this was called. */
function asked(model = pauseModel): () => (typeof pauseModel.requests)[number][] {
  const before = model.requests.length;
  return () => model.requests.slice(before);
}

const saidIn = (messages: readonly Message[], role: Message["role"]) => messages.filter((message) => message.role === role).map(({ content }) => content);

/** The history of a plain next turn. */
async function nextSees(sessionId: string): Promise<readonly Message[]> {
  const seen = asked();
  await run(sessionId, "next");
  expect(requestProblems(seen()[0]!)).toEqual([]);
  return seen()[0]!.messages;
}

describe("S238 continue, by what the run is and what is said", () => {
  const shapes: Record<string, Continue> = { empty: {}, input: { input: "more" }, answers: { answers: { c00: { confirmed: true } } }, branch: { fork: true } };

  it("paused: answers go on in place, anything else waits or branches", async () => {
    for (const [shape, code] of [["empty", "requirements_open"], ["input", "requirements_open"], ["answers", "ok"], ["branch", "ok"]] as const) {
      const { sessionId, runId } = await paused(SEND);
      const continued = await go(sessionId, runId, shapes[shape]);
      expect(codeOf(continued), shape).toBe(code);
      expect(continued.ok && continued.value.runId === runId, shape).toBe(shape === "answers");
    }
  });

  it("running: shown what comes; asked for anything else, told that it is under way", async () => {
    const sessionId = newSessionId();
    const runId = await begin(sessionId, "gate table-running");
    expect(await go(sessionId, runId)).toMatchObject({ ok: true, value: { runId, status: "running" } });
    for (const shape of ["input", "branch"] as const) expect(codeOf(await go(sessionId, runId, shapes[shape])), shape).toBe("run_not_continuable");
    expect(codeOf(await go(sessionId, runId, shapes.answers))).toBe("conflict");
    releaseGate("table-running");
    await until(sessionId, runId, "completed");
  });

  it("pending: the same, and it keeps its place", async () => {
    const sessionId = newSessionId();
    await begin(sessionId, "gate table-pending");
    const runId = await begin(sessionId, "waits", { onBusy: "enqueue" });
    expect(await go(sessionId, runId)).toMatchObject({ ok: true, value: { runId, status: "pending" } });
    expect(codeOf(await go(sessionId, runId, shapes.input))).toBe("run_not_continuable");
    releaseGate("table-pending");
    await until(sessionId, runId, "completed");
  });

  it("completed and failed: a sibling, with or without a message", async () => {
    for (const [message, status] of [["hello", "completed"], ["fail invalid_request", "failed"]] as const) {
      for (const shape of ["empty", "input", "branch"] as const) {
        const sessionId = newSessionId();
        const { record } = await run(sessionId, message, status);
        const continued = await go(sessionId, record.runId, shapes[shape]);
        expect(continued, `${status} ${shape}`).toMatchObject({ ok: true, value: { status: "running" } });
        expect(continued.ok && continued.value.runId).not.toBe(record.runId);
      }
    }
  });

  it("completed: what is said about its calls comes too late", async () => {
    const { sessionId, runId } = await paused(SEND);
    await goUntil(sessionId, runId, "completed", { answers: { c00: { confirmed: true } } });
    const before = await storedIn(sessionId);
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } } }))).toBe("run_not_continuable");
    for (const answers of [{ c00: { confirmed: false } }, { c99: { confirmed: true } }] as Record<string, object>[]) expect(codeOf(await go(sessionId, runId, { answers }))).toBe("conflict");
    expect(await storedIn(sessionId)).toEqual(before);
    // A client that sends its calls back with its next message has decided nothing anew.
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } }, input: "more" }))).toBe("ok");
  });

  it("cancelled and replaced: never", async () => {
    const sessionId = newSessionId();
    const cancelled = await begin(sessionId, "gate never-opened");
    await cancel(sessionId, cancelled);
    await until(sessionId, cancelled, "cancelled");
    const { record } = await run(sessionId, "hello");
    await goUntil(sessionId, record.runId, "completed", { regenerate: true, replaceOriginal: true });
    for (const runId of [cancelled, record.runId]) for (const shape of ["empty", "input", "branch"] as const) expect(codeOf(await go(sessionId, runId, shapes[shape])), shape).toBe("run_not_continuable");
  });

  it("S254 S255 unknown, another component's, another user's: not found, and nothing happens", async () => {
    const sessionId = newSessionId();
    const access = { rows: "user", userId: "alice" } as const;
    const { record } = await run(sessionId, SEND, "paused", { userId: "alice", access });
    const answers = { c00: { confirmed: true } };
    expect(codeOf(await go(sessionId, newId(), { answers }))).toBe("not_found");
    expect(codeOf(await go(newSessionId(), record.runId, { answers }))).toBe("not_found");
    expect(codeOf(await go(sessionId, record.runId, { answers, component: { kind: "agent", id: "words" } }))).toBe("not_found");
    expect(codeOf(await go(sessionId, record.runId, { answers, access: { rows: "user", userId: "mallory" } }))).toBe("not_found");
    expect(doneBy(record.runId)).toEqual([]);
    expect(codeOf(await go(sessionId, record.runId, { answers, access }))).toBe("ok");
  });

  it("of a session that nobody began makes no tables", async () => {
    const sessionId = newSessionId();
    expect(codeOf(await go(sessionId, newId()))).toBe("not_found");
    expect(await inObject(sessionId, (state) => state.storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray())).toEqual([]);
  });
});

describe("a continue that comes twice", () => {
  it("attaches or is refused, and the tool runs once", async () => {
    for (let round = 0; round < 10; round += 1) {
      const { sessionId, runId } = await paused(`${SEND} > gate twice-${round}`);
      const answers = { c00: { confirmed: true } };
      const both = await Promise.all([go(sessionId, runId, { answers }), go(sessionId, runId, { answers })]);
      expect(both[0]).toMatchObject({ ok: true, value: { runId } });
      expect(["ok", "run_not_continuable"]).toContain(codeOf(both[1]));
      // The same again while it runs is shown what comes; something else is not.
      expect(await go(sessionId, runId, { answers })).toMatchObject({ ok: true, value: { runId, status: "running" } });
      expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: false } } }))).toBe("conflict");
      releaseGate(`twice-${round}`);
      await until(sessionId, runId, "completed");
      expect(doneBy(runId)).toHaveLength(1);
    }
  });

  it("with the same new id makes one sibling", async () => {
    const sessionId = newSessionId();
    const { record } = await run(sessionId, "hello");
    const newRunId = newId();
    const [first, second] = await Promise.all([go(sessionId, record.runId, { newRunId, input: "more" }), go(sessionId, record.runId, { newRunId, input: "more", onBusy: "enqueue" })]);
    expect([first, second]).toMatchObject([{ ok: true, value: { runId: newRunId } }, { ok: true, value: { runId: newRunId } }]);
    await until(sessionId, newRunId, "completed");
    expect(codeOf(await go(sessionId, record.runId, { newRunId, input: "more" }))).toBe("ok");
    expect(await rowsIn(sessionId, "runs")).toHaveLength(2);
  });
});

describe("a continue of a session that is busy", () => {
  it("C026 is refused before anything changes, unless it may wait", async () => {
    const { sessionId, runId } = await paused(SEND);
    const done = await run(sessionId, "done");
    const holder = await begin(sessionId, "gate busy");
    const before = await storedIn(sessionId);
    for (const [id, options] of [[runId, { answers: { c00: { confirmed: true } } }], [runId, { fork: true }], [done.record.runId, { input: "more" }], [done.record.runId, { regenerate: true, replaceOriginal: true }]] as const) {
      expect(await go(sessionId, id, options as Continue)).toMatchObject({ ok: false, error: { code: "session_busy", details: { run_id: holder } } });
    }
    expect(await storedIn(sessionId)).toEqual(before);
    expect(await go(sessionId, runId, { answers: { c00: { confirmed: true } }, onBusy: "enqueue" })).toMatchObject({ ok: true, value: { status: "pending" } });
    expect((await read(sessionId, runId)).record.effects[0]?.requirement?.resolution).toMatchObject({ confirmed: true });
    const sibling = await go(sessionId, done.record.runId, { input: "more", onBusy: "enqueue" });
    expect(sibling).toMatchObject({ ok: true, value: { status: "pending" } });
    expect(doneBy(runId)).toEqual([]);
    releaseGate("busy");
    await until(sessionId, holder, "completed");
    await until(sessionId, runId, "completed");
    if (sibling.ok) await until(sessionId, sibling.value.runId, "completed");
    expect(doneBy(runId)).toHaveLength(1);
    expectSoundLog(await logOf(sessionId, runId));
  });

  it("may go to the front: the holder is cancelled, and what was said goes on", async () => {
    const { sessionId, runId } = await paused(SEND);
    const holder = await begin(sessionId, "gate interrupted");
    const waiting = await begin(sessionId, "waits", { onBusy: "enqueue" });
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } }, onBusy: "interrupt" }))).toBe("ok");
    const { record } = await until(sessionId, runId, "completed");
    expect((await until(sessionId, holder, "cancelled")).record.cancelReason).toContain(runId);
    const second = await until(sessionId, waiting, "completed");
    expect(second.record.startedAt).toBeGreaterThanOrEqual(record.endedAt!);
  });

  it("that waits in line loses nothing to an eviction: the log goes on without a hole", async () => {
    const { sessionId, runId } = await paused(SEND);
    const holder = await begin(sessionId, "gate line-evicted");
    await go(sessionId, runId, { answers: { c00: { confirmed: true } }, onBusy: "enqueue" });
    await crash();
    releaseGate("line-evicted");
    await fireAlarm(sessionId);
    await until(sessionId, holder, "completed");
    await until(sessionId, runId, "completed");
    const log = await logOf(sessionId, runId);
    expectSoundLog(log);
    // Nothing of it was lost, so no index is declared lost either.
    expect(log.map(({ index }) => index)).toEqual(log.map((_, place) => place));
    expect(doneBy(runId)).toHaveLength(1);
  });

  it("that waits in line can be cancelled, and then makes nothing", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    await resolve(sessionId, approval.id);
    const holder = await begin(sessionId, "gate line-cancelled");
    await go(sessionId, runId, { onBusy: "enqueue" });
    await cancel(sessionId, runId);
    releaseGate("line-cancelled");
    await until(sessionId, holder, "completed");
    const { record } = await until(sessionId, runId, "cancelled");
    expect(record.effects.map(({ status }) => status)).toEqual(["skipped"]);
    expect((await approvalsIn(sessionId, runId))[0]).toMatchObject({ status: "approved", runStatus: "cancelled" });
    expect(doneBy(runId)).toEqual([]);
    expectSoundLog(await logOf(sessionId, runId));
  });

  it("is refused where too many wait already", async () => {
    const { sessionId, runId } = await paused(SEND);
    await begin(sessionId, "gate full");
    await Promise.all(Array.from({ length: 100 }, (_, index) => begin(sessionId, `w${index}`, { onBusy: "enqueue" })));
    const before = (await rowsIn(sessionId, "runs")).length;
    expect(codeOf(await go(sessionId, runId, { answers: { c00: { confirmed: true } }, onBusy: "enqueue" }))).toBe("queue_full");
    expect((await rowsIn(sessionId, "runs")).length).toBe(before);
    expect((await read(sessionId, runId)).record.status).toBe("paused");
    await object(sessionId).deleteSession({ access: ALL });
  });
});

describe("a run that was lost while it ran", () => {
  it("S241 goes on in place, from what is stored, whoever asks", async () => {
    const sessionId = newSessionId();
    const runId = await begin(sessionId, 'charge {"amount":1} > charge {"amount":2} > gate lost');
    await until(sessionId, runId, "running");
    await expect.poll(() => doneBy(runId).length, { timeout: 10_000 }).toBe(2);
    await crash();
    expect(await go(sessionId, runId)).toMatchObject({ ok: true, value: { runId, status: "running" } });
    releaseGate("lost");
    await until(sessionId, runId, "completed");
    expect(doneBy(runId)).toHaveLength(2);
    expectSoundLog(await logOf(sessionId, runId));
  });
});

describe("what goes on from a run that has ended", () => {
  it("S27 S88 S89 S242 is a sibling with an id, a log and costs of its own; the source is byte by byte as before", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, 'I will. & charge {"amount":7} > It is charged.');
    const before = await rowsOf(sessionId, source.record.runId);
    const siblings = [await goUntil(sessionId, source.record.runId, "completed", { input: "more" }), await goUntil(sessionId, source.record.runId, "completed", { input: "and more" })];
    expect(await rowsOf(sessionId, source.record.runId)).toEqual(before);
    await evict(sessionId);
    expect(await read(sessionId, source.record.runId)).toEqual(source);
    const [first] = siblings as [(typeof siblings)[0], (typeof siblings)[0]];
    expect(new Set([source, ...siblings].map(({ record }) => record.runId)).size).toBe(3);
    for (const [place, { record }] of siblings.entries()) {
      expect(record).toMatchObject({ forkedFromRunId: source.record.runId, forkedFromMessageIndex: 4, status: "completed", content: place === 0 ? "more" : "and more", metrics: { modelCalls: 1 } });
      expect(record.metrics.usage.outputTokens).toBeLessThan(source.record.metrics.usage.outputTokens);
      expect(record.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "assistant", "user", "assistant"]);
      // The finished call answers from its row.
      expect(record.effects).toMatchObject([{ callId: "c01", status: "done", result: "charge receipt" }]);
      const log = await logOf(sessionId, record.runId);
      expectSoundLog(log);
      expect(log[0]).toMatchObject({ index: 0, type: "run.started" });
      expect(textOf(log)).toBe(record.content);
      expect(log.filter((event) => event.type.startsWith("tool-call"))).toEqual([]);
    }
    expect(doneBy(source.record.runId)).toHaveLength(1);
    expect(siblings.flatMap(({ record }) => doneBy(record.runId))).toEqual([]);
    // A sibling can be gone on from like any other.
    const third = await goUntil(sessionId, first.record.runId, "completed", { input: "still more" });
    expect(third.record).toMatchObject({ forkedFromRunId: first.record.runId, content: "still more" });
    expect(saidIn(third.record.messages, "user")).toEqual(['I will. & charge {"amount":7} > It is charged.', "more", "still more"]);
  });

  it("S241 C045 keeps what a failed run had done: its steps are not made again, and the model's own error is where it goes on", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, 'charge {"amount":1} > charge {"amount":2} > fail invalid_request', "failed");
    const seen = asked();
    const { record } = await goUntil(sessionId, source.record.runId, "failed");
    expect(seen()).toHaveLength(1);
    expect(seen()[0]!.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "assistant", "tool"]);
    expect(record.forkedFromRunId).toBe(source.record.runId);
    expect([...doneBy(source.record.runId), ...doneBy(record.runId)]).toHaveLength(2);
  });

  it("leaves out half a sentence that a failure cut off", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "Half a & fail invalid_request", "failed");
    expect(source.record.messages.at(-1)).toMatchObject({ content: "Half a", partial: true });
    const seen = asked();
    await goUntil(sessionId, source.record.runId, "failed");
    expect(seen()[0]!.messages.map((message) => message.role)).toEqual(["user"]);
  });

  it("after an answer without a word from anyone is asked to continue", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "hello");
    const { record } = await goUntil(sessionId, source.record.runId, "completed");
    expect(record.messages.map((message) => message.content)).toEqual(["hello", "hello", "Continue.", "Continue."]);
    const byTool = await run(sessionId, "answer {}");
    expect(byTool.record).toMatchObject({ content: "answer receipt", metrics: { modelCalls: 1 } });
    const after = await goUntil(sessionId, byTool.record.runId, "completed", { input: "and then?" });
    expect(after.record).toMatchObject({ content: "and then?", metrics: { modelCalls: 1 } });
    expect(textOf(await logOf(sessionId, after.record.runId))).toBe("and then?");
  });

  it("does not send the source's state a second time", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "hello", "completed", { input: { message: "hello", sessionState: { visits: 1 } } });
    await object(sessionId).patchSession({ access: ALL, state: { visits: 2 } });
    await goUntil(sessionId, source.record.runId, "completed", { input: "more" });
    const session = await object(sessionId).readSession({ access: ALL });
    expect(session.ok && session.value.state).toEqual({ visits: 2 });
  });

  it("a crash in it loses nothing: it goes on in place, and its log is whole", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, 'charge {"amount":1} > done');
    const continued = await go(sessionId, source.record.runId, { input: 'charge {"amount":2} > gate branch-lost' });
    const runId = continued.ok ? continued.value.runId : "";
    await expect.poll(() => doneBy(runId).length, { timeout: 10_000 }).toBe(1);
    await crash();
    releaseGate("branch-lost");
    await fireAlarm(sessionId);
    const { record } = await until(sessionId, runId, "completed");
    expect(record.effects.map(({ status, arguments: args }) => [status, args])).toEqual([["done", { amount: 1 }], ["done", { amount: 2 }]]);
    expect(doneBy(runId)).toHaveLength(1);
    expectSoundLog(await logOf(sessionId, runId));
  });
});

describe("a place to go on from", () => {
  /** Two calls side by side, then one, then the answer: seven messages. */
  const SOURCE = 'charge {"amount":1} & charge {"amount":2} > charge {"amount":3} > done';
  /** What is kept of them at each index: no reply is parted from its results. */
  const KEPT = [0, 1, 1, 4, 4, 4, 6, 7];

  it("S243 S352 C042 may be any index: the model sees a valid history, nothing is done again, and the source is as before", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, SOURCE);
    expect(source.record.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]);
    const before = await rowsOf(sessionId, source.record.runId);
    const made = world.length;
    for (const [index, kept] of KEPT.entries()) {
      const seen = asked();
      const { record } = await goUntil(sessionId, source.record.runId, "completed", { continueFrom: index, fork: true, input: "go on" });
      expect(record.forkedFromMessageIndex, `from ${index}`).toBe(kept);
      expect(seen().flatMap(requestProblems)).toEqual([]);
      expect(seen()[0]!.messages.slice(0, kept).map(({ content }) => content)).toEqual(source.record.messages.slice(0, kept).map(({ content }) => content));
      expect(saidIn(record.messages, "user")).toEqual(kept === 0 ? ["go on"] : [SOURCE, "go on"]);
      expect(record.effects.map(({ status }) => status)).toEqual(Array.from({ length: kept < 4 ? 0 : kept < 6 ? 2 : 3 }, () => "done"));
      expect(await rowsOf(sessionId, source.record.runId)).toEqual(before);
    }
    expect(world.length).toBe(made);
  });

  it("S243 C042 is refused where there is none, and nothing has changed", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, SOURCE);
    const before = await storedIn(sessionId);
    for (const continueFrom of [8, 99, -1, 1.5, Number.NaN]) expect(await go(sessionId, source.record.runId, { continueFrom, fork: true, input: "x" })).toMatchObject({ ok: false, error: { code: "invalid_request", message: expect.stringContaining("from 0 to 7") } });
    expect(codeOf(await go(sessionId, source.record.runId, { continueFrom: 0 }))).toBe("invalid_request");
    expect(await storedIn(sessionId)).toEqual(before);
  });

  it("S243 last_user asks the question again, end keeps everything", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "hello");
    const again = await goUntil(sessionId, source.record.runId, "completed", { continueFrom: "last_user" });
    expect(again.record).toMatchObject({ forkedFromMessageIndex: 1, content: "hello" });
    expect(saidIn(again.record.messages, "user")).toEqual(["hello"]);
    const more = await goUntil(sessionId, again.record.runId, "completed", { continueFrom: "end", input: "more" });
    const last = await goUntil(sessionId, more.record.runId, "completed", { continueFrom: "last_user" });
    expect(saidIn(last.record.messages, "user")).toEqual(["hello", "more"]);
  });

  it("C042 of a failed run stands behind all that it has, half a sentence left out", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, 'charge {"amount":1} > Half a & fail invalid_request', "failed");
    for (const [index, kept] of [[3, 3], [2, 1], [1, 1]] as const) {
      const continued = await goUntil(sessionId, source.record.runId, "failed", { continueFrom: index, input: "fail invalid_request" });
      expect(continued.record.forkedFromMessageIndex).toBe(kept);
    }
    expect(codeOf(await go(sessionId, source.record.runId, { continueFrom: 4 }))).toBe("invalid_request");
  });
});

describe("a fork of a run that waits", () => {
  it("S244 S364 waits itself, with an approval of its own; the source waits on, and each is decided alone", async () => {
    const { sessionId, runId, approval } = await paused(`${CRM} & charge {"amount":1}`);
    await resolve(sessionId, approval.id);
    const before = await rowsOf(sessionId, runId);
    const fork = await goUntil(sessionId, runId, "paused", { fork: true });
    const [own] = await approvalsIn(sessionId, fork.record.runId);
    expect(own).toMatchObject({ status: "pending", runId: fork.record.runId });
    expect(own!.id).not.toBe(approval.id);
    expect(fork.record.effects).toMatchObject([{ status: "planned", requirement: { approvalId: own!.id } }, { status: "done", result: "charge receipt" }]);
    expect(fork.record.effects[0]?.requirement).not.toHaveProperty("resolution");
    expect(await rowsOf(sessionId, runId)).toEqual(before);
    expect(codeOf(await go(sessionId, fork.record.runId))).toBe("approval_pending");

    await resolve(sessionId, own!.id, { decision: "rejected" });
    await goUntil(sessionId, fork.record.runId, "completed");
    await goUntil(sessionId, runId, "completed");
    expect(doneBy(runId).map(({ tool }) => tool).sort()).toEqual(["charge", "update_crm"]);
    expect(doneBy(fork.record.runId)).toEqual([]);
  });

  it("C044 from before the question asks it anew; the lines stay apart, and nothing is said twice", async () => {
    const sessionId = newSessionId();
    const { runId, approval } = await paused(`${CRM} > all done`, { sessionId });
    await resolve(sessionId, approval.id);
    const original = await goUntil(sessionId, runId, "completed");
    const before = await rowsOf(sessionId, runId);
    const forks = [await goUntil(sessionId, runId, "paused", { continueFrom: 1, fork: true }), await goUntil(sessionId, runId, "paused", { continueFrom: 1, fork: true })] as const;
    const approvals = await Promise.all(forks.map(async ({ record }) => (await approvalsIn(sessionId, record.runId))[0]!));
    expect(approvals.map(({ status }) => status)).toEqual(["pending", "pending"]);
    expect(new Set([approval.id, ...approvals.map(({ id }) => id)]).size).toBe(3);
    await resolve(sessionId, approvals[0]!.id);
    await resolve(sessionId, approvals[1]!.id, { decision: "rejected" });
    for (const { record } of forks) await goUntil(sessionId, record.runId, "completed");
    expect([runId, ...forks.map(({ record }) => record.runId)].map((id) => doneBy(id).length)).toEqual([1, 1, 0]);
    expect(await rowsOf(sessionId, runId)).toEqual(before);
    expect((await read(sessionId, runId)).record.messages).toEqual(original.record.messages);

    // One more turn in each line sees its own line alone.
    for (const [id, told] of [[runId, "update_crm receipt"], [forks[0].record.runId, "update_crm receipt"], [forks[1].record.runId, "The call was rejected"]] as const) {
      const seen = asked();
      await goUntil(sessionId, id, "completed", { input: "one more" });
      const [request] = seen();
      expect(requestProblems(request!)).toEqual([]);
      expect(saidIn(request!.messages, "user")).toEqual([`${CRM} > all done`, "one more"]);
      expect(saidIn(request!.messages, "tool")).toEqual([expect.stringContaining(told)]);
    }
    // A plain turn goes on with the newest line, and with each of its messages once.
    expect(saidIn(await nextSees(sessionId), "user")).toEqual([`${CRM} > all done`, "one more", "next"]);
  });

  it("P4 asks anew about a call that may have happened, under the key that it was made with", async () => {
    const { sessionId, runId } = await paused('no_answer {"amount":9}');
    const fork = await goUntil(sessionId, runId, "paused", { fork: true });
    expect(openIn(fork.record.effects)).toEqual({ c00: "unknown_outcome" });
    expect(world.filter(({ key }) => key.startsWith(runId) || key.startsWith(fork.record.runId))).toHaveLength(1);
    const source = (await read(sessionId, runId)).record.effects[0]!.requirement!.id;
    expect(fork.record.effects[0]!.requirement!.id).not.toBe(source);
    await goUntil(sessionId, fork.record.runId, "paused", { answers: { c00: { outcome: "run" } } });
    expect(doneBy(runId).map(({ key }) => key)).toEqual([`${runId}:0:0`, `${runId}:0:0`]);
    await goUntil(sessionId, runId, "completed", { answers: { c00: { outcome: "skip" } } });
  });

  it("of a deleted approval is asked about anew; the source stays blocked", async () => {
    const { sessionId, runId, approval } = await paused(CRM);
    await object(sessionId).deleteApproval({ approvalId: approval.id, access: ALL });
    const fork = await goUntil(sessionId, runId, "paused", { fork: true });
    const [own] = await approvalsIn(sessionId, fork.record.runId);
    await resolve(sessionId, own!.id);
    await goUntil(sessionId, fork.record.runId, "completed");
    expect([doneBy(runId).length, doneBy(fork.record.runId).length]).toEqual([0, 1]);
    expect(codeOf(await go(sessionId, runId))).toBe("approval_pending");
  });
});

describe("an answer that is given anew", () => {
  it("S245 drops the last words and repeats no call", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, 'charge {"amount":7} > first answer');
    const seen = asked();
    const { record } = await goUntil(sessionId, source.record.runId, "completed", { regenerate: true, replaceOriginal: true });
    expect(record).toMatchObject({ regeneratedFrom: source.record.runId, forkedFromRunId: source.record.runId, forkedFromMessageIndex: 3, content: "first answer", metrics: { modelCalls: 1 } });
    expect(seen()[0]!.messages.map((message) => message.role)).toEqual(["user", "assistant", "tool"]);
    expect([doneBy(source.record.runId).length, doneBy(record.runId).length]).toEqual([1, 0]);
  });

  it("S246 hides the one that it replaces, which is otherwise as it was", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "hello");
    const { record } = await goUntil(sessionId, source.record.runId, "completed", { regenerate: true, replaceOriginal: true });
    const replaced = await read(sessionId, source.record.runId);
    expect(replaced).toEqual({ ...source, record: { ...source.record, status: "regenerated", version: source.record.version + 1 } });
    expect((await nextSees(sessionId)).map(({ content }) => content)).toEqual(["hello", "hello", "next"]);
    expect(record.status).toBe("completed");
  });

  it("S246 leaves the other where both are to stay", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "hello");
    const { record } = await goUntil(sessionId, source.record.runId, "completed", { regenerate: true, replaceOriginal: false });
    expect((await read(sessionId, source.record.runId)).record.status).toBe("completed");
    expect(record.regeneratedFrom).toBe(source.record.runId);
    expect((await nextSees(sessionId)).map(({ content }) => content)).toEqual(["hello", "hello", "hello", "hello", "next"]);
  });

  it("is refused without a trace where the session is busy or the version is gone", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "hello");
    await inObject(sessionId, (state) => void state.storage.sql.exec("UPDATE runs SET data = json_set(data, '$.component.version', '2')"));
    await evict(sessionId);
    expect(codeOf(await go(sessionId, source.record.runId, { regenerate: true, replaceOriginal: true }))).toBe("version_unavailable");
    expect((await read(sessionId, source.record.runId)).record.status).toBe("completed");
  });
});

describe("history after branches", () => {
  it("holds no message twice, whatever was gone on from", async () => {
    const sessionId = newSessionId();
    const a = await run(sessionId, "a");
    await run(sessionId, "b");
    const a2 = await goUntil(sessionId, a.record.runId, "completed", { input: "a2" });
    expect(saidIn(await nextSees(sessionId), "user")).toEqual(["b", "a", "a2", "next"]);
    const seen = asked();
    const a3 = await goUntil(sessionId, a2.record.runId, "completed", { input: "a3" });
    // A branch sees what stood before its source, and nothing that came after it.
    expect(saidIn(seen()[0]!.messages, "user")).toEqual(["a", "a2", "a3"]);
    await goUntil(sessionId, a.record.runId, "completed", { input: "other", continueFrom: "end" });
    expect(saidIn(await nextSees(sessionId), "user")).toEqual(["b", "next", "a", "other", "next"]);
    expect(a3.record.messages.length).toBe(6);
  });

  it("shows the source where what goes on from it has come to nothing", async () => {
    const sessionId = newSessionId();
    const source = await run(sessionId, "a");
    const failed = await goUntil(sessionId, source.record.runId, "failed", { input: "fail invalid_request" });
    expect(failed.record.forkedFromRunId).toBe(source.record.runId);
    const { runId } = await paused(SEND, { sessionId });
    await goUntil(sessionId, source.record.runId, "paused", { input: SEND });
    expect(saidIn(await nextSees(sessionId), "user")).toEqual(["a", "next"]);
    await cancel(sessionId, runId);
  });

  it("S366 a copy of the session has the same lines, under ids of its own", async () => {
    const sessionId = newSessionId();
    const a = await run(sessionId, "a");
    await run(sessionId, "b");
    await goUntil(sessionId, a.record.runId, "completed", { input: "a2" });
    await paused(SEND, { sessionId });
    const source = await object(sessionId).readSession({ access: ALL });
    const runs = await object(sessionId).readRuns({ access: ALL });
    if (!source.ok || !runs.ok) throw new Error("The session can not be read.");
    const copyId = newSessionId();
    const runIds = runs.value.map(() => newId());
    const command = { sessionId: copyId, access: ALL, source: source.value, runs: runs.value, runIds };
    expect(codeOf(await object(copyId).importSession(command))).toBe("ok");
    expect(codeOf(await object(copyId).importSession(command))).toBe("ok");
    const copies = await object(copyId).readRuns({ access: ALL });
    // What is not over stays where it is.
    expect(copies.ok && copies.value.map(({ record }) => [record.runId, record.status, record.forkedFromRunId, record.forkedFromSessionId])).toEqual([
      [runIds[0], "completed", undefined, sessionId],
      [runIds[1], "completed", undefined, sessionId],
      [runIds[2], "completed", runIds[0], sessionId],
    ]);
    expect(saidIn(await nextSees(copyId), "user")).toEqual(["b", "a", "a2", "next"]);
    const seen = asked();
    await goUntil(copyId, runIds[2] as string, "completed", { input: "a3" });
    expect(saidIn(seen()[0]!.messages, "user")).toEqual(["a", "a2", "a3"]);
    expect((await object(sessionId).readRuns({ access: ALL })).ok && (await read(sessionId, a.record.runId))).toEqual(a);
  });
});

describe("C045 a provider that fails after a call has succeeded", () => {
  it("is asked again for the failed step alone: the call is made once, and what was said twice counts once", async () => {
    const sessionId = newSessionId();
    const seen = asked(flakyModel);
    const { record } = await run(sessionId, `1 ${sessionId}`, "completed", { agent: "flaky" });
    expect(record.content).toBe("charged: charge receipt");
    expect(doneBy(record.runId)).toHaveLength(1);
    expect(seen()).toHaveLength(3);
    expect(seen()[2]!.messages).toEqual(seen()[1]!.messages);
    expect(saidIn(seen()[2]!.messages, "user")).toHaveLength(1);
    const log = await logOf(sessionId, record.runId);
    expectSoundLog(log);
    expect(textOf(log)).toBe(record.content);
    expect(log.filter((event) => event.type === "tool-call.started")).toHaveLength(1);
  });

  it("for good ends the run with the result kept, from which it can be gone on", async () => {
    const sessionId = newSessionId();
    const { record } = await run(sessionId, `3 ${sessionId}`, "failed", { agent: "flaky" });
    expect(record.effects).toMatchObject([{ status: "done", result: "charge receipt" }]);
    const sibling = await goUntil(sessionId, record.runId, "completed");
    expect(sibling.record.content).toBe("charged: charge receipt");
    expect([...doneBy(record.runId), ...doneBy(sibling.record.runId)]).toHaveLength(1);
  });
});
