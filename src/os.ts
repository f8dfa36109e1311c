import { sweep } from "./background/cron.ts";
import type { AgentDefinition } from "./define/agent.ts";
import { makeRegistry, type Registry } from "./components/registry.ts";
import { missingBindings, type PlatformEnv } from "./env.ts";
import { systemClock } from "./lib/clock.ts";
import { anthropic } from "./models/anthropic/index.ts";
import type { Model } from "./models/model.ts";
import { openai, openaiChat } from "./models/openai/index.ts";
import { resolveModel } from "./models/resolve.ts";
import { scriptedModels } from "./models/scripted.ts";
import { makeRoutes } from "./routes/index.ts";
import type { Router } from "./routes/route.ts";
import { wireEncoder } from "./routes/wire.ts";
import { makeAgentSession } from "./session/agent-session.ts";
import { VERSION } from "./version.ts";

export interface AgentOSOptions {
  agents: readonly AgentDefinition[];
  /** Names the deployment to clients. Default `signalbox`. */
  id?: string;
  /** What people see. Default: the id. */
  name?: string;
  description?: string;
  /** The author's version of the deployment. Default `"1.0.0"`. */
  version?: string;
  /** Providers for models that are named by a string, `"provider:id"`, beside those that come with the package. */
  models?: Readonly<Record<string, (id: string) => Model>>;
  /** Origins that browsers may call from, beside AgentOS's own. */
  corsOrigins?: readonly string[];
  /** Questions to begin with, by component id; clients show them. */
  quickPrompts?: Readonly<Record<string, readonly string[]>>;
}

export interface AgentOS {
  fetch(request: Request, env: object, executionContext: ExecutionContext): Promise<Response>;
  queue(batch: MessageBatch): Promise<void>;
  scheduled(tick: ScheduledController, env: object): Promise<void>;
  /** The Hono app, to mount beside routes of your own. */
  routes: Router;
  /** The session's class, to extend and export under its binding's name. */
  AgentSession: ReturnType<typeof makeAgentSession>;
  registry: Registry;
}

const PROVIDERS: Readonly<Record<string, (id: string) => Model>> = {
  anthropic,
  openai,
  "openai-chat": openaiChat,
  scripted: scriptedModels({}),
};

/** Seconds before a message that this version does not understand is looked at again, perhaps by a newer one. */
const NOT_UNDERSTOOD_DELAY = 60;

/**
 * Puts a deployment together. Called once, in global scope: it reads no binding and does no I/O.
 *
 * ```ts
 * const os = createAgentOS({ agents: [sales] });
 * export class AgentSession extends os.AgentSession {}
 * export default os;
 * ```
 *
 * @throws RangeError when there is nothing to run, or two definitions have the same id and version.
 */
export function createAgentOS(options: AgentOSOptions): AgentOS {
  if (options.agents.length === 0) throw new RangeError("createAgentOS needs at least one agent.");
  const registry = makeRegistry({ agents: options.agents });
  const providers = { ...PROVIDERS, ...options.models };
  const id = options.id ?? "signalbox";
  const routes = makeRoutes(registry, {
    id,
    name: options.name ?? id,
    description: options.description,
    version: options.version ?? "1.0.0",
    corsOrigins: options.corsOrigins ?? [],
    quickPrompts: options.quickPrompts ?? {},
  });
  const AgentSession = makeAgentSession({
    registry,
    encoder: wireEncoder,
    release: releaseOf,
    resolveModel: (choice, env) => {
      const chosen = typeof choice === "function" ? choice(env) : choice;
      return typeof chosen === "string" ? resolveModel(chosen, providers) : chosen;
    },
  });
  return {
    // Bindings are checked where they are used, by name; until then they are whatever the author's Worker has.
    fetch: async (request, env, executionContext) => routes.fetch(request, env as PlatformEnv, executionContext),
    async queue(batch) {
      // Nothing sends messages yet. One that arrives comes from another version: it must not be lost here.
      batch.retryAll({ delaySeconds: NOT_UNDERSTOOD_DELAY });
    },
    async scheduled(_tick, env) {
      // A deployment that lacks bindings has nothing to look after; /health names them.
      if (missingBindings(env).length === 0) await sweep(env as PlatformEnv, systemClock, releaseOf(env));
    },
    routes,
    AgentSession,
    registry,
  };
}

/** What is deployed: the package's version, with the deployment's own id where the platform says it. */
function releaseOf(env: object): string {
  const deployment = (env as PlatformEnv).CF_VERSION_METADATA?.id;
  return deployment === undefined ? VERSION : `${VERSION}+${deployment}`;
}
