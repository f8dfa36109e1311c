import type { MiddlewareHandler } from "hono";
import { cors } from "hono/cors";
import { createMiddleware } from "hono/factory";
import type { RouteEnv } from "./route-env.ts";

/** Where AgentOS's own clients are served from. */
const AGENT_OS_ORIGINS = [
  "http://localhost:3000",
  "https://agno.com",
  "https://www.agno.com",
  "https://app.agno.com",
  "https://os-stg.agno.com",
  "https://os.agno.com",
];

const METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY"];
const PREFLIGHT_SECONDS = 600;

/**
 * Lets browsers call from the origins that are listed. Preflights are answered here, before anyone has to say who they
 * are, and errors carry the headers too.
 */
export function allowOrigins(configured: readonly string[]): MiddlewareHandler<RouteEnv> {
  return createMiddleware<RouteEnv>((c, next) => {
    const origin = c.req.header("origin");
    const allowed = origin !== undefined && isAllowed(origin, [...AGENT_OS_ORIGINS, ...configured, ...listOf(c.env.CORS_ORIGINS)]);
    return cors({
      origin: () => (allowed ? origin : null),
      // Never without an exact origin: a browser would refuse the pair, and should.
      credentials: allowed,
      allowMethods: METHODS,
      exposeHeaders: allowed ? EXPOSED : [],
      maxAge: PREFLIGHT_SECONDS,
    })(c, next);
  });
}

/** `*` stands for any header, but only for clients that send no credentials; those that do need the names. */
const EXPOSED = ["*", "X-Request-Id", "Retry-After", "Location"];

/** `*` in the list lets any origin in, told by its own name. */
const isAllowed = (origin: string, list: readonly string[]): boolean => list.includes(origin) || list.includes("*");

const listOf = (setting: string | undefined): string[] =>
  (setting ?? "")
    .split(",")
    .map((origin) => origin.trim().replace(/\/$/, ""))
    .filter((origin) => origin !== "");
