import type { Context, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { findTargetHandler } from "hono/utils/handler";
import { AppError } from "../domain/errors.ts";
import type { Access, Principal } from "../domain/principal.ts";
import { matches, reachOf, type Scope } from "./scopes.ts";

/** What `authenticate` leaves in the context of every route that is not public. */
export interface AuthVariables {
  principal: Principal;
  access: Access;
}

/** Who may use a route. Every route has one: a test walks them all. */
export type Guard = "public" | ScopeRule;

export interface ScopeRule {
  /** All of these. */
  scopes: readonly Scope[];
  /** The path parameter with the resource's id: a scope for that one resource is enough. */
  param?: string;
  /** A list: whoever holds the scope for some resources sees those; the handler leaves out the others. */
  list?: true;
}

const GUARD = Symbol("guard");

type GuardedHandler = MiddlewareHandler & { [GUARD]?: Guard };

/** The guard a handler was made with, or nothing. Sees through the wrapping of routers that are mounted in others. */
export const guardOf = (handler: unknown): Guard | undefined =>
  (findTargetHandler(handler as Parameters<typeof findTargetHandler>[0]) as unknown as GuardedHandler)[GUARD];

/** The guard of the route that a request matched. */
export function matchedGuard(c: Context): Guard | undefined {
  for (const { handler } of matchedRoutes(c)) {
    const guard = guardOf(handler);
    if (guard !== undefined) return guard;
  }
  return undefined;
}

/** Marks a route that needs nobody to be known. */
export function publicRoute(): MiddlewareHandler {
  const handler: GuardedHandler = (_c, next) => next();
  return Object.assign(handler, { [GUARD]: "public" as const });
}

/** The guard on the door: the request's principal holds the scopes, or gets 403 with their names. */
export function requireScope(scopes: Scope | readonly Scope[], of: Omit<ScopeRule, "scopes"> = {}): MiddlewareHandler<{ Variables: AuthVariables }> {
  const rule: ScopeRule = { scopes: typeof scopes === "string" ? [scopes] : scopes, ...of };
  const handler: MiddlewareHandler<{ Variables: AuthVariables }> = (c, next) => {
    const held = c.var.principal.scopes;
    const id = rule.param === undefined ? undefined : c.req.param(rule.param);
    const missing = rule.scopes.filter((scope) => !(matches(held, scope, id) || (rule.list === true && reachesSome(held, scope))));
    if (missing.length > 0) throw new AppError("forbidden", `Insufficient permissions. Required scope(s): ${missing.join(", ")}`);
    return next();
  };
  return Object.assign(handler, { [GUARD]: rule });
}

function reachesSome(held: readonly string[], scope: Scope): boolean {
  const reach = reachOf(held, scope);
  return reach === "all" || reach.size > 0;
}
