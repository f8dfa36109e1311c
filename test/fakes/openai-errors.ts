import type { ErrorWord } from "./script.ts";

/** How OpenAI names its errors, on both of its wires. */
export const OPENAI_ERRORS: Record<ErrorWord, { message: string; type: string; code: string | null }> = {
  overloaded: { message: "The server is overloaded.", type: "server_error", code: "server_is_overloaded" },
  rate_limited: { message: "Rate limit reached for requests.", type: "requests", code: "rate_limit_exceeded" },
  server_error: { message: "The server had an error while processing your request.", type: "server_error", code: "server_error" },
  authentication: { message: "Incorrect API key provided.", type: "invalid_request_error", code: "invalid_api_key" },
  billing: { message: "You exceeded your current quota, please check your plan and billing details.", type: "insufficient_quota", code: "insufficient_quota" },
  invalid_request: { message: "Invalid value for 'input'.", type: "invalid_request_error", code: null },
  context_overflow: { message: "Your input exceeds the context window of this model.", type: "invalid_request_error", code: "context_length_exceeded" },
  not_found: { message: "The model does not exist.", type: "invalid_request_error", code: "model_not_found" },
  unknown: { message: "Something new went wrong.", type: "weird_new_error", code: "weird_new_code" },
};

export const openaiError = (error: ErrorWord, message: string) => ({ ...OPENAI_ERRORS[error], param: null, ...(message && { message }) });
