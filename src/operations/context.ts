import type { Registry } from "../components/registry.ts";
import type { Access, Principal } from "../domain/principal.ts";
import type { PlatformEnv } from "../env.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { type SessionClient, sessionClient } from "../session/client.ts";
import { makeRepositories, type Repositories } from "../storage/repositories/index.ts";

/**
 * What every operation is given first. An edge makes it once a request, after it knows who is asking: all that an
 * operation can reach goes through `access`.
 */
export interface OperationContext {
  principal: Principal;
  access: Access;
  env: PlatformEnv;
  registry: Registry;
  /** The session's object. Asking for one makes none: only a command that stores something does. */
  sessions(sessionId: string): SessionClient;
  /** D1, as far as `access` sees it. */
  repositories: Repositories;
  requestId: string;
  clock: Clock;
}

/** Makes the context of one request. */
export function makeOperationContext(request: {
  principal: Principal;
  access: Access;
  env: PlatformEnv;
  registry: Registry;
  requestId: string;
}): OperationContext {
  return {
    ...request,
    clock: systemClock,
    repositories: makeRepositories(request.env, request.access),
    sessions: (sessionId) => sessionClient(request.env.SESSIONS, sessionId),
  };
}
