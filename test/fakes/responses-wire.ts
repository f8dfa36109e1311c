import { openaiError } from "./openai-errors.ts";
import { DEFAULT_USAGE, inTurns } from "./script.ts";
import type { CallScript, UsageScript } from "./script.ts";
import { event, lastUserText } from "./wire.ts";
import type { SpokenStep, Wire, WireReply } from "./wire.ts";

const INCOMPLETE_REASONS: Record<string, string> = { length: "max_output_tokens", filter: "content_filter" };

/** OpenAI's Responses API, streaming. */
export const responsesWire: Wire = {
  name: "responses",
  path: "/v1/responses",
  reply,
  errorBody: (error, message) => ({ error: openaiError(error, message) }),
  lastUserText: (body) => lastUserText(body.input),
};

function reply(request: Record<string, unknown>): WireReply {
  let sequence = 0;
  let outputIndex = 0;
  let message: { index: number; id: string; kind: "output_text" | "refusal"; text: string } | undefined;

  const say = (type: string, rest: Record<string, unknown>) => event({ type, sequence_number: sequence++, ...rest }, type);
  const response = (status: string, rest: Record<string, unknown> = {}) => ({ id: "resp_fake", object: "response", model: request.model, output: [], error: null, incomplete_details: null, ...rest, status });

  function openMessage(kind: "output_text" | "refusal"): string {
    if (message?.kind === kind) return "";
    const closed = closeMessage();
    message = { index: outputIndex++, id: `msg_${outputIndex}`, kind, text: "" };
    return (
      closed +
      say("response.output_item.added", { output_index: message.index, item: { type: "message", id: message.id, role: "assistant", status: "in_progress", content: [] } }) +
      say("response.content_part.added", { output_index: message.index, item_id: message.id, content_index: 0, part: kind === "refusal" ? { type: kind, refusal: "" } : { type: kind, text: "", annotations: [] } })
    );
  }

  function closeMessage(): string {
    if (!message) return "";
    const { index, id, kind, text } = message;
    message = undefined;
    const names = { output_index: index, item_id: id, content_index: 0 };
    const part = kind === "refusal" ? { type: kind, refusal: text } : { type: kind, text, annotations: [] };
    return (
      say(kind === "refusal" ? "response.refusal.done" : "response.output_text.done", { ...names, ...(kind === "refusal" ? { refusal: text } : { text }) }) +
      say("response.content_part.done", { ...names, part }) +
      say("response.output_item.done", { output_index: index, item: { type: "message", id, role: "assistant", status: "completed", content: [part] } })
    );
  }

  function write(kind: "output_text" | "refusal", text: string): string {
    const opened = openMessage(kind);
    message!.text += text;
    return opened + say(`response.${kind}.delta`, { output_index: message!.index, item_id: message!.id, content_index: 0, delta: text });
  }

  function reasoning(deltas: string[], proof: string | undefined): string {
    const index = outputIndex++;
    const id = `rs_${index}`;
    const names = { output_index: index, item_id: id, summary_index: 0 };
    const summary = deltas.length > 0 ? [{ type: "summary_text", text: deltas.join("") }] : [];
    return (
      closeMessage() +
      say("response.output_item.added", { output_index: index, item: { type: "reasoning", id, summary: [] } }) +
      (deltas.length > 0 ? say("response.reasoning_summary_part.added", { ...names, part: { type: "summary_text", text: "" } }) : "") +
      deltas.map((delta) => say("response.reasoning_summary_text.delta", { ...names, delta })).join("") +
      say("response.output_item.done", { output_index: index, item: { type: "reasoning", id, status: "completed", summary, ...(proof !== undefined && { encrypted_content: proof }) } })
    );
  }

  function functionCalls(scripts: CallScript[]): string {
    const closed = closeMessage();
    const first = outputIndex;
    outputIndex += scripts.length;
    const item = (one: CallScript, place: number, status: string, args: string) => ({ output_index: first + place, item: { type: "function_call", id: `fc_${first + place}`, call_id: one.id, name: one.name, arguments: args, status } });
    const opened = scripts.map((one, place) => say("response.output_item.added", item(one, place, "in_progress", "")));
    const grown = inTurns(scripts).map(({ place, fragment }) => say("response.function_call_arguments.delta", { output_index: first + place, item_id: `fc_${first + place}`, delta: fragment }));
    const done = scripts.map((one, place) => {
      const args = one.fragments.join("");
      return say("response.function_call_arguments.done", { output_index: first + place, item_id: `fc_${first + place}`, arguments: args }) + say("response.output_item.done", item(one, place, "completed", args));
    });
    return closed + [...opened, ...grown, ...done].join("");
  }

  function last(reason: string, usage: UsageScript | false): string {
    const closed = (reason === "refusal" ? openMessage("refusal") : "") + closeMessage();
    const reported = usage === false ? {} : { usage: toUsage(usage) };
    if (reason === "stop" || reason === "tool" || reason === "refusal") return closed + say("response.completed", { response: response("completed", reported) });
    return closed + say("response.incomplete", { response: response("incomplete", { incomplete_details: { reason: INCOMPLETE_REASONS[reason] ?? reason }, ...reported }) });
  }

  return {
    begin: () => say("response.created", { response: response("in_progress") }) + say("response.in_progress", { response: response("in_progress") }),
    speak(step: SpokenStep): string {
      switch (step.type) {
        case "say":
          return write("output_text", step.text);
        case "refuse":
          return write("refusal", step.text);
        case "think":
          return reasoning(step.deltas, step.proof);
        case "redact":
          return reasoning([], step.data);
        case "call":
          return functionCalls([step.call]);
        case "calls":
          return functionCalls(step.calls);
        case "ping":
          return say("keepalive", {});
        case "frame":
          return event(step.body, step.event ?? String(step.body.type ?? ""));
        case "error": {
          const { message: text, code } = openaiError(step.error, step.message ?? "");
          // Here a failure always has a code.
          return say("response.failed", { response: response("failed", { error: { code: code ?? "invalid_prompt", message: text } }) });
        }
        case "end":
          return last(step.reason, step.usage ?? DEFAULT_USAGE);
      }
    },
  };
}

function toUsage(usage: UsageScript): Record<string, unknown> {
  return {
    input_tokens: usage.input,
    input_tokens_details: { cached_tokens: usage.cacheRead ?? 0, cache_write_tokens: usage.cacheWrite ?? 0 },
    output_tokens: usage.output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: usage.input + usage.output,
  };
}
