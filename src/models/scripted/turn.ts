import type { ToolMessage } from "../../domain/message.ts";
import type { ModelRequest } from "../model.ts";

/** What a script usually asks of a request, read from its messages alone. */
export interface ScriptedTurn {
  /**
   * Which reply of the turn is asked for, from 0: how many the model has already given since the user last spoke. An attempt
   * that takes a lost one up again sees the same step, so it gets the same reply.
   */
  step: number;
  /** What the user said last. */
  input: string;
  /** Results of the turn's tool calls so far, in order. */
  results: ToolMessage[];
}

/** Reads where in its turn a request stands. */
export function turnOf(request: ModelRequest): ScriptedTurn {
  const last = request.messages.findLastIndex((message) => message.role === "user");
  const user = request.messages[last];
  const since = request.messages.slice(last + 1);
  return {
    // What a cancel or a failure cut off was no reply: the step it belongs to is asked for again.
    step: since.filter((message) => message.role === "assistant" && message.partial !== true).length,
    input: user?.role === "user" ? user.content : "",
    results: since.filter((message) => message.role === "tool"),
  };
}
