import { newId } from "../domain/ids.ts";
import type { AssistantMessage, FinishReason } from "../domain/message.ts";
import type { RunEventBody } from "../domain/run-event.ts";
import type { Usage } from "../domain/usage.ts";
import { TextJoiner } from "../lib/text.ts";
import type { ModelFailure, ModelRequest } from "../models/model.ts";
import { parseCalls, type RawCall } from "./parse-calls.ts";
import type { Turn, TurnPorts } from "./ports.ts";

/** What came of one model request. `closing` are the events that report its end; the caller stores them with the reply. */
export type StreamedReply =
  | { kind: "finished"; message: AssistantMessage; closing: RunEventBody[] }
  | { kind: "failed"; error: ModelFailure; partial: AssistantMessage | undefined; firstDelta: number | undefined }
  | { kind: "cancelled" };

/** Follows one reply: tells deltas as they come, and gives back the message once it is whole. */
export async function streamModel(turn: Turn, request: ModelRequest, ports: TurnPorts): Promise<StreamedReply> {
  const { model, agent } = turn;
  const askedAt = ports.clock.now();
  // Not awaited: it is stored and told in order anyway, and the provider need not wait for our disk.
  const announced = ports.emit({ type: "model.started", model: model.id, provider: model.provider });
  announced.catch(() => {});

  const reply = new ReplyInProgress(ports, askedAt);
  const context = {
    env: ports.env as unknown as Record<string, unknown>,
    signal: ports.signal,
    ...(agent.stallTimeoutMs === undefined ? {} : { stallTimeoutMs: agent.stallTimeoutMs }),
  };
  for await (const part of model.stream(request, context)) {
    if (ports.signal.aborted) return { kind: "cancelled" };
    switch (part.type) {
      case "text":
        reply.addText(part.text);
        break;
      case "reasoning":
        reply.addReasoning(part.text);
        break;
      case "reasoning-end":
        reply.endReasoning(part);
        break;
      case "tool-call":
        reply.calls.push(part);
        break;
      case "finish":
        reply.settle();
        return finished(turn, reply, part.reason, part.usage, part.providerData);
      case "error":
        if (part.error.kind === "aborted") return { kind: "cancelled" };
        reply.settle();
        return { kind: "failed", error: part.error, partial: partialMessage(turn, reply), firstDelta: reply.firstDelta };
    }
  }
  reply.settle();
  const error: ModelFailure = { kind: "protocol", message: `The model adapter "${model.provider}" ended its stream without saying how.` };
  return { kind: "failed", error, partial: partialMessage(turn, reply), firstDelta: reply.firstDelta };
}

/** The pieces of a reply while they come. */
class ReplyInProgress {
  text = "";
  readonly reasoning: NonNullable<AssistantMessage["reasoning"]> = [];
  readonly calls: RawCall[] = [];
  firstDelta: number | undefined;
  timeToFirstTokenMs: number | undefined;
  readonly #ports: TurnPorts;
  readonly #askedAt: number;
  readonly #textJoiner = new TextJoiner();
  readonly #reasoningJoiner = new TextJoiner();
  #thinking: string | undefined;

  constructor(ports: TurnPorts, askedAt: number) {
    this.#ports = ports;
    this.#askedAt = askedAt;
  }

  now(): number {
    return this.#ports.clock.now();
  }

  addText(piece: string): void {
    this.endReasoning({});
    this.#tellText(this.#textJoiner.push(piece));
  }

  addReasoning(piece: string): void {
    if (this.#thinking === undefined) {
      this.#thinking = "";
      this.#tell({ type: "reasoning.started" });
    }
    this.#tellReasoning(this.#reasoningJoiner.push(piece));
  }

  endReasoning(proof: { signature?: string; redacted?: string }): void {
    if (this.#thinking === undefined) {
      if (proof.redacted !== undefined) this.reasoning.push({ text: "", redacted: proof.redacted });
      return;
    }
    this.#tellReasoning(this.#reasoningJoiner.end());
    const text = this.#thinking;
    this.#thinking = undefined;
    const { signature, redacted } = proof;
    this.reasoning.push({ text, ...(signature === undefined ? {} : { signature }), ...(redacted === undefined ? {} : { redacted }) });
    this.#tell({ type: "reasoning.completed", text });
  }

  /** Nothing more will come: half characters that wait for their partner are told as what they are. */
  settle(): void {
    this.endReasoning({});
    this.#tellText(this.#textJoiner.end());
  }

  #tellText(text: string): void {
    if (text === "") return;
    this.text += text;
    this.#tell({ type: "text.delta", text });
  }

  #tellReasoning(text: string): void {
    if (text === "") return;
    this.#thinking += text;
    this.#tell({ type: "reasoning.delta", text });
  }

  #tell(event: RunEventBody): void {
    this.timeToFirstTokenMs ??= this.#ports.clock.now() - this.#askedAt;
    this.firstDelta ??= this.#ports.nextIndex();
    // A refused write means this attempt is no longer the living one; the next awaited commit stops the turn.
    this.#ports.emit(event).catch(() => {});
  }
}

function finished(turn: Turn, reply: ReplyInProgress, reason: FinishReason, usage: Usage | undefined, providerData?: Record<string, unknown>): StreamedReply {
  const { model } = turn;
  const message: AssistantMessage = {
    ...startOf(turn, reply),
    toolCalls: parseCalls(reply.calls, reason, idsInUse(turn)),
    finishReason: reason,
    ...(usage === undefined ? {} : { usage }),
    ...(providerData === undefined ? {} : { providerData }),
  };
  const timing = reply.timeToFirstTokenMs === undefined ? {} : { timeToFirstTokenMs: reply.timeToFirstTokenMs };
  const closing: RunEventBody[] = [
    { type: "model.completed", model: model.id, provider: model.provider, ...(usage === undefined ? {} : { usage }), ...timing, finishReason: reason },
  ];
  return { kind: "finished", message, closing };
}

/** What a failed request left on people's screens. Its calls are gone: none of them was whole for certain. */
function partialMessage(turn: Turn, reply: ReplyInProgress): AssistantMessage | undefined {
  if (reply.text === "" && reply.reasoning.length === 0) return undefined;
  return { ...startOf(turn, reply), toolCalls: [], finishReason: "other:interrupted", partial: true };
}

function startOf(turn: Turn, reply: ReplyInProgress) {
  return {
    id: newId(),
    role: "assistant" as const,
    createdAt: reply.now(),
    content: reply.text,
    ...(reply.reasoning.length === 0 ? {} : { reasoning: reply.reasoning }),
    provider: turn.model.provider,
    model: turn.model.id,
    ...(reply.timeToFirstTokenMs === undefined ? {} : { timeToFirstTokenMs: reply.timeToFirstTokenMs }),
  };
}

function* idsInUse(turn: Turn): Iterable<string> {
  for (const message of turn.messages) if (message.role === "assistant") for (const call of message.toolCalls) yield call.id;
}
