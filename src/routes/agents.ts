import { z } from "@hono/zod-openapi";
import { reachOf } from "../auth/scopes.ts";
import { findComponent } from "../operations/find-component.ts";
import { newRouter, route } from "./route.ts";
import { AgentResponse } from "./schemas/agent.ts";
import { agentToWire } from "./wire.ts";

export const agents = newRouter();

agents.openapi(
  route({
    method: "get",
    path: "/",
    guard: { scopes: ["agents:read"], list: true },
    summary: "List the agents",
    responses: { 200: { description: "Those that the asker may read", content: { "application/json": { schema: z.array(AgentResponse) } } } },
  }),
  (c) => {
    const reach = reachOf(c.var.principal.scopes, "agents:read");
    const readable = c.var.context.registry.agents.filter((agent) => reach === "all" || reach.has(agent.id));
    return c.json(readable.map((agent) => agentToWire(agent, c.env)));
  },
);

agents.openapi(
  route({
    method: "get",
    path: "/{agent_id}",
    guard: { scopes: ["agents:read"], param: "agent_id" },
    summary: "Describe an agent",
    request: { params: z.object({ agent_id: z.string() }) },
    responses: { 200: { description: "The agent, defaults filled in", content: { "application/json": { schema: AgentResponse } } } },
  }),
  (c) => c.json(agentToWire(findComponent(c.var.context, "agent", c.req.valid("param").agent_id), c.env)),
);
