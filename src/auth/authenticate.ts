import { createMiddleware } from "hono/factory";
import { AppError } from "../domain/errors.ts";
import type { Access, Principal } from "../domain/principal.ts";
import { isOperatorKey } from "./api-key.ts";
import { type AuthSettings, authMode } from "./mode.ts";
import { type AuthVariables, matchedGuard } from "./require-scope.ts";
import { ADMIN_SCOPE } from "./scopes.ts";

const ANONYMOUS: Principal = { kind: "anonymous", scopes: [ADMIN_SCOPE] };
const OPERATOR: Principal = { kind: "operator", scopes: [ADMIN_SCOPE] };
const ALL_ROWS: Access = { rows: "all" };

/**
 * Says who is asking, or answers 401. It runs before a path is known to exist, so that only who may come in learns what
 * there is; routes marked public are let through. A deployment without any auth answers 503 to all but `/health`.
 */
export const authenticate = (options: { alwaysOpen: string }) =>
  createMiddleware<{ Bindings: AuthSettings; Variables: AuthVariables }>(async (c, next) => {
    const isPublic = matchedGuard(c) === "public";
    if (isPublic && c.req.path === options.alwaysOpen) return next();

    const mode = authMode(c.env);
    if (mode.kind === "not_configured") throw new AppError("auth_not_configured", mode.reason);
    if (isPublic) return next();

    const principal = mode.kind === "none" ? ANONYMOUS : await withKey(c.req.header("authorization"), mode.key);
    c.set("principal", principal);
    c.set("access", ALL_ROWS);
    return next();
  });

async function withKey(header: string | undefined, key: string): Promise<Principal> {
  if (header === undefined || header.trim() === "") throw new AppError("unauthenticated", "Authorization header required");
  // A value without a scheme is taken as the token itself, as AgentOS does.
  const token = header.trim().replace(/^bearer\s+/i, "");
  if (!(await isOperatorKey(token, key))) throw new AppError("unauthenticated", "Invalid authentication token");
  return OPERATOR;
}
