import { z } from "@hono/zod-openapi";
import { authMode } from "../auth/mode.ts";
import type { Registry } from "../components/registry.ts";
import { missingBindings, type PlatformEnv } from "../env.ts";
import { openDatabase } from "../storage/database.ts";
import { MIGRATIONS, pendingMigrations } from "../storage/migrations-applied.ts";
import { countParked } from "../storage/repositories/parked-projections.ts";
import { AGENT_OS_CONTRACT, VERSION } from "../version.ts";
import type { Deployment } from "./deployment.ts";
import { newRouter, route, type Router } from "./route.ts";
import { toIso } from "./wire.ts";

const Health = z
  .object({
    status: z.literal("ok"),
    instantiated_at: z.iso.datetime(),
    parked_projections: z
      .number()
      .int()
      .nullable()
      .optional()
      .openapi({ description: "Rows that the database refused, up to 1,000 of them: GET /projections/parked lists them. Absent: none. Null: the database did not say." }),
  })
  .openapi("Health");

const Unhealthy = z
  .object({
    status: z.literal("unavailable"),
    detail: z.string(),
    missing_bindings: z.array(z.string()),
    unapplied_migrations: z.array(z.string()),
  })
  .openapi("Unhealthy");

const Info = z
  .object({
    os_id: z.string(),
    name: z.string(),
    os_version: z.string(),
    agno_version: z.string().openapi({ description: "The AgentOS whose HTTP contract this is." }),
    version: z.string().openapi({ description: "signalbox's own." }),
    schema_version: z.string().openapi({ description: "The last migration this release was built with." }),
    agent_count: z.number().int(),
    team_count: z.number().int(),
    workflow_count: z.number().int(),
    mcp: z.object({ enabled: z.boolean(), path: z.string().nullable(), oauth: z.object({}).nullable() }),
    auth_mode: z.enum(["none", "security_key", "jwt"]),
    user_isolation: z.boolean().openapi({ description: "Whether each user sees their own rows alone." }),
  })
  .openapi("Info");

/** What a deployment says of itself to anyone. */
export function health(registry: Registry, deployment: Deployment): Router {
  const router = newRouter();
  // The clock stands still in global scope, so an isolate's age is counted from its first look.
  let instantiatedAt: number | undefined;

  router.openapi(
    route({
      method: "get",
      path: "/",
      guard: "public",
      summary: "Where things are",
      responses: { 200: { description: "Paths", content: { "application/json": { schema: z.record(z.string(), z.string()) } } } },
    }),
    (c) => c.json({ name: deployment.name, health: "/health", info: "/info", docs: "/docs" }),
  );

  router.openapi(
    route({
      method: "get",
      path: "/health",
      guard: "public",
      summary: "Whether the deployment is complete",
      responses: {
        200: { description: "It is", content: { "application/json": { schema: Health } } },
        503: { description: "What is missing, by name", content: { "application/json": { schema: Unhealthy } } },
      },
    }),
    async (c) => {
      instantiatedAt ??= Date.now();
      const missing = await whatIsMissing(c.env);
      if (missing === undefined) return c.json({ status: "ok", instantiated_at: toIso(instantiatedAt), ...(await whatIsParked(c.env)) });
      return c.json({ status: "unavailable", ...missing }, 503);
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/info",
      guard: "public",
      summary: "Versions and modes",
      responses: { 200: { description: "Nulls are there", content: { "application/json": { schema: Info } } } },
    }),
    (c) => {
      const mode = authMode(c.env);
      return c.json({
        os_id: deployment.id,
        name: deployment.name,
        os_version: deployment.version,
        agno_version: AGENT_OS_CONTRACT,
        version: VERSION,
        schema_version: MIGRATIONS.at(-1),
        agent_count: registry.agents.length,
        team_count: 0,
        workflow_count: 0,
        mcp: { enabled: false, path: null, oauth: null },
        auth_mode: mode.kind === "security_key" ? "security_key" : "none",
        // Whoever holds the key sees every row, and so does everyone where there is none.
        user_isolation: false,
      });
    },
  );

  return router;
}

async function whatIsMissing(env: PlatformEnv): Promise<Omit<z.infer<typeof Unhealthy>, "status"> | undefined> {
  const bindings = missingBindings(env);
  if (bindings.length > 0) {
    return { detail: `Add to wrangler.toml the bindings ${bindings.join(", ")}.`, missing_bindings: bindings, unapplied_migrations: [] };
  }
  let pending: string[];
  try {
    pending = await pendingMigrations(env.DB);
  } catch {
    return { detail: "The database DB could not be read.", missing_bindings: [], unapplied_migrations: [] };
  }
  if (pending.length === 0) return undefined;
  return { detail: `Apply the migrations ${pending.join(", ")}: wrangler d1 migrations apply DB.`, missing_bindings: [], unapplied_migrations: pending };
}

/** Parked rows are for people to look at; they make nothing unavailable, and neither does not knowing of them. */
async function whatIsParked(env: PlatformEnv): Promise<{ parked_projections?: number | null }> {
  try {
    const parked = await countParked(openDatabase(env));
    return parked === 0 ? {} : { parked_projections: parked };
  } catch {
    return { parked_projections: null };
  }
}
