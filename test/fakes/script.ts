// What a fake provider plays, as plain data: a test in workerd or a story sends it over HTTP. The same script is spoken in
// the words of each vendor's wire by `anthropic-wire.ts`, `responses-wire.ts` and `chat-wire.ts`.

export interface CallScript {
  id: string;
  name: string;
  /** The argument text in pieces, as they are sent; `null` is a fragment with nothing in it. */
  fragments: (string | null)[];
  /** Anthropic's start value of the input. Default `{}`. */
  start?: Record<string, unknown>;
}

export interface UsageScript {
  /** Everything read, cached parts included. */
  input: number;
  output: number;
  cacheRead?: number;
  cacheWrite?: number;
  reasoning?: number;
}

export const ERROR_WORDS = [
  "overloaded",
  "rate_limited",
  "server_error",
  "authentication",
  "billing",
  "invalid_request",
  "context_overflow",
  "not_found",
  "unknown",
] as const;
export type ErrorWord = (typeof ERROR_WORDS)[number];

export type Step =
  /** Sends headers and the wire's first frame, as any step of the wire's own words does by itself. `usage` where a wire reports some that early. */
  | { type: "open"; usage?: UsageScript }
  | { type: "say"; text: string }
  /** A block of reasoning in deltas. `proof` is what only the provider understands: signature or encrypted content. */
  | { type: "think"; deltas: string[]; proof?: string }
  /** Reasoning that is shown to nobody (Anthropic's redacted block; elsewhere encrypted content without a summary). */
  | { type: "redact"; data: string }
  /** The model declines in the wire's own field for it; plain text where the wire has none. */
  | { type: "refuse"; text: string }
  | { type: "call"; call: CallScript }
  /** Several calls at once, their fragments in turns. */
  | { type: "calls"; calls: CallScript[] }
  /** A JSON frame as it is given. Sends no first frame by itself, nor do `raw` and `ping`. */
  | { type: "frame"; body: Record<string, unknown>; event?: string }
  /** Bytes as they are given: text, sent as UTF-8. */
  | { type: "raw"; text: string }
  | { type: "ping" }
  /** An answer without a stream. Only as the first step that sends something. */
  | { type: "http"; status: number; headers?: Record<string, string>; error?: ErrorWord; message?: string; body?: string }
  /** An error frame inside the stream; the stream then ends as that wire ends it. */
  | { type: "error"; error: ErrorWord; message?: string }
  | { type: "wait"; ms: number }
  /** Holds until the gate of this name is released, also if that was before. */
  | { type: "gate"; name: string }
  /** The last frame. `reason`: stop, tool, length, refusal, filter, or a word that is passed on as it is. */
  | { type: "end"; reason: string; usage?: UsageScript | false }
  /** The body ends in good order, without a last frame. */
  | { type: "eof" }
  /** The socket is cut. */
  | { type: "cut" };

export interface Script {
  steps: Step[];
  /** Cuts the bytes so that one chunk ends in the middle of each of these texts' UTF-8 encoding, wherever they come. */
  splitInside?: string[];
  /** Cuts everything into chunks of so many bytes. */
  chunkBytes?: number;
}

export const script = (...steps: Step[]): Script => ({ steps });

export const open = (usage?: UsageScript): Step => ({ type: "open", ...(usage && { usage }) });
export const say = (text: string): Step => ({ type: "say", text });
export const think = (deltas: string[], proof?: string): Step => ({ type: "think", deltas, ...(proof !== undefined && { proof }) });
export const redact = (data: string): Step => ({ type: "redact", data });
export const refuse = (text: string): Step => ({ type: "refuse", text });
export const frame = (body: Record<string, unknown>, event?: string): Step => ({ type: "frame", body, ...(event !== undefined && { event }) });
export const raw = (text: string): Step => ({ type: "raw", text });
export const ping = (): Step => ({ type: "ping" });
export const wait = (ms: number): Step => ({ type: "wait", ms });
export const gate = (name: string): Step => ({ type: "gate", name });
export const eof = (): Step => ({ type: "eof" });
export const cut = (): Step => ({ type: "cut" });
export const end = (reason = "stop", usage?: UsageScript | false): Step => ({ type: "end", reason, ...(usage !== undefined && { usage }) });
export const err = (error: ErrorWord, message?: string): Step => ({ type: "error", error, ...(message !== undefined && { message }) });

export function http(status: number, headers: Record<string, string> = {}, error?: ErrorWord, message?: string): Step {
  return { type: "http", status, headers, ...(error && { error }), ...(message !== undefined && { message }) };
}

/** One call; arguments given as an object go out in three fragments. */
export const call = (id: string, name: string, args: Record<string, unknown> | string | (string | null)[] = [], start?: Record<string, unknown>): Step => ({
  type: "call",
  call: callScript(id, name, args, start),
});

export function callScript(id: string, name: string, args: Record<string, unknown> | string | (string | null)[] = [], start?: Record<string, unknown>): CallScript {
  const fragments = Array.isArray(args) ? args : typeof args === "string" ? [args] : inThree(JSON.stringify(args));
  return { id, name, fragments, ...(start && { start }) };
}

export const calls = (...scripts: CallScript[]): Step => ({ type: "calls", calls: scripts });

function inThree(text: string): string[] {
  const third = Math.ceil(text.length / 3);
  return [text.slice(0, third), text.slice(third, 2 * third), text.slice(2 * third)].filter((piece) => piece !== "");
}

/** Fragments of several calls, one of each in turns, with the place of their call. */
export function inTurns(scripts: readonly CallScript[]): { place: number; fragment: string | null }[] {
  const longest = Math.max(0, ...scripts.map((one) => one.fragments.length));
  return Array.from({ length: longest }, (_, round) =>
    scripts.flatMap((one, place) => (round < one.fragments.length ? [{ place, fragment: one.fragments[round]! }] : [])),
  ).flat();
}

export const DEFAULT_USAGE: UsageScript = { input: 10, output: 5 };

/** What is played where nothing was queued. */
export const DEFAULT_SCRIPT: Script = script(say("ok"), end("stop"));

/** The key of a test in a user's message: `#` and a word. Scripts are queued by it, so that tests do not take each other's. */
export const keyOf = (text: string): string => /#([\w-]+)/.exec(text)?.[1] ?? "";
