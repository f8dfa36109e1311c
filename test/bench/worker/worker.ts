import { createAgentOS, defineAgent, defineTool } from "signalbox";
import { z } from "zod";
import { WriteCounter } from "./counting.ts";

interface BenchEnv {
  SESSIONS: DurableObjectNamespace;
  DB: D1Database;
  /** Set: sessions count what they write. */
  COUNTING?: string;
}

const lookup = defineTool({
  name: "lookup",
  description: "Look up a customer by id.",
  input: z.object({ id: z.string() }),
  effect: "none",
  execute: ({ id }) => ({ id, name: "Ada", plan: "free" }),
});

/** Shows the model everything that was said before, as the bare Worker does. */
const conversation = { model: "openai-chat:fake", instructions: "You are a helpful assistant.", addHistoryToContext: true, numHistoryRuns: 1_000 };

const os = createAgentOS({
  agents: [defineAgent({ id: "bench", ...conversation }), defineAgent({ id: "bench-tools", ...conversation, tools: [lookup] })],
});

/** Not a path of the product: what a session has written so far. */
const COUNTS = "/bench/counts";

export class AgentSession extends os.AgentSession {
  readonly #counter: WriteCounter | undefined;

  constructor(context: DurableObjectState, env: Cloudflare.Env) {
    const bindings = env as unknown as BenchEnv;
    const counter = bindings.COUNTING === undefined ? undefined : new WriteCounter();
    super(counter?.watch(context) ?? context, (counter?.watchBindings(bindings) ?? bindings) as unknown as Cloudflare.Env);
    this.#counter = counter;
  }

  override async fetch(request: Request): Promise<Response> {
    if (new URL(request.url).pathname !== COUNTS) return await (super.fetch as NonNullable<DurableObject["fetch"]>)(request);
    return Response.json({ ...this.#counter?.read(), databaseSize: this.ctx.storage.sql.databaseSize });
  }
}

export default {
  ...os,
  fetch(request: Request, env: BenchEnv, context: ExecutionContext): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname !== COUNTS) return os.fetch(request, env, context);
    return env.SESSIONS.get(env.SESSIONS.idFromName(url.searchParams.get("session_id") ?? "")).fetch(`http://session${COUNTS}`);
  },
};
