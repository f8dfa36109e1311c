import OpenAI from "openai";
import { readEndpoint } from "../endpoint.ts";
import type { EndpointOptions } from "../endpoint.ts";
import { modelFailure } from "../failure.ts";
import type { Model, ModelContext, ModelPart, ModelRequest } from "../model.ts";
import { MAX_TIMER_MS } from "../stall.ts";
import { streamReply } from "../stream-reply.ts";
import type { ReplyReader } from "../stream-reply.ts";
import { toChatRequest } from "./chat-request.ts";
import { readChatStream } from "./chat-stream.ts";
import { failureOfError } from "./errors.ts";
import { toResponsesRequest } from "./responses-request.ts";
import { readResponsesStream } from "./responses-stream.ts";

export interface OpenAIOptions extends EndpointOptions {
  /**
   * Whether the model reasons. It decides what may be asked of it: reasoning models refuse a temperature, the others refuse
   * everything about reasoning. Default: by the model's name; set it for a model whose name does not tell.
   */
  reasoning?: boolean;
}

/**
 * An OpenAI model through the Responses API. Nothing is stored at the provider: the history is sent whole, with the
 * encrypted reasoning of earlier steps. The key is read from `OPENAI_API_KEY` and the address from `OPENAI_BASE_URL`, at
 * the moment of each call.
 *
 * ```ts
 * defineAgent({ id: "support", model: openai("gpt-5.2") });
 * ```
 */
export function openai(id: string, options: OpenAIOptions = {}): Model {
  const name = "OpenAI";
  return {
    provider: "openai",
    id,
    stream: (request, context) =>
      streamOpenAI(name, options, context, readResponsesStream(name), (client, signal) =>
        client.responses.create(toResponsesRequest(request, id, options), { signal }).asResponse(),
      ),
  };
}

/**
 * A model behind a server that speaks Chat Completions: OpenAI's older API, and most gateways and local servers. Name the
 * server in `OPENAI_BASE_URL`, or with the options for each model.
 *
 * ```ts
 * openaiChat("llama3.3", { baseUrl: "http://localhost:11434/v1" });
 * openaiChat("kimi-k2", { baseUrl: "https://api.moonshot.ai/v1", apiKeyVariable: "MOONSHOT_API_KEY" });
 * ```
 */
export function openaiChat(id: string, options: EndpointOptions = {}): Model {
  const name = "The Chat Completions server";
  return {
    provider: "openai-chat",
    id,
    stream: (request: ModelRequest, context) =>
      streamOpenAI(name, options, context, readChatStream(name), (client, signal, ownServer) =>
        client.chat.completions.create(toChatRequest(request, id, { ownServer }), { signal }).asResponse(),
      ),
  };
}

async function* streamOpenAI(
  name: string,
  options: EndpointOptions,
  context: ModelContext,
  reader: ReplyReader,
  send: (client: OpenAI, signal: AbortSignal, ownServer: boolean) => Promise<Response>,
): AsyncGenerator<ModelPart> {
  const found = readEndpoint(context.env, { apiKey: "OPENAI_API_KEY", baseUrl: "OPENAI_BASE_URL" }, options);
  if (!found.ok) return yield { type: "error", error: modelFailure(name, "misconfigured", { detail: found.problem }) };
  const { apiKey, baseUrl } = found.endpoint;
  yield* streamReply(
    {
      name,
      // Retries are the engine's: it checkpoints and tells of each. The silence before the headers is watched by
      // streamReply, so the SDK's own clock is put out of the way. Its log could hold what users wrote.
      send: async (signal) =>
        send(
          new OpenAI({ apiKey, baseURL: baseUrl ?? null, maxRetries: 0, timeout: MAX_TIMER_MS, logLevel: "off", defaultHeaders: options.headers }),
          signal,
          baseUrl === undefined || new URL(baseUrl).hostname === "api.openai.com",
        ),
      reader,
      failureOf: (error) => failureOfError(name, error),
      secrets: [apiKey, ...Object.values(options.headers ?? {})],
    },
    context,
  );
}
