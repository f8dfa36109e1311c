import Anthropic from "@anthropic-ai/sdk";
import { readEndpoint } from "../endpoint.ts";
import type { EndpointOptions } from "../endpoint.ts";
import { modelFailure } from "../failure.ts";
import type { Model } from "../model.ts";
import { MAX_TIMER_MS } from "../stall.ts";
import { streamReply } from "../stream-reply.ts";
import { failureOfError, PROVIDER_NAME } from "./errors.ts";
import { toMessagesRequest } from "./request.ts";
import { readMessagesStream } from "./stream.ts";

// https://platform.claude.com/docs/en/api/messages

export interface AnthropicOptions extends EndpointOptions {
  /** Upper bound of a reply where the agent sets none. The API wants one with every request. Default 32 000. */
  maxOutputTokens?: number;
  /** Mark the stable prefix of each request for the prompt cache. Default `true`; some gateways refuse the marks. */
  promptCaching?: boolean;
}

/**
 * A Claude model through Anthropic's Messages API. The key is read from `ANTHROPIC_API_KEY` and the address from
 * `ANTHROPIC_BASE_URL`, at the moment of each call.
 *
 * ```ts
 * defineAgent({ id: "support", model: anthropic("claude-sonnet-5") });
 * ```
 */
export function anthropic(id: string, options: AnthropicOptions = {}): Model {
  return {
    provider: "anthropic",
    id,
    async *stream(request, context) {
      const found = readEndpoint(context.env, { apiKey: "ANTHROPIC_API_KEY", baseUrl: "ANTHROPIC_BASE_URL" }, options);
      if (!found.ok) return yield { type: "error", error: modelFailure(PROVIDER_NAME, "misconfigured", { detail: found.problem }) };
      const { apiKey, baseUrl } = found.endpoint;
      yield* streamReply(
        {
          name: PROVIDER_NAME,
          // Retries are the engine's: it checkpoints and tells of each. The silence before the headers is watched by
          // streamReply, so the SDK's own clock is put out of the way. Its log could hold what users wrote.
          send: async (signal) =>
            new Anthropic({ apiKey, baseURL: baseUrl ?? null, maxRetries: 0, timeout: MAX_TIMER_MS, logLevel: "off", defaultHeaders: options.headers })
              .messages.create(toMessagesRequest(request, id, options), { signal })
              .asResponse(),
          reader: readMessagesStream(),
          failureOf: failureOfError,
          secrets: [apiKey, ...Object.values(options.headers ?? {})],
        },
        context,
      );
    },
  };
}
