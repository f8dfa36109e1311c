import type { ToolDefinition } from "../define/tool.ts";
import { type Approval, shownHashOf } from "../domain/approval.ts";
import { ok, refused, type Result } from "../domain/errors.ts";
import { canSee } from "../domain/principal.ts";
import type { Requirement } from "../domain/requirement.ts";
import type { Effect } from "../domain/tool-call.ts";
import { decisionOn } from "../engine/requirements.ts";
import { isJsonObject } from "../lib/json.ts";
import { resolutionOf } from "./approvals.ts";
import type { ResolveApproval } from "./commands.ts";
import type { SessionCore } from "./core.ts";
import type { StoredRun } from "./store.ts";
import type { Turns } from "./turns.ts";

type Refusal = ReturnType<typeof refused>;
type Arguments = Record<string, unknown>;

/** An approval that can be decided on, with the calls that it is about. */
interface Decidable {
  approval: Approval;
  stored: StoredRun;
  covered: Effect[];
}

/** How long an answer may wait for D1 to know of a decision. */
const WAIT_FOR_D1_MS = 1_000;

/** What becomes of approvals, each in one commit with the calls that it is about. Nothing runs by it. */
export class Decisions {
  readonly #core: SessionCore;
  readonly #turns: Turns;

  constructor(core: SessionCore, turns: Turns) {
    this.#core = core;
    this.#turns = turns;
  }

  async resolve(command: ResolveApproval): Promise<Result<Approval>> {
    const { parts, outbox } = this.#core;
    const asked = this.#decidable(command);
    if (!asked.ok) return asked;
    const { stored, covered } = asked.value;
    if (command.shownHash !== undefined && command.shownHash !== (await shownHashOf(covered.map((effect) => effect.requirement as Requirement)))) {
      return refused("conflict", "What was shown is not what waits for a decision: the shown_hash does not fit.");
    }
    const edited = editedArguments(command, covered);
    if (!edited.ok) return edited;
    const misfit = await misfitOf(command, edited.value, covered, parts.registry.find(stored.run.component)?.tools ?? []);
    if (misfit !== undefined) return misfit;
    // Hashes and schemas were asked meanwhile, and others may have decided.
    const current = this.#decidable(command);
    if (!current.ok) return current;
    const decided = this.#decide(current.value, voted(current.value.approval, command, parts.clock.now()), edited.value);
    await parts.storage.sync();
    await outbox.waitFor([`approval:${decided.id}`], WAIT_FOR_D1_MS);
    return ok(decided);
  }

  /** The time for a decision is over. */
  expire(approvalId: string): void {
    const { store, alarms, parts, outbox } = this.#core;
    const approval = store.approval(approvalId);
    const stored = approval === undefined ? undefined : store.run(approval.runId);
    if (approval?.status !== "pending" || stored?.run.status !== "paused") return this.#core.commit(() => alarms.clear(`expiry:${approvalId}`));
    if (approval.onExpiry === "cancel") {
      this.#turns.end(stored, { kind: "cancelled", reason: "The approval expired before anyone decided", approvals: "expired" });
      return;
    }
    const now = parts.clock.now();
    this.#decide({ approval, stored, covered: this.#coveredBy(approval, stored) }, { ...approval, status: "expired", resolvedAt: now, updatedAt: now, version: approval.version + 1 }, new Map());
    void outbox.kick();
  }

  /** The record goes. What waited for it can not be decided on any more. */
  async delete(approvalId: string): Promise<void> {
    const { store, outbox, alarms, parts } = this.#core;
    this.#core.commit(() => {
      store.deleteApproval(approvalId);
      alarms.clear(`expiry:${approvalId}`);
      outbox.put(`approval:${approvalId}`);
    });
    await parts.storage.sync();
    await outbox.waitFor([`approval:${approvalId}`], WAIT_FOR_D1_MS);
  }

  #decidable(command: ResolveApproval): Result<Decidable> {
    const { store } = this.#core;
    const approval = store.approval(command.approvalId);
    const session = store.session();
    if (approval === undefined || session === undefined || !canSee(command.access, session.userId)) return refused("not_found", "Approval not found");
    if (approval.status !== "pending") return refused("approval_resolved", `The approval is ${approval.status} already.`, { status: approval.status });
    const forbidden = mayNotDecide(approval, command);
    if (forbidden !== undefined) return forbidden;
    const stored = store.run(approval.runId);
    if (stored?.run.status !== "paused") return refused("approval_resolved", "The run does not wait for this approval any more.", { status: stored?.run.status });
    return ok({ approval, stored, covered: this.#coveredBy(approval, stored) });
  }

  #coveredBy(approval: Approval, stored: StoredRun): Effect[] {
    return this.#core.store.effects(stored.ordinal).filter((effect) => effect.requirement?.approvalId === approval.id);
  }

  #decide({ stored, covered }: Decidable, approval: Approval, edited: ReadonlyMap<string, Arguments>): Approval {
    const { store, outbox, alarms } = this.#core;
    const decided = approval.status === "pending" ? [] : covered.map((effect) => withDecision(effect, approval, edited.get(effect.callId)));
    const requirements = approval.requirements.map((requirement) => {
      const effect = decided.find((other) => other.callId === requirement.callId);
      return effect?.requirement === undefined ? requirement : { ...requirement, ...effect.requirement };
    });
    const next = { ...approval, requirements };
    this.#core.commit(() => {
      store.saveApproval(next);
      for (const effect of decided) store.saveEffect(stored.ordinal, effect);
      outbox.put(`approval:${approval.id}`);
      if (approval.status !== "pending" && approval.expiresAt !== undefined) alarms.clear(`expiry:${approval.id}`);
    });
    return next;
  }
}

/** The approval with one more person's word: decided by anyone's no, or by as many different people's yes as it wants. */
function voted(approval: Approval, { by, decision, data }: ResolveApproval, now: number): Approval {
  const votes = by === undefined ? approval.votes : [...approval.votes.filter((vote) => vote.by !== by), { by, decision, at: now }];
  const isDecided = decision === "rejected" || approval.approvers === 1 || votes.filter((vote) => vote.decision === "approved").length >= approval.approvers;
  return {
    ...approval,
    votes,
    ...(isDecided ? { status: decision, resolvedAt: now, ...(by === undefined ? {} : { resolvedBy: by }), ...(data === undefined ? {} : { resolutionData: data }) } : {}),
    updatedAt: now,
    version: approval.version + 1,
  };
}

function withDecision(effect: Effect, approval: Approval, edited: Arguments | undefined): Effect {
  const { requirement } = effect;
  const resolution = requirement === undefined ? undefined : resolutionOf(requirement, approval, edited);
  if (requirement === undefined || resolution === undefined) return effect;
  return {
    ...effect,
    requirement: { ...requirement, resolution, resolvedAt: approval.updatedAt, ...(approval.resolvedBy === undefined ? {} : { resolvedBy: approval.resolvedBy }) },
  };
}

function mayNotDecide(approval: Approval, { by, decision, data = {} }: ResolveApproval): Refusal | undefined {
  if (approval.approvers > 1 && by === undefined) return refused("forbidden", "This approval wants several people, so whoever decides must be known by name.");
  const own = Object.keys(data).filter((key) => key !== "note");
  if (approval.approvers > 1 && decision === "approved" && own.length > 0) {
    return refused("invalid_request", `Several people approve what all of them were shown, so resolution_data may hold a note and not: ${own.join(", ")}.`);
  }
  if (!approval.requesterMayApprove && (by === undefined || by === approval.userId)) return refused("forbidden", "Whoever asked for the run may not decide on it.");
  return undefined;
}

/** Arguments that the person approved in place of the model's, by call. For a single call they may stand alone. */
function editedArguments({ decision, data = {} }: ResolveApproval, covered: readonly Effect[]): Result<ReadonlyMap<string, Arguments>> {
  const given = data.edited_args;
  if (decision === "rejected" || given === undefined || given === null) return ok(new Map());
  if (!isJsonObject(given)) return refused("invalid_request", "resolution_data.edited_args must be an object.");
  const isByCall = Object.keys(given).some((id) => covered.some((effect) => effect.callId === id));
  const [only, another] = covered;
  if (!isByCall && (only === undefined || another !== undefined)) return refused("invalid_request", "resolution_data.edited_args must name the calls that it is for.");
  const edited = isByCall ? Object.entries(given) : [[(only as Effect).callId, given] as const];
  for (const [callId, args] of edited) {
    const kind = covered.find((effect) => effect.callId === callId)?.requirement?.kind;
    if (kind === undefined) return refused("invalid_request", `resolution_data.edited_args names "${callId}", which is none of the calls that wait for this approval.`);
    if (kind !== "confirmation") return refused("invalid_request", `The call "${callId}" waits for ${kind.replace("_", " ")}, so its arguments can not be edited.`);
    if (!isJsonObject(args)) return refused("invalid_request", `resolution_data.edited_args for "${callId}" must be an object.`);
  }
  return ok(new Map(edited as [string, Arguments][]));
}

/** What a person put in place of the model's arguments must be what the tool takes: nobody could decide again. */
async function misfitOf({ decision, data }: ResolveApproval, edited: ReadonlyMap<string, Arguments>, covered: readonly Effect[], tools: readonly ToolDefinition<any>[]): Promise<Refusal | undefined> {
  for (const effect of decision === "approved" ? covered : []) {
    const { callId, toolName, requirement } = effect;
    const resolution = requirement && resolutionOf(requirement, { status: decision, resolutionData: data }, edited.get(callId));
    if (requirement === undefined || resolution === undefined) continue;
    const next = decisionOn({ id: callId, name: toolName, arguments: effect.arguments }, { ...effect, requirement: { ...requirement, resolution } });
    if (next.kind !== "run" || !next.isEdited) continue;
    const tool = tools.find((candidate) => candidate.name === toolName);
    if (tool === undefined) return refused("incompatible_tool", `The tool "${toolName}" is gone, so nobody can say whether it takes these arguments.`, { tool_call_id: callId, tool_name: toolName });
    const parsed = await tool.input.safeParseAsync(structuredClone(next.arguments));
    if (parsed.success) continue;
    const [issue] = parsed.error.issues;
    const field = issue?.path.join(".") || "arguments";
    return refused("invalid_request", `What was approved does not fit "${toolName}": ${field}: ${issue?.message ?? "invalid"}.`, { tool_call_id: callId, field });
  }
  return undefined;
}
