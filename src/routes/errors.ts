import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { routePath } from "hono/route";
import { AppError, type ErrorCode } from "../domain/errors.ts";
import type { RouteEnv } from "./route-env.ts";

const STATUS = {
  invalid_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  approval_pending: 400,
  requirements_open: 400,
  approval_resolved: 409,
  version_unavailable: 409,
  incompatible_tool: 409,
  session_busy: 409,
  session_exists: 409,
  run_not_continuable: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  unprocessable: 422,
  idempotency_mismatch: 422,
  queue_full: 429,
  internal: 500,
  auth_not_configured: 503,
  not_available: 503,
  // Another release can read it: the request is not wrong, and nothing broke.
  record_unreadable: 503,
  unavailable: 503,
} as const satisfies Record<ErrorCode, number>;

/** The HTTP status of a refusal. */
export const statusOf = (code: ErrorCode) => STATUS[code];

/** One thing that is wrong with a request, in the shape clients of AgentOS read. */
export interface FieldProblem {
  type: string;
  /** Where: `body`, `query` or `path`, then the field. */
  loc: (string | number)[];
  msg: string;
  input: unknown;
}

/** A request whose fields do not hold what they should. Its answer's `detail` is the list, as FastAPI's is. */
export const unprocessable = (problems: FieldProblem[]): AppError =>
  new AppError("unprocessable", problems.map((problem) => `${problem.loc.join(".")}: ${problem.msg}`).join("; "), { problems });

/** Seconds a client should wait where the refusal itself does not say. */
const RETRY_AFTER: Partial<Record<ErrorCode, number>> = { queue_full: 5, unavailable: 1 };

/** A refusal as the answer that clients are promised: `detail`, `error_type`, and the facts they may act on. */
export function errorResponse(error: AppError): Response {
  const { problems, retry_after: asked, ...facts } = error.details;
  const retryAfter = typeof asked === "number" ? Math.max(1, Math.ceil(asked)) : RETRY_AFTER[error.code];
  return Response.json(
    { detail: Array.isArray(problems) ? problems : error.message, error_type: error.code, ...facts },
    { status: STATUS[error.code], ...(retryAfter === undefined ? {} : { headers: { "retry-after": String(retryAfter) } }) },
  );
}

/** The only `onError`: refusals keep their words, anything else is told as nothing but its request id. */
export function onError(error: Error, c: Context<RouteEnv>): Response {
  if (error instanceof AppError) return errorResponse(error);
  // Thrown by Hono's own parsers, on bodies that are no JSON and content types that no route declares.
  if (error instanceof HTTPException) return errorResponse(new AppError(codeOf(error.status), error.message));
  // The client is gone, and what waited for it stopped: nobody reads this answer.
  if (c.req.raw.signal.aborted) return new Response(null, { status: 499 });
  const requestId = c.var.requestId;
  // Name and stack only: a message may quote what a client sent, keys included.
  console.error(JSON.stringify({ level: "error", request_id: requestId, method: c.req.method, route: routePath(c, -1), error: error.name, stack: framesOf(error) }));
  if (isFromDatabase(error)) return errorResponse(new AppError("unavailable", "The database could not be reached. Try again in a moment; /health says what is missing.", { request_id: requestId }));
  return Response.json({ detail: "Internal server error", error_type: "internal", request_id: requestId }, { status: 500 });
}

export const onNotFound = (): Response => Response.json({ detail: "Not Found" }, { status: 404 });

/** A path that is there, asked with a method that is not. */
export const onMethodNotAllowed = (_c: Context, allowed: string[]): Response =>
  Response.json({ detail: "Method Not Allowed" }, { status: 405, headers: { allow: allowed.join(", ") } });

function codeOf(status: number): ErrorCode {
  if (status === 413) return "payload_too_large";
  if (status === 415) return "unsupported_media_type";
  return "invalid_request";
}

/** D1 says in the message alone that an error is its own; drizzle wraps it. */
const isFromDatabase = (error: unknown): boolean => error instanceof Error && (error.message.startsWith("D1_") || isFromDatabase(error.cause));

/** Where an error was thrown, without its message. */
function framesOf(error: Error): string[] {
  return (error.stack ?? "")
    .split("\n")
    .filter((line) => /^\s+at /.test(line))
    .slice(0, 12)
    .map((line) => line.trim());
}
