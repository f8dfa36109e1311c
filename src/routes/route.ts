import { createRoute, OpenAPIHono, type RouteConfig } from "@hono/zod-openapi";
import type { z } from "zod";
import { type Guard, publicRoute, requireScope } from "../auth/require-scope.ts";
import { type FieldProblem, unprocessable } from "./errors.ts";
import type { RouteEnv } from "./route-env.ts";

export type Router = OpenAPIHono<RouteEnv>;

/** A router whose routes answer wrong fields with 422. */
export const newRouter = (): Router =>
  new OpenAPIHono<RouteEnv>({
    // Hono matches `/agents/` like `/agents`, as AgentOS does, without a redirect.
    strict: false,
    defaultHook: (result) => {
      // The validator hands its input over beside the error; the hook's type does not say so.
      if (!result.success) throw unprocessable(fieldProblems(result.target, result.error.issues, (result as { data?: unknown }).data));
    },
  });

/** What Hono's types read as "any `Response`": a body that is neither JSON nor text. */
type AnyResponse = { 200: { description: string; content: { "application/octet-stream": { schema: z.ZodType } } } };

type GuardedRoute = Omit<RouteConfig, "path" | "middleware"> & { guard: Guard };

/**
 * Declares a route: its guard, its schemas, and so its page in the docs. Responses describe what the handler answers and
 * are not checked against it, so a handler may return any `Response`.
 */
export function route<const Path extends string, const Config extends GuardedRoute>(config: Config & { path: Path }) {
  const { guard, ...declared } = config;
  const middleware = guard === "public" ? publicRoute() : requireScope(guard.scopes, guard);
  const documented = guard === "public" ? { security: [] } : { security: [{ bearer: [...guard.scopes] }] };
  return createRoute({ ...declared, ...documented, middleware }) as unknown as Omit<Config, "guard" | "responses"> & {
    path: Path;
    responses: AnyResponse;
    getRoutingPath(): string;
  };
}

/** Zod's issues with some data, in FastAPI's words. */
export function fieldProblems(target: string, issues: readonly z.core.$ZodIssue[], data: unknown): FieldProblem[] {
  const place = PLACES[target] ?? target;
  return issues.map((issue) => {
    const input = issue.path.reduce<unknown>((value, key) => (value as Record<PropertyKey, unknown> | undefined)?.[key], data);
    const type = problemType(issue, input);
    return {
      type,
      loc: [place, ...issue.path.map((key) => (typeof key === "symbol" ? String(key) : key))],
      msg: type === "missing" ? "Field required" : issue.message,
      input: shortened(input),
    };
  });
}

/** Hono's names for the parts of a request, in FastAPI's. */
const PLACES: Record<string, string> = { param: "path", json: "body", form: "body" };

function problemType(issue: z.core.$ZodIssue, input: unknown): string {
  if (input === undefined && (issue.code === "invalid_type" || issue.code === "invalid_value")) return "missing";
  if (issue.code === "invalid_value") return "expected" in issue && issue.expected === "stringbool" ? "bool_parsing" : "enum";
  if (issue.code === "invalid_type") return issue.expected === "number" || issue.expected === "int" ? "int_parsing" : `${issue.expected}_type`;
  return issue.code === "custom" ? "value_error" : issue.code;
}

const ECHOED_CHARACTERS = 200;

/** What was sent, as much of it as helps to find the mistake. */
const shortened = (input: unknown): unknown =>
  typeof input === "string" && input.length > ECHOED_CHARACTERS ? `${input.slice(0, ECHOED_CHARACTERS)}…` : (input ?? null);
