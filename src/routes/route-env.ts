import type { AuthVariables } from "../auth/require-scope.ts";
import type { PlatformEnv } from "../env.ts";
import type { OperationContext } from "../operations/context.ts";

/** What handlers find in Hono's context. */
export interface RouteEnv {
  Bindings: PlatformEnv;
  Variables: AuthVariables & {
    requestId: string;
    /** What operations are given. Public routes have none: nobody is known there. */
    context: OperationContext;
  };
}
