import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { newId } from "../../../src/domain/ids.ts";
import type { Access } from "../../../src/domain/principal.ts";
import type { Projection } from "../../../src/domain/projection.ts";
import { applyProjections } from "../../../src/storage/apply-projection.ts";
import { isRefusal, ProjectionRefused } from "../../../src/storage/refusal.ts";
import type { ListApprovals } from "../../../src/storage/repositories/approvals.ts";
import { makeRepositories } from "../../../src/storage/repositories/index.ts";
import { restoreSession } from "../../../src/storage/restore-session.ts";
import { anApproval, approvalTold, aSession, decided, metered, sessionTold } from "./rows.ts";

const ALL: Access = { rows: "all" };
const user = (userId: string): Access => ({ rows: "user", userId });

const bindings = { DB: env.DB, MEDIA: env.MEDIA };
const see = (access: Access) => makeRepositories(bindings, access).approvals;
const apply = (...entries: Projection[]) => applyProjections(env.DB, env.MEDIA, entries);

const list = async (access: Access, query: Partial<ListApprovals> = {}) => (await see(access).list({ page: 1, limit: 100, ...query })).items.map(({ id }) => id);

/** Ids as they are minted one after the other, the newest first. */
const newestFirst = (...ids: string[]) => ids.toSorted().toReversed();

afterEach(() => vi.restoreAllMocks());

describe("approvals", () => {
  it("are given back as they were told", async () => {
    const approval = decided(anApproval({ resolutionData: { note: "fine" }, votes: [{ by: "root", decision: "approved", at: 5 }], expiresAt: 9_000, onExpiry: "cancel", scheduleId: "s1", scheduleRunId: "sr1" }));
    await apply(approvalTold(approval));
    expect(await see(ALL).find(approval.id)).toEqual(approval);
  });

  it("are their requester's; others do not see them, and who may see all does", async () => {
    const mine = anApproval({ userId: "olga" });
    const theirs = anApproval({ userId: "otto" });
    const nobodys = anApproval({ userId: undefined });
    await apply(...[mine, theirs, nobodys].map((approval) => approvalTold(approval)));
    expect(await list(user("olga"))).toEqual([mine.id]);
    // Asking for someone else's adds a condition, and takes none away.
    expect(await list(user("olga"), { userId: "otto" })).toEqual([]);
    expect(await see(user("olga")).countPending("otto")).toBe(0);
    expect(await see(user("olga")).countPending()).toBe(1);
    expect(await see(user("olga")).find(theirs.id)).toBeUndefined();
    expect(await see(user("")).find(nobodys.id)).toBeUndefined();
    expect(await see(ALL).find(nobodys.id)).toEqual(nobodys);
    expect(await list(ALL)).toEqual(expect.arrayContaining([mine.id, theirs.id, nobodys.id]));
    expect(await see(ALL).countPending("otto")).toBe(1);
  });

  it("are found by each filter, and by several at once", async () => {
    const of = { userId: "fred", runId: newId() };
    const agents = anApproval(of);
    const teams = anApproval({ ...of, component: { kind: "team", id: "support", name: "Support", version: "1" }, pauseType: "user_input" });
    const workflows = anApproval({ ...of, component: { kind: "workflow", id: "nightly", name: "Nightly", version: "1" }, pauseType: "external_execution", scheduleId: "daily", runId: newId() });
    const audit = decided(anApproval({ ...of, type: "audit" }), "rejected");
    await apply(...[agents, teams, workflows, audit].map((approval) => approvalTold(approval)));
    const all = newestFirst(agents.id, teams.id, workflows.id, audit.id);
    const fred = user("fred");
    expect(await list(fred)).toEqual(all);
    expect(await list(ALL, { userId: "fred" })).toEqual(all);
    expect(await list(fred, { status: "pending" })).toEqual(newestFirst(agents.id, teams.id, workflows.id));
    expect(await list(fred, { status: "rejected" })).toEqual([audit.id]);
    expect(await list(fred, { status: "expired" })).toEqual([]);
    expect(await list(fred, { sourceType: "team" })).toEqual([teams.id]);
    expect(await list(fred, { type: "audit" })).toEqual([audit.id]);
    expect(await list(fred, { pauseType: "user_input" })).toEqual([teams.id]);
    expect(await list(fred, { scheduleId: "daily" })).toEqual([workflows.id]);
    expect(await list(fred, { runId: of.runId })).toEqual(newestFirst(agents.id, teams.id, audit.id));
    expect(await list(fred, { components: [{ kind: "agent", id: "support" }] })).toEqual(newestFirst(agents.id, audit.id));
    expect(await list(fred, { components: [{ kind: "agent", id: "support" }], status: "pending", runId: of.runId })).toEqual([agents.id]);
    expect(await list(fred, { components: [{ kind: "agent", id: "support" }, { kind: "team", id: "support" }] })).toEqual([]);
  });

  it("C119 are paged newest first without a gap", async () => {
    const told = Array.from({ length: 7 }, () => anApproval({ userId: "paula" }));
    await apply(...told.toReversed().map((approval) => approvalTold(approval)));
    const ids = newestFirst(...told.map(({ id }) => id));
    const paged = [...(await list(user("paula"), { limit: 3 })), ...(await list(user("paula"), { limit: 3, page: 2 })), ...(await list(user("paula"), { limit: 3, page: 3 }))];
    expect(paged).toEqual(ids);
    expect(await see(user("paula")).list({ page: 2, limit: 3 })).toMatchObject({ page: 2, limit: 3, total: 7 });
    expect(await see(user("paula")).list({ page: 9, limit: 3 })).toMatchObject({ items: [], total: 7 });
  });

  it("are counted while they are pending", async () => {
    const approval = anApproval({ userId: "cora" });
    expect(await see(user("cora")).countPending()).toBe(0);
    await apply(approvalTold(approval));
    expect(await see(user("cora")).countPending()).toBe(1);
    await apply(approvalTold(decided(approval)));
    expect(await see(user("cora")).countPending()).toBe(0);
    expect(await see(ALL).countPending("cora")).toBe(0);
  });

  it("take the newer version alone, in whatever order versions come", async () => {
    const approval = anApproval();
    const votes = { ...approval, version: 2, votes: [{ by: "ann", decision: "approved" as const, at: 1 }] };
    const final = decided(votes);
    for (const order of [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]) {
      await env.DB.prepare("DELETE FROM approvals").run();
      for (const index of order) await apply(approvalTold([approval, votes, final][index]!));
      expect(await see(ALL).find(approval.id), order.join()).toEqual(final);
      expect(await list(ALL, { status: "approved" }), order.join()).toEqual([approval.id]);
    }
  });

  it("that were deleted do not come back, even if the delete is what arrives first", async () => {
    const approval = anApproval();
    const gone: Projection = { kind: "approval-deleted", sessionId: approval.sessionId, approvalId: approval.id };
    await apply(gone);
    await apply(approvalTold(approval), approvalTold(decided(approval)));
    await apply(gone);
    expect(await see(ALL).find(approval.id)).toBeUndefined();
    expect(await see(ALL).countPending("alice")).toBe(0);
  });

  it("go with their session, up to the version that was deleted", async () => {
    const session = aSession();
    const earlier = anApproval({ sessionId: session.sessionId });
    const later = anApproval({ sessionId: session.sessionId });
    await apply(sessionTold(session), approvalTold(earlier, 4), approvalTold(later, 6));
    await apply({ kind: "session-deleted", sessionId: session.sessionId, version: 5, at: 0 });
    expect(await see(ALL).find(earlier.id)).toBeUndefined();
    expect(await see(ALL).find(later.id)).toEqual(later);
    // Late, and under the tombstone.
    await apply(approvalTold(decided(earlier), 5));
    expect(await see(ALL).find(earlier.id)).toBeUndefined();
  });

  it("are part of what an empty object is filled with, oldest first, and their versions count", async () => {
    const session = aSession({ version: 3 });
    const told = [anApproval({ sessionId: session.sessionId }), anApproval({ sessionId: session.sessionId })].sort((a, b) => (a.id < b.id ? -1 : 1));
    await apply(sessionTold(session), approvalTold(told[1]!, 7), approvalTold(told[0]!, 4));
    expect(await restoreSession(bindings, session.sessionId)).toMatchObject({ session, highestVersion: 7, approvals: told });
    const alone = anApproval();
    await apply(approvalTold(alone, 2));
    expect(await restoreSession(bindings, alone.sessionId)).toMatchObject({ session: undefined, highestVersion: 2, approvals: [alone] });
  });

  it("that can not be read are left out of lists and logged by id; read alone they are named", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const [broken, newer, sound] = [1, 2, 3].map(() => anApproval({ userId: "ugo" }));
    await apply(...[broken, newer, sound].map((approval) => approvalTold(approval!)));
    await env.DB.prepare("UPDATE approvals SET document = 'not json' WHERE approval_id = ?").bind(broken!.id).run();
    await env.DB.prepare("UPDATE approvals SET document = json_set(document, '$.status', 'hovering') WHERE approval_id = ?").bind(newer!.id).run();
    expect(await list(user("ugo"))).toEqual([sound!.id]);
    const logged = log.mock.calls.flat().join("\n");
    expect(logged).toContain(broken!.id);
    expect(logged).toContain("status");
    await expect(see(user("ugo")).find(newer!.id)).rejects.toMatchObject({ code: "record_unreadable", details: { approval_id: newer!.id } });
  });

  it("too long for a row are refused, and take nothing else of their kind along", async () => {
    const stuffed = anApproval({ toolArguments: { text: "€".repeat(700_000) } });
    const failure: unknown = await apply(approvalTold(stuffed)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ProjectionRefused);
    expect(isRefusal(failure)).toBe(true);
  });

  it("cost few rows, and lists of them read no more than they show", async () => {
    const { db, cost } = metered(env.DB);
    const approval = anApproval({ userId: "mia" });
    await applyProjections(db, env.MEDIA, [approvalTold(approval)]);
    expect(cost.written).toBeLessThanOrEqual(6);
    const opened = cost.written;
    await applyProjections(db, env.MEDIA, [approvalTold(decided(approval))]);
    expect(cost.written - opened).toBeLessThanOrEqual(2);

    const plan = async (sql: string) => (await env.DB.prepare(`EXPLAIN QUERY PLAN ${sql}`).all<{ detail: string }>()).results.map((row) => row.detail).join("; ");
    expect(await plan("SELECT count(*) FROM approvals WHERE status = 'pending'")).toContain("approvals_pending");
    expect(await plan("SELECT count(*) FROM approvals WHERE status = 'pending' AND user_id = 'mia'")).toContain("approvals_pending (user_id=?");
    for (const where of ["", "WHERE user_id = 'mia'", "WHERE run_id = 'r'"]) {
      expect(await plan(`SELECT document FROM approvals ${where} ORDER BY approval_id DESC LIMIT 100`), where).not.toContain("TEMP B-TREE");
    }
  });
});
