import { bodyLimit } from "hono/body-limit";
import { methodNotAllowed } from "hono/method-not-allowed";
import { authenticate } from "../auth/authenticate.ts";
import type { Registry } from "../components/registry.ts";
import { AppError } from "../domain/errors.ts";
import { missingBindings, type PlatformEnv } from "../env.ts";
import { makeOperationContext } from "../operations/context.ts";
import { agents } from "./agents.ts";
import { approvals } from "./approvals.ts";
import { config } from "./config.ts";
import { continuations } from "./continuations.ts";
import { allowOrigins } from "./cors.ts";
import { databases } from "./databases.ts";
import type { Deployment } from "./deployment.ts";
import { docs } from "./docs.ts";
import { onError, onMethodNotAllowed, onNotFound } from "./errors.ts";
import { health } from "./health.ts";
import { projections } from "./projections.ts";
import { requestId } from "./request-id.ts";
import { newRouter, type Router } from "./route.ts";
import { runs } from "./runs.ts";
import { sessions } from "./sessions.ts";
import { teams } from "./teams.ts";
import { sockets } from "./websocket.ts";
import { workflows } from "./workflows.ts";

const MAX_BODY_BYTES = 10 * 1024 * 1024;

/** The HTTP face: first what every request passes, then the resources. */
export function makeRoutes(registry: Registry, deployment: Deployment): Router {
  const app = newRouter();
  app.onError(onError);
  app.notFound(onNotFound);

  app.use(requestId);
  app.use(allowOrigins(deployment.corsOrigins));
  app.use(authenticate({ alwaysOpen: "/health" }));
  app.use(methodNotAllowed({ app, onMethodNotAllowed }));
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: refuseBody }));
  app.use(async (c, next) => {
    const { principal, access, requestId } = c.var;
    // Public routes do without: nobody is known there.
    if (principal !== undefined) {
      requireBindings(c.env);
      c.set("context", makeOperationContext({ principal, access, env: c.env, registry, requestId }));
    }
    await next();
  });

  // What the deployment is
  app.route("/", health(registry, deployment));
  app.route("/", config(registry, deployment));
  app.route("/", docs(app, deployment));

  // Components and their runs
  app.route("/agents", agents);
  app.route("/agents", runs("agent"));
  app.route("/agents", continuations("agent"));
  app.route("/teams", teams);
  app.route("/workflows", workflows);

  // Sessions
  app.route("/sessions", sessions);
  app.route("/sessions", sockets);

  // What waits for people
  app.route("/approvals", approvals);

  // Storage
  app.route("/databases", databases);
  app.route("/projections", projections);

  return app;
}

function requireBindings(env: PlatformEnv): void {
  const missing = missingBindings(env);
  if (missing.length > 0) throw new AppError("not_available", `This deployment is not complete. Add to wrangler.toml the bindings ${missing.join(", ")}.`);
}

function refuseBody(): never {
  throw new AppError("payload_too_large", `The request's body is larger than ${MAX_BODY_BYTES} bytes.`);
}
