import { z } from "@hono/zod-openapi";
import { newRouter, route } from "./route.ts";

/** Clients such as agent-ui ask for teams before agents and need an answer, be it that there are none. */
export const teams = newRouter();

teams.openapi(
  route({
    method: "get",
    path: "/",
    guard: { scopes: ["teams:read"], list: true },
    summary: "List the teams",
    responses: { 200: { description: "None", content: { "application/json": { schema: z.array(z.object({})) } } } },
  }),
  (c) => c.json([]),
);
