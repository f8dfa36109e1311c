import { z } from "@hono/zod-openapi";
import { notFound } from "../domain/errors.ts";
import { isSessionId } from "../domain/ids.ts";
import { userOf } from "../operations/start-run.ts";
import { newRouter, route } from "./route.ts";

export const sockets = newRouter();

sockets.openapi(
  route({
    method: "get",
    path: "/{session_id}/socket",
    // Runs are read on a socket, started and cancelled.
    guard: { scopes: ["sessions:read", "agents:run"] },
    summary: "Open a WebSocket to a session",
    request: { params: z.object({ session_id: z.string() }) },
    responses: { 101: { description: "The socket" }, 426: { description: "The request is no WebSocket upgrade" } },
  }),
  async (c) => {
    const { context } = c.var;
    if (c.req.header("upgrade")?.toLowerCase() !== "websocket") {
      return c.json({ detail: "This route is a WebSocket: send `Upgrade: websocket`.", error_type: "invalid_request" }, 426, { upgrade: "websocket" });
    }
    const sessionId = c.req.valid("param").session_id;
    if (!isSessionId(sessionId)) throw notFound(`Session with id '${sessionId}' not found`);
    return context.sessions(sessionId).socket({ access: context.access, userId: userOf(context, undefined) });
  },
);
