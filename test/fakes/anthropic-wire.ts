import { DEFAULT_USAGE, inTurns } from "./script.ts";
import type { CallScript, ErrorWord, UsageScript } from "./script.ts";
import { event, lastUserText } from "./wire.ts";
import type { SpokenStep, Wire, WireReply } from "./wire.ts";

const STOP_REASONS: Record<string, string> = { stop: "end_turn", tool: "tool_use", length: "max_tokens", refusal: "refusal", filter: "refusal" };

const ERRORS: Record<ErrorWord, { type: string; message: string }> = {
  overloaded: { type: "overloaded_error", message: "Overloaded" },
  rate_limited: { type: "rate_limit_error", message: "This request would exceed your rate limit." },
  server_error: { type: "api_error", message: "Internal server error" },
  authentication: { type: "authentication_error", message: "invalid x-api-key" },
  billing: { type: "billing_error", message: "Your credit balance is too low to access the API." },
  invalid_request: { type: "invalid_request_error", message: "messages: at least one message is required" },
  context_overflow: { type: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum" },
  not_found: { type: "not_found_error", message: "model: claude-none" },
  unknown: { type: "weird_new_error", message: "Something new went wrong." },
};

const errorBody = (error: ErrorWord, message: string) => ({ type: "error", error: { ...ERRORS[error], ...(message && { message }) }, request_id: "req_fake" });

/** Anthropic's Messages API, streaming. */
export const anthropicWire: Wire = { name: "anthropic", path: "/v1/messages", reply, errorBody, lastUserText: (body) => lastUserText(body.messages) };

function reply(request: Record<string, unknown>): WireReply {
  const say = (type: string, rest: Record<string, unknown> = {}) => event({ type, ...rest }, type);
  let next = 0;
  let textBlock: number | undefined;

  const start = (block: Record<string, unknown>) => say("content_block_start", { index: next++, content_block: block });
  const delta = (index: number, body: Record<string, unknown>) => say("content_block_delta", { index, delta: body });
  const stop = (index: number) => say("content_block_stop", { index });

  function closeText(): string {
    if (textBlock === undefined) return "";
    const index = textBlock;
    textBlock = undefined;
    return stop(index);
  }

  function text(written: string): string {
    let frames = "";
    if (textBlock === undefined) {
      textBlock = next;
      frames = start({ type: "text", text: "" });
    }
    return frames + delta(textBlock, { type: "text_delta", text: written });
  }

  function toolBlocks(scripts: CallScript[]): string {
    const first = next;
    const opened = scripts.map((one) => start({ type: "tool_use", id: one.id, name: one.name, input: one.start ?? {} }));
    const grown = inTurns(scripts).map(({ place, fragment }) => delta(first + place, { type: "input_json_delta", partial_json: fragment }));
    return closeTextBefore([...opened, ...grown, ...scripts.map((_, place) => stop(first + place))]);
  }

  const closeTextBefore = (frames: string[]) => closeText() + frames.join("");

  return {
    begin: (usage) =>
      say("message_start", {
        message: { id: "msg_fake", type: "message", role: "assistant", model: request.model, content: [], stop_reason: null, stop_sequence: null, ...(usage && { usage: toUsage(usage) }) },
      }),
    speak(step: SpokenStep): string {
      switch (step.type) {
        case "say":
        case "refuse":
          return text(step.text);
        case "think": {
          const index = next;
          const opened = start({ type: "thinking", thinking: "", signature: "" });
          const grown = step.deltas.map((written) => delta(index, { type: "thinking_delta", thinking: written }));
          return closeTextBefore([opened, ...grown, ...(step.proof === undefined ? [] : [delta(index, { type: "signature_delta", signature: step.proof })]), stop(index)]);
        }
        case "redact": {
          const index = next;
          return closeTextBefore([start({ type: "redacted_thinking", data: step.data }), stop(index)]);
        }
        case "call":
          return toolBlocks([step.call]);
        case "calls":
          return toolBlocks(step.calls);
        case "ping":
          return say("ping");
        case "frame":
          return event(step.body, step.event ?? String(step.body.type ?? ""));
        case "error":
          return event(errorBody(step.error, step.message ?? ""), "error");
        case "end":
          return closeTextBefore([
            say("message_delta", {
              delta: { stop_reason: STOP_REASONS[step.reason] ?? step.reason, stop_sequence: null },
              ...(step.usage !== false && { usage: toUsage(step.usage ?? DEFAULT_USAGE) }),
            }),
            say("message_stop"),
          ]);
      }
    },
  };
}

/** `input_tokens` leaves out what the cache had or was given. */
function toUsage(usage: UsageScript): Record<string, unknown> {
  return {
    input_tokens: usage.input - (usage.cacheRead ?? 0) - (usage.cacheWrite ?? 0),
    cache_read_input_tokens: usage.cacheRead ?? 0,
    cache_creation_input_tokens: usage.cacheWrite ?? 0,
    output_tokens: usage.output,
    ...(usage.reasoning !== undefined && { output_tokens_details: { thinking_tokens: usage.reasoning } }),
  };
}
