/** Who is asking. `subject` is the name that rows are owned by; an operator with the security key has none. */
export interface Principal {
  kind: "anonymous" | "operator" | "user" | "service_account" | "platform";
  subject?: string;
  /** What it may do, in the grammar of `auth/scopes.ts`. */
  scopes: readonly string[];
}

/**
 * Which rows a principal may see: all, or one user's. Nothing that reads or writes rows can be made without one, so
 * isolation is not something to remember.
 */
export type Access = { rows: "all" } | { rows: "user"; userId: string };

/** Whether a row with this owner exists for the asker. */
export const canSee = (access: Access, ownerId: string | undefined): boolean => access.rows === "all" || ownerId === access.userId;
