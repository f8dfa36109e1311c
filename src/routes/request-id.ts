import { createMiddleware } from "hono/factory";
import { requestId as identify } from "hono/request-id";
import { newId } from "../domain/ids.ts";
import type { RouteEnv } from "./route-env.ts";

const HEADER = "X-Request-Id";
const MAX_LENGTH = 128;

const taken = identify({ headerName: HEADER, limitLength: MAX_LENGTH, generator: newId });

/**
 * The request's id: the client's if it is short and plain, else a new one; on every answer. Hono's own middleware sets the
 * header before the answer exists, and an answer that comes from a session's object would not have it.
 */
export const requestId = createMiddleware<RouteEnv>(async (c, next) => {
  await taken(c, next);
  if (c.res.status !== 101) c.header(HEADER, c.var.requestId);
});
