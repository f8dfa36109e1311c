import { z } from "zod";
import type { SessionCommands } from "./session/commands.ts";

/** The session object as the rest of the Worker sees it. */
export type SessionNamespace = DurableObjectNamespace<SessionCommands & Rpc.DurableObjectBranded>;

/** The bindings and settings the platform itself reads. Authors' own bindings are named by `Cloudflare.Env`. */
export interface PlatformEnv {
  DB: D1Database;
  SESSIONS: SessionNamespace;
  TASKS?: Queue;
  MEDIA?: R2Bucket;
  /** Static files of the docs page. */
  ASSETS?: Fetcher;
  /** The operator's key. Where it is set, requests must carry it. */
  OS_SECURITY_KEY?: string;
  /** `none` opens the deployment to anyone. Unset: whatever is configured, and nothing configured answers 503. */
  SIGNALBOX_AUTH?: string;
  /** Origins that browsers may call from, separated by commas, beside AgentOS's own list. */
  CORS_ORIGINS?: string;
  /** Names the deployment: what one could not store, the next one tries again. */
  CF_VERSION_METADATA?: WorkerVersionMetadata;
}

const binding = z.custom<object>((value) => typeof value === "object" && value !== null);

const Required = z.object({ DB: binding, SESSIONS: binding });

/** Names the bindings that are missing, in the words of `wrangler.toml`. Empty when all are there. */
export function missingBindings(env: object): string[] {
  const parsed = Required.safeParse(env);
  return parsed.success ? [] : parsed.error.issues.map((issue) => String(issue.path[0]));
}
