import type { Access } from "../../domain/principal.ts";
import { openDatabase, type StorageBindings } from "../database.ts";
import { type ApprovalRepository, makeApprovalRepository } from "./approvals.ts";
import { type CancelWishRepository, makeCancelWishRepository } from "./cancel-wishes.ts";
import { type IdempotencyKeyRepository, makeIdempotencyKeyRepository } from "./idempotency-keys.ts";
import { makeParkedProjectionRepository, type ParkedProjectionRepository } from "./parked-projections.ts";
import { makeRunRepository, type RunRepository } from "./runs.ts";
import { makeSessionRepository, type SessionRepository } from "./sessions.ts";

/** D1 as someone may see it. There is no way to a repository without an access. */
export interface Repositories {
  sessions: SessionRepository;
  runs: RunRepository;
  approvals: ApprovalRepository;
  cancelWishes: CancelWishRepository;
  idempotencyKeys: IdempotencyKeyRepository;
  parkedProjections: ParkedProjectionRepository;
}

export function makeRepositories(bindings: StorageBindings, access: Access): Repositories {
  const database = openDatabase(bindings);
  return {
    sessions: makeSessionRepository(database, access),
    runs: makeRunRepository(database, access),
    approvals: makeApprovalRepository(database, access),
    cancelWishes: makeCancelWishRepository(database, access),
    idempotencyKeys: makeIdempotencyKeyRepository(database),
    parkedProjections: makeParkedProjectionRepository(database, access),
  };
}
