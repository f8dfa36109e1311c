import { newId } from "../domain/ids.ts";
import type { AssistantMessage, FinishReason } from "../domain/message.ts";
import type { RunEventBody } from "../domain/run-event.ts";
import type { Usage } from "../domain/usage.ts";
import { TextJoiner } from "../lib/text.ts";
import type { Model, ModelContext, ModelFailure, ModelPart, ModelRequest } from "../models/model.ts";
import { parseCalls, type RawCall } from "./parse-calls.ts";
import type { Turn, TurnPorts } from "./ports.ts";
import { errorText } from "./tool-words.ts";

/** What came of one model request. `closing` are the events that report its end; the caller stores them with the reply. */
export type StreamedReply =
  | { kind: "finished"; message: AssistantMessage; closing: RunEventBody[] }
  | { kind: "failed"; error: ModelFailure; usage: Usage | undefined; partial: AssistantMessage | undefined; firstDelta: number | undefined }
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
  for await (const part of partsOf(model, request, context)) {
    if (ports.signal.aborted) return { kind: "cancelled" };
    if (part.type !== "finish" && part.type !== "error") reply.heard();
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
        reply.settle();
        return { kind: "failed", error: failureOf(part.error), usage: part.usage, partial: partialMessage(turn, reply, part.usage), firstDelta: reply.firstDelta };
    }
  }
  if (ports.signal.aborted) return { kind: "cancelled" };
  reply.settle();
  const error: ModelFailure = { kind: "protocol", message: `The model adapter "${model.provider}" ended its stream without saying how.` };
  return { kind: "failed", error, usage: undefined, partial: partialMessage(turn, reply), firstDelta: reply.firstDelta };
}

/** An adapter promises not to throw. One that does is at fault itself, and not the agent. */
async function* partsOf(model: Model, request: ModelRequest, context: ModelContext): AsyncGenerator<ModelPart> {
  try {
    yield* model.stream(request, context);
  } catch (error) {
    yield { type: "error", error: { kind: "protocol", message: `The model adapter "${model.provider}" threw: ${errorText(error)}` } };
  }
}

/** An abort that nobody here asked for: the turn is not cancelled, so it has to go on or to end. */
const failureOf = (error: ModelFailure): ModelFailure => (error.kind === "aborted" ? { ...error, kind: "interrupted" } : error);

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

  heard(): void {
    this.timeToFirstTokenMs ??= this.now() - this.#askedAt;
  }

  addText(piece: string): void {
    // A piece without text says nothing, and does not end a thought either.
    if (piece === "") return;
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
    const { signature, redacted } = proof;
    const opaque = { ...(signature === undefined ? {} : { signature }), ...(redacted === undefined ? {} : { redacted }) };
    if (this.#thinking === undefined) {
      // A model may keep its thoughts to itself and still want their proof back.
      if (Object.keys(opaque).length > 0) this.reasoning.push({ text: "", ...opaque });
      return;
    }
    this.#tellReasoning(this.#reasoningJoiner.end());
    const text = this.#thinking;
    this.#thinking = undefined;
    this.reasoning.push({ text, ...opaque });
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
function partialMessage(turn: Turn, reply: ReplyInProgress, usage?: Usage): AssistantMessage | undefined {
  if (reply.text === "" && reply.reasoning.length === 0) return undefined;
  return { ...startOf(turn, reply), toolCalls: [], finishReason: "other:interrupted", ...(usage === undefined ? {} : { usage }), partial: true };
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
