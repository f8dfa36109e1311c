import type { Access } from "../domain/principal.ts";

/** A wisher who may see every row. */
export const ANYONES = "all";
/** Before the id of a user who may see their own, so that no user id can pass for `all`. */
export const USER_PREFIX = "user:";

/** Whose wish it is, as `cancel_wishes.wisher` holds it. */
export const wisherOf = (access: Access): string => (access.rows === "all" ? ANYONES : USER_PREFIX + access.userId);
