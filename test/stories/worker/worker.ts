import { type AgentOptions, createAgentOS, defineAgent } from "signalbox";
import * as tools from "./tools.ts";

/** The app that the stories run: agents whose model is the fake provider, and tools that act on the world server. */

const common = {
  tools: Object.values(tools),
  instructions: "Do what the script says.",
  // Also what was cancelled or failed: a history with those in it is the one that is hard to keep valid.
  addHistoryToContext: true,
  historySkipStatuses: ["pending", "running", "paused"],
  // Nobody is there to say what became of a call.
  onUnknown: "fail",
} satisfies Partial<AgentOptions>;

const os = createAgentOS({
  agents: [
    defineAgent({ ...common, id: "chat", name: "Chat Completions", model: "openai-chat:fake" }),
    defineAgent({ ...common, id: "claude", name: "Messages", model: "anthropic:fake" }),
    // History as it is by default: finished runs alone.
    defineAgent({ ...common, id: "plain", historySkipStatuses: undefined, model: "openai-chat:fake" }),
    defineAgent({ ...common, id: "stubborn", model: "openai-chat:fake", retries: 3, delayBetweenRetries: 50 }),
    defineAgent({ ...common, id: "patient", model: "openai-chat:fake", retries: 3, delayBetweenRetries: 60_000 }),
  ],
});

/** What a story may ask of an object beside the platform's own commands. */
export class AgentSession extends os.AgentSession {
  /** Another one after every time the object was taken out of memory. */
  readonly #instance = crypto.randomUUID();

  instance(): string {
    return this.#instance;
  }

  /** Takes the object out of memory in the middle of whatever it does, as a deploy or a fault of the platform does. */
  evict(): void {
    this.ctx.abort("evicted by a story");
  }
}

interface StoryEnv {
  DB: D1Database;
  SESSIONS: DurableObjectNamespace<AgentSession>;
}

export default {
  async fetch(request, env, context) {
    const url = new URL(request.url);
    if (!url.pathname.startsWith("/__story/")) return os.fetch(request, env, context);
    const session = env.SESSIONS.get(env.SESSIONS.idFromName(url.searchParams.get("session") ?? ""));
    switch (url.pathname) {
      case "/__story/d1": {
        const { sql, values } = await request.json<{ sql: string; values: unknown[] }>();
        const { results } = await env.DB.prepare(sql)
          .bind(...values)
          .run();
        return Response.json(results);
      }
      case "/__story/instance":
        return new Response(await session.instance());
      case "/__story/evict":
        // The call itself breaks with the object.
        await Promise.resolve(session.evict()).catch(() => {});
        return new Response("evicted");
      default:
        return new Response("no such story route", { status: 404 });
    }
  },
  queue: (batch) => os.queue(batch),
  scheduled: (tick, env) => os.scheduled(tick, env),
} satisfies ExportedHandler<StoryEnv>;
