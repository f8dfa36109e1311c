import { APIConnectionError, APIError } from "openai";
import type { JsonObject } from "../../lib/json.ts";
import { kindOfStatus, modelFailure, retryAfterMs, speaksOfOverflow } from "../failure.ts";
import { numberOf, objectOf, stringOf } from "../fields.ts";
import type { ModelErrorKind, ModelFailure } from "../model.ts";

// https://platform.openai.com/docs/guides/error-codes
const KIND_OF_CODE = new Map<string, ModelErrorKind>([
  ["context_length_exceeded", "context_overflow"],
  ["string_above_max_length", "context_overflow"],
  ["insufficient_quota", "billing"],
  ["billing_hard_limit_reached", "billing"],
  ["billing_not_active", "billing"],
  ["rate_limit_exceeded", "rate_limited"],
  ["tokens", "rate_limited"],
  ["requests", "rate_limited"],
  ["invalid_api_key", "authentication"],
  ["authentication_error", "authentication"],
  ["permission_error", "authentication"],
  ["model_not_found", "not_found"],
  ["not_found_error", "not_found"],
  ["server_is_overloaded", "overloaded"],
  ["overloaded_error", "overloaded"],
  ["slow_down", "overloaded"],
  ["server_error", "server_error"],
  ["api_error", "server_error"],
  ["invalid_prompt", "invalid_request"],
  ["invalid_request_error", "invalid_request"],
]);

/** What a request that got no stream means: refused by status, or never answered. */
export function failureOfError(name: string, error: unknown): ModelFailure {
  if (error instanceof APIError && error.status !== undefined) {
    return describe(name, objectOf(error.error), error.status, retryAfterMs(error.headers), error.message);
  }
  const detail = error instanceof APIConnectionError ? stringOf((error.cause as Error | undefined)?.message) || error.message : String((error as Error)?.message ?? error);
  return modelFailure(name, "connection", { detail });
}

/** What an error inside a stream means. The HTTP status was 200 by then; some servers repeat the real one as the code. */
export function failureOfFrame(name: string, error: JsonObject): ModelFailure {
  const status = numberOf(error.code) ?? numberOf(error.status);
  return describe(name, error, status !== undefined && status >= 400 && status < 600 ? status : undefined, undefined, "");
}

function describe(name: string, body: JsonObject, status: number | undefined, wait: number | undefined, fallback: string): ModelFailure {
  const code = stringOf(body.code);
  const type = stringOf(body.type);
  const detail = stringOf(body.message) || fallback;
  return modelFailure(name, kindOf(code, type, status, detail), { detail, providerCode: code || type || undefined, status, retryAfterMs: wait });
}

function kindOf(code: string, type: string, status: number | undefined, detail: string): ModelErrorKind {
  const named = KIND_OF_CODE.get(code) ?? KIND_OF_CODE.get(type);
  // Compatible servers know the type, and say in prose what is too long.
  if ((named ?? "invalid_request") === "invalid_request" && (status === undefined || status === 400 || status === 422) && speaksOfOverflow(detail)) return "context_overflow";
  // An error inside a stream that nobody can name is the server's.
  return named ?? (status === undefined ? "server_error" : kindOfStatus(status));
}
