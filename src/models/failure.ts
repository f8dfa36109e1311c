import type { ModelErrorKind, ModelFailure } from "./model.ts";

/** What an HTTP status means where the provider gives no better word. */
export function kindOfStatus(status: number): ModelErrorKind {
  if (status === 401 || status === 403) return "authentication";
  if (status === 402) return "billing";
  if (status === 404) return "not_found";
  // The request is larger than the provider takes. What helps is what helps against a full context: sending less.
  if (status === 413) return "context_overflow";
  if (status === 429) return "rate_limited";
  if (status === 503 || status === 529) return "overloaded";
  // 408 and 409 are the server's own time-outs and lock conflicts; the request itself was fine.
  if (status >= 500 || status === 408 || status === 409) return "server_error";
  if (status >= 400) return "invalid_request";
  return "protocol";
}

/** Providers name an overlong conversation in prose only, or by a code that compatible servers leave out. */
const OVERFLOW = /prompt is too long|input is too long|too many tokens|context[ _-]?(length|window|limit|size)|maximum context|exceeds? the (model'?s )?(maximum|available) (context|input)|max_model_len/i;

export const speaksOfOverflow = (message: string): boolean => OVERFLOW.test(message);

/** How long the provider asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date. */
export function retryAfterMs(headers: Headers | undefined, now = Date.now()): number | undefined {
  const milliseconds = Number.parseFloat(headers?.get("retry-after-ms") ?? "");
  if (milliseconds >= 0) return milliseconds;
  const header = headers?.get("retry-after")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(header)) return Number(header) * 1000;
  // A date begins with its weekday. Engines parse much else as some date, "-1" among it.
  const wait = /^[a-z]/i.test(header) ? Date.parse(header) - now : Number.NaN;
  return Number.isNaN(wait) ? undefined : Math.max(0, wait);
}

/** What happened, as the first half of a sentence about the provider. */
const WHAT_HAPPENED: Record<ModelErrorKind, string> = {
  aborted: "request was aborted",
  overloaded: "is overloaded",
  rate_limited: "limits the rate of requests",
  server_error: "failed",
  connection: "could not be reached, or the connection was lost",
  interrupted: "ended its stream before the last frame",
  stalled: "fell silent",
  authentication: "refused the key",
  billing: "asks for payment or a higher spending limit",
  invalid_request: "refused the request",
  context_overflow: "says that the conversation is too long for the model",
  not_found: "knows no such model or address",
  protocol: "did not answer with its event stream",
  misconfigured: "is not configured",
};

const DETAIL_MAX_LENGTH = 600;

export interface FailureFacts {
  /** The provider's own message. */
  detail?: string;
  providerCode?: string;
  status?: number;
  retryAfterMs?: number;
}

/** A failure with a sentence for people: who, what happened, and what the provider said about it. */
export function modelFailure(provider: string, kind: ModelErrorKind, { detail, ...facts }: FailureFacts = {}): ModelFailure {
  const said = detail?.trim();
  const shortened = said && said.length > DETAIL_MAX_LENGTH ? `${said.slice(0, DETAIL_MAX_LENGTH)}…` : said;
  const message = `${provider} ${WHAT_HAPPENED[kind]}${facts.status ? ` (HTTP ${facts.status})` : ""}${shortened ? `: ${shortened}` : "."}`;
  const failure: ModelFailure = { kind, message: message.toWellFormed() };
  if (facts.providerCode) failure.providerCode = facts.providerCode;
  if (facts.status !== undefined) failure.status = facts.status;
  if (facts.retryAfterMs !== undefined) failure.retryAfterMs = facts.retryAfterMs;
  return failure;
}

/** Servers repeat the key they refused. Failures are stored and shown to users, so no secret may stay in one. */
export function withoutSecrets(failure: ModelFailure, secrets: readonly string[]): ModelFailure {
  const clean = (text: string) => secrets.reduce((rest, secret) => (secret.length < 4 ? rest : rest.replaceAll(secret, "[secret]")), text);
  const cleaned: ModelFailure = { ...failure, message: clean(failure.message) };
  if (failure.providerCode !== undefined) cleaned.providerCode = clean(failure.providerCode);
  return cleaned;
}
