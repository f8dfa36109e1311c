import type { Usage } from "../domain/usage.ts";
import { modelFailure, withoutSecrets } from "./failure.ts";
import { readFrames } from "./frames.ts";
import type { Frame } from "./frames.ts";
import { DEFAULT_STALL_TIMEOUT_MS } from "./model.ts";
import type { ModelContext, ModelFailure, ModelPart } from "./model.ts";
import { watchStall } from "./stall.ts";

/** A provider's frames become our parts. Made new for each reply; it keeps what is open. */
export interface ReplyReader {
  /** Parts that one frame gives. A `finish` or `error` among them ends the reply. */
  read(frame: Frame): ModelPart[];
  /** Asked when the stream is over: what completes the reply, or nothing if its last frame never came. */
  end(): ModelPart[];
  /** What was reported so far: a reply that fails was paid for as well. */
  usage(): Usage | undefined;
}

/** One request, as a provider's `index.ts` puts it together. */
export interface Upstream {
  /** The provider's name, for sentences. */
  name: string;
  /** Sends the request; resolves once the headers of a successful answer are there. */
  send(signal: AbortSignal): Promise<Response>;
  reader: ReplyReader;
  /** What a rejected `send` means. */
  failureOf(error: unknown): ModelFailure;
  /** Texts that no failure may hold. */
  secrets: readonly string[];
}

/**
 * Follows one reply to its end, whatever the provider does: yields parts and then exactly one `finish` or `error`, never
 * throws, and leaves no request open, also when the consumer stops listening.
 *
 * The SDKs build, sign and send the request, and tell refusals apart; the body is read here. Their own streams end
 * without a word on an abort and on a body that stops early, which must not look like a finished reply, and they give
 * up a whole reply for one line that is not JSON.
 */
export async function* streamReply(upstream: Upstream, context: ModelContext): AsyncGenerator<ModelPart> {
  const { name, reader } = upstream;
  const watch = watchStall(context.signal, context.stallTimeoutMs ?? DEFAULT_STALL_TIMEOUT_MS);

  const failed = (failure: ModelFailure): ModelPart => {
    const usage = reader.usage();
    return { type: "error", error: withoutSecrets(failure, upstream.secrets), ...(usage && { usage }) };
  };
  // Our own reasons come first: after an abort the runtime reports whatever the broken connection looks like to it.
  const broken = (failureOf: () => ModelFailure): ModelPart => {
    if (context.signal.aborted) return failed(modelFailure(name, "aborted"));
    if (watch.stalled()) {
      return failed(modelFailure(name, "stalled", { detail: `nothing came for ${context.stallTimeoutMs ?? DEFAULT_STALL_TIMEOUT_MS} ms` }));
    }
    return failed(failureOf());
  };

  try {
    if (context.signal.aborted) return yield failed(modelFailure(name, "aborted"));

    let response: Response;
    try {
      response = await watch.during(upstream.send(watch.signal));
    } catch (error) {
      return yield broken(() => upstream.failureOf(error));
    }
    if (!response.body) return yield failed(modelFailure(name, "protocol", { status: response.status, detail: "the answer has no body" }));

    const frames = readFrames(response.body, watch);
    let understood = false;
    let lost: unknown;
    while (true) {
      let next: IteratorResult<Frame>;
      try {
        next = await frames.next();
      } catch (error) {
        lost = error;
        break;
      }
      if (next.done) break;
      if (context.signal.aborted) return yield failed(modelFailure(name, "aborted"));
      understood = true;
      for (const part of reader.read(next.value)) {
        if (part.type === "error") return yield failed(part.error);
        yield part;
        if (part.type === "finish") return;
      }
    }

    if (context.signal.aborted) return yield failed(modelFailure(name, "aborted"));
    // On a wire whose reply is whole before its stream ends, what happens to the rest of the stream does not matter.
    const rest = reader.end();
    if (rest.length > 0) return yield* rest;
    if (lost !== undefined) return yield broken(() => modelFailure(name, "connection", { detail: String((lost as Error)?.message ?? lost) }));
    const type = response.headers.get("content-type") ?? "";
    if (!understood && !type.includes("event-stream")) {
      return yield failed(modelFailure(name, "protocol", { status: response.status, detail: `the answer is ${type || "of no declared type"}; is the base URL right?` }));
    }
    yield failed(modelFailure(name, "interrupted"));
  } catch (error) {
    // Only a reader that met a frame it could not bear gets here; the loop above it must not see an exception.
    yield failed(modelFailure(name, "protocol", { detail: String((error as Error)?.message ?? error) }));
  } finally {
    watch.close();
  }
}
