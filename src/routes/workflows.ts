import { z } from "@hono/zod-openapi";
import { newRouter, route } from "./route.ts";

/** Clients that look for workflows need an answer, be it that there are none. */
export const workflows = newRouter();

workflows.openapi(
  route({
    method: "get",
    path: "/",
    guard: { scopes: ["workflows:read"], list: true },
    summary: "List the workflows",
    responses: { 200: { description: "None", content: { "application/json": { schema: z.array(z.object({})) } } } },
  }),
  (c) => c.json([]),
);
