import { APIConnectionError, APIError } from "@anthropic-ai/sdk";
import type { JsonObject } from "../../lib/json.ts";
import { kindOfStatus, modelFailure, retryAfterMs, speaksOfOverflow } from "../failure.ts";
import { objectOf, stringOf } from "../fields.ts";
import type { ModelErrorKind, ModelFailure } from "../model.ts";

export const PROVIDER_NAME = "Anthropic";

// https://platform.claude.com/docs/en/api/errors
const KIND_OF_TYPE = new Map<string, ModelErrorKind>([
  ["overloaded_error", "overloaded"],
  ["rate_limit_error", "rate_limited"],
  ["api_error", "server_error"],
  ["timeout_error", "server_error"],
  ["authentication_error", "authentication"],
  ["permission_error", "authentication"],
  ["billing_error", "billing"],
  ["not_found_error", "not_found"],
  ["request_too_large", "context_overflow"],
  ["invalid_request_error", "invalid_request"],
]);

/** What a request that got no stream means: refused by status, or never answered. */
export function failureOfError(error: unknown): ModelFailure {
  if (error instanceof APIError && error.status !== undefined) {
    const body = objectOf(objectOf(error.error).error);
    return describe(body, error.status, retryAfterMs(error.headers), error.message);
  }
  const detail = error instanceof APIConnectionError ? stringOf((error.cause as Error | undefined)?.message) || error.message : String((error as Error)?.message ?? error);
  return modelFailure(PROVIDER_NAME, "connection", { detail });
}

/** What an `error` frame inside a stream means. The HTTP status was 200 by then, so only its words tell. */
export const failureOfFrame = (error: JsonObject): ModelFailure => describe(error, undefined, undefined, "");

function describe(body: JsonObject, status: number | undefined, wait: number | undefined, fallback: string): ModelFailure {
  const type = stringOf(body.type);
  const detail = stringOf(body.message) || fallback;
  const code = stringOf(objectOf(body.details).error_code) || type;
  return modelFailure(PROVIDER_NAME, kindOf(type, code, status, detail), { detail, providerCode: code || undefined, status, retryAfterMs: wait });
}

function kindOf(type: string, code: string, status: number | undefined, detail: string): ModelErrorKind {
  // A spending limit comes as 429 and a spent credit as 400, but waiting or rephrasing helps with neither.
  if (/spend_limit|billing/.test(code) || /credit balance is too low/i.test(detail)) return "billing";
  // A conversation that is too long has no type of its own.
  if ((type === "invalid_request_error" || status === 400) && speaksOfOverflow(detail)) return "context_overflow";
  // A gateway's answer has no type, or one of its own; an error inside a stream that nobody can name is the server's.
  return KIND_OF_TYPE.get(type) ?? (status === undefined ? "server_error" : kindOfStatus(status));
}
