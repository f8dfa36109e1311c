import { ADMIN_SCOPE } from "../auth/scopes.ts";
import { newRouter, route } from "./route.ts";
import { ListParkedParameters, ParkedPage } from "./schemas/projection.ts";
import { toIso } from "./wire.ts";
import { pageToWire } from "./wire/sessions.ts";

/** What sessions hold and lists do not show. */
export const projections = newRouter();

projections.openapi(
  route({
    method: "get",
    path: "/parked",
    guard: { scopes: [ADMIN_SCOPE] },
    summary: "List what the database refused",
    description:
      "Sessions and runs whose rows the database refused five times: the session holds them, lists and searches lack them. They are tried again when they change, and by the next release that is deployed.",
    request: { query: ListParkedParameters },
    responses: { 200: { description: "A page of them, the newest first", content: { "application/json": { schema: ParkedPage } } } },
  }),
  async (c) => {
    const { page, limit } = c.req.valid("query");
    const parked = await c.var.context.repositories.parkedProjections.list({ page: Math.max(1, page), limit });
    return c.json(
      pageToWire(parked, ({ sessionId, entity, reason, release, parkedAt }) => ({ session_id: sessionId, entity, reason, release, parked_at: toIso(parkedAt) })),
    );
  },
);
