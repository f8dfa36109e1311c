import type { AgentDefinition } from "../define/agent.ts";
import type { ComponentKind } from "../domain/component.ts";
import { notFound } from "../domain/errors.ts";
import type { OperationContext } from "./context.ts";

const NOUNS: Record<ComponentKind, string> = { agent: "Agent", team: "Team", workflow: "Workflow" };

/**
 * The definition with this id, as the version that is asked for or the one that code carries.
 * @throws AppError `not_found`
 */
export function findComponent(context: Pick<OperationContext, "registry">, kind: ComponentKind, id: string, version?: string): AgentDefinition {
  const agent = kind === "agent" ? context.registry.agent(id) : undefined;
  const found = version === undefined || agent === undefined ? agent : context.registry.find({ kind, id, version });
  if (found === undefined) throw notFound(`${NOUNS[kind]} not found`);
  return found;
}
