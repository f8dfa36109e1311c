/** What can be guarded, as the first word of a scope. */
export type ScopeResource =
  | "agents"
  | "teams"
  | "workflows"
  | "sessions"
  | "memories"
  | "learnings"
  | "knowledge"
  | "evals"
  | "schedules"
  | "approvals"
  | "components"
  | "service_accounts"
  | "metrics"
  | "traces"
  | "config"
  | "registry";

/** No action implies another: `write` is not `read`, and `run` is neither. */
export type ScopeAction = "read" | "run" | "write" | "delete";

/** Holds everything. */
export const ADMIN_SCOPE = "agent_os:admin";

/** A permission as routes ask for it; `resource:id:action` is the same for one resource alone. */
export type Scope = `${ScopeResource}:${ScopeAction}` | typeof ADMIN_SCOPE;

interface HeldScope {
  resource: string;
  /** Absent: every resource of the kind. */
  id?: string;
  action: string;
}

/** Reads a scope that someone holds. Other shapes than the grammar's grant nothing. */
function parseScope(text: string): HeldScope | undefined {
  const parts = text.split(":");
  // `system` is what AgentOS called `config` before.
  const resource = parts[0] === "system" ? "config" : parts[0];
  if (resource === undefined || resource === "") return undefined;
  if (parts.length === 2) return { resource, action: parts[1]! };
  if (parts.length !== 3) return undefined;
  return parts[1] === "*" ? { resource, action: parts[2]! } : { resource, id: parts[1]!, action: parts[2]! };
}

/** Whether the held scopes meet a required one: for all resources of its kind, or for the one with this id. */
export function matches(held: readonly string[], required: Scope, id?: string): boolean {
  const reach = reachOf(held, required);
  return reach === "all" || (id !== undefined && reach.has(id));
}

/** Which resources a scope is held for: all of the kind, or those with these ids. */
export function reachOf(held: readonly string[], required: Scope): "all" | ReadonlySet<string> {
  const [resource, action] = required.split(":");
  const ids = new Set<string>();
  for (const text of held) {
    if (text === ADMIN_SCOPE) return "all";
    // Nothing but itself is as much.
    if (required === ADMIN_SCOPE) continue;
    const scope = parseScope(text);
    if (scope === undefined || scope.resource !== resource || scope.action !== action) continue;
    if (scope.id === undefined) return "all";
    ids.add(scope.id);
  }
  return ids;
}
