import { z } from "@hono/zod-openapi";
import type { Registry } from "../components/registry.ts";
import type { Deployment } from "./deployment.ts";
import { newRouter, route, type Router } from "./route.ts";
import { AgentSummary } from "./schemas/agent.ts";
import { agentSummaryToWire, DB_ID, modelOf } from "./wire.ts";

const Config = z
  .object({
    os_id: z.string(),
    name: z.string(),
    description: z.string().optional(),
    available_models: z.array(z.object({ id: z.string(), provider: z.string() })),
    os_database: z.string(),
    databases: z.array(z.string()),
    chat: z.object({ quick_prompts: z.record(z.string(), z.array(z.string())) }).optional(),
    session: z.object({
      dbs: z.array(z.object({ db_id: z.string(), domain_config: z.object({ display_name: z.string() }), tables: z.array(z.string()) })),
    }),
    agents: z.array(AgentSummary),
    teams: z.array(z.object({})),
    workflows: z.array(z.object({})),
    interfaces: z.array(z.object({ type: z.string(), version: z.string(), route: z.string() })),
  })
  .openapi("Config");

/** What a deployment is made of. */
export function config(registry: Registry, deployment: Deployment): Router {
  const router = newRouter();
  router.openapi(
    route({
      method: "get",
      path: "/config",
      guard: { scopes: ["config:read"] },
      summary: "What the deployment is made of",
      responses: { 200: { description: "Components, databases, models", content: { "application/json": { schema: Config } } } },
    }),
    (c) => {
      const models = registry.agents.map((agent) => modelOf(agent, c.env)).filter((model) => model !== undefined);
      const distinct = new Map(models.map((model) => [`${model.provider}:${model.id}`, model]));
      const prompts = Object.entries(deployment.quickPrompts).map(([id, questions]): [string, string[]] => [id, [...questions]]);
      const written: z.infer<typeof Config> = {
        os_id: deployment.id,
        name: deployment.name,
        description: deployment.description,
        available_models: [...distinct.values()],
        os_database: DB_ID,
        databases: [DB_ID],
        chat: prompts.length === 0 ? undefined : { quick_prompts: Object.fromEntries(prompts) },
        session: { dbs: [{ db_id: DB_ID, domain_config: { display_name: DB_ID }, tables: ["sessions"] }] },
        agents: registry.agents.map((agent) => agentSummaryToWire(agent, c.env)),
        teams: [],
        workflows: [],
        interfaces: [],
      };
      return c.json(written);
    },
  );
  return router;
}
