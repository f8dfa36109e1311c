import { openaiError } from "./openai-errors.ts";
import { DEFAULT_USAGE, inTurns } from "./script.ts";
import type { CallScript, UsageScript } from "./script.ts";
import { event, lastUserText } from "./wire.ts";
import type { SpokenStep, Wire, WireReply } from "./wire.ts";

const FINISH_REASONS: Record<string, string> = { tool: "tool_calls", filter: "content_filter" };

/** OpenAI's Chat Completions, streaming, as compatible servers speak it: with reasoning in `reasoning_content`. */
export const chatWire: Wire = {
  name: "chat",
  path: "/v1/chat/completions",
  reply,
  errorBody: (error, message) => ({ error: openaiError(error, message) }),
  lastUserText: (body) => lastUserText(body.messages),
};

function reply(request: Record<string, unknown>): WireReply {
  let place = 0;
  const chunk = (rest: Record<string, unknown>) => event({ id: "chatcmpl-fake", object: "chat.completion.chunk", created: 0, model: request.model, ...rest });
  const delta = (body: Record<string, unknown>, finishReason: string | null = null) => chunk({ choices: [{ index: 0, delta: body, finish_reason: finishReason }] });

  function toolCalls(scripts: CallScript[]): string {
    const first = place;
    place += scripts.length;
    const opened = scripts.map((one, index) => delta({ tool_calls: [{ index: first + index, id: one.id, type: "function", function: { name: one.name, arguments: "" } }] }));
    const grown = inTurns(scripts).map(({ place: index, fragment }) => delta({ tool_calls: [{ index: first + index, function: { arguments: fragment } }] }));
    return [...opened, ...grown].join("");
  }

  return {
    begin: () => delta({ role: "assistant", content: "" }),
    speak(step: SpokenStep): string {
      switch (step.type) {
        case "say":
          return delta({ content: step.text });
        case "refuse":
          return delta({ refusal: step.text });
        case "think":
          return step.deltas.map((text) => delta({ reasoning_content: text })).join("");
        case "redact":
          return "";
        case "call":
          return toolCalls([step.call]);
        case "calls":
          return toolCalls(step.calls);
        case "ping":
          return ": ping\n\n";
        case "frame":
          return event(step.body, step.event);
        case "error":
          return event({ error: openaiError(step.error, step.message ?? "") });
        case "end":
          return (
            delta({}, FINISH_REASONS[step.reason] ?? step.reason) +
            (step.usage === false ? "" : chunk({ choices: [], usage: toUsage(step.usage ?? DEFAULT_USAGE) })) +
            "data: [DONE]\n\n"
          );
      }
    },
  };
}

function toUsage(usage: UsageScript): Record<string, unknown> {
  return {
    prompt_tokens: usage.input,
    prompt_tokens_details: { cached_tokens: usage.cacheRead ?? 0, cache_write_tokens: usage.cacheWrite ?? 0 },
    completion_tokens: usage.output,
    completion_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: usage.input + usage.output,
  };
}
