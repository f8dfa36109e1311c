/**
 * Every way in which the platform says no. The code is the contract: it is what clients see as `error_type` and what
 * `routes/errors.ts` turns into a status. A new code is a decision; add its status there.
 */
export const ERROR_CODES = [
  "invalid_request",
  "unprocessable",
  "payload_too_large",
  "unsupported_media_type",
  "unauthenticated",
  "auth_not_configured",
  "forbidden",
  "not_found",
  "method_not_allowed",
  "conflict",
  "idempotency_mismatch",
  "session_busy",
  "session_exists",
  "run_not_continuable",
  "approval_pending",
  "requirements_open",
  "approval_resolved",
  "version_unavailable",
  "incompatible_tool",
  "queue_full",
  "not_available",
  "unavailable",
  "record_unreadable",
  "internal",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** What crosses the session object's edge: classes do not survive RPC, plain values do. */
export interface ErrorInfo {
  code: ErrorCode;
  message: string;
  /** Facts a client may act on: the run that holds the line, the field that was wrong. */
  details?: Record<string, unknown>;
}

export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly details: Record<string, unknown>;

  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }

  static from(info: ErrorInfo): AppError {
    return new AppError(info.code, info.message, info.details);
  }

  toInfo(): ErrorInfo {
    return { code: this.code, message: this.message, details: this.details };
  }
}

/** What a command answers across the object's edge: a refusal is a value there, never a throw. */
export type Result<T> = { ok: true; value: T } | { ok: false; error: ErrorInfo };

export const ok = <T>(value: T): Result<T> => ({ ok: true, value });
export const refused = (code: ErrorCode, message: string, details?: Record<string, unknown>): { ok: false; error: ErrorInfo } => ({
  ok: false,
  error: details === undefined ? { code, message } : { code, message, details },
});

export const notFound = (message: string) => new AppError("not_found", message);
export const invalid = (message: string, details?: Record<string, unknown>) => new AppError("invalid_request", message, details);
