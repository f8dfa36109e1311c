export { approvals, deletedApprovals } from "./approvals.ts";
export { cancelWishes } from "./cancel-wishes.ts";
export { idempotencyKeys } from "./idempotency-keys.ts";
export { parkedProjections } from "./parked-projections.ts";
export { runs } from "./runs.ts";
export { deletedSessions, sessions } from "./sessions.ts";
