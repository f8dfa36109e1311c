import { newId } from "../domain/ids.ts";
import type { Session } from "../domain/session.ts";
import type { CreateSession } from "../session/commands.ts";
import type { OperationContext } from "./context.ts";
import { userOf } from "./start-run.ts";

export interface NewSession extends Pick<CreateSession, "component" | "name" | "state" | "metadata"> {
  /** The client's choice; without one an id is minted. */
  sessionId?: string;
  /** Whose it is said to be. Who is known to be asking counts for more. */
  userId?: string;
}

/**
 * Makes a session without a run.
 * @throws AppError `session_exists`
 */
export function createSession(context: OperationContext, { sessionId: chosen, userId: asked, ...rest }: NewSession): Promise<Session> {
  const sessionId = chosen ?? newId();
  const userId = userOf(context, asked);
  return context.sessions(sessionId).createSession({
    ...rest,
    sessionId,
    sessionIsNew: chosen === undefined,
    access: context.access,
    ...(userId === undefined ? {} : { userId }),
  });
}
