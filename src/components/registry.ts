import type { AgentDefinition } from "../define/agent.ts";
import type { ComponentRef } from "../domain/component.ts";

/** What code defined, by id. */
export interface Registry {
  readonly agents: readonly AgentDefinition[];
  agent(id: string): AgentDefinition | undefined;
  /** The definition that carries this id and version, or nothing: never another version. */
  find(ref: Pick<ComponentRef, "kind" | "id" | "version">): AgentDefinition | undefined;
}

/**
 * Gathers definitions.
 * @throws RangeError when two of them have the same id.
 */
export function makeRegistry(definitions: { agents: readonly AgentDefinition[] }): Registry {
  const agents = new Map<string, AgentDefinition>();
  for (const agent of definitions.agents) {
    if (agents.has(agent.id)) throw new RangeError(`Two agents have the id "${agent.id}".`);
    agents.set(agent.id, agent);
  }
  return {
    agents: [...agents.values()],
    agent: (id) => agents.get(id),
    find: (ref) => {
      const agent = ref.kind === "agent" ? agents.get(ref.id) : undefined;
      return agent?.version === ref.version ? agent : undefined;
    },
  };
}

/** How a run names the definition it keeps to. */
export const refOf = (agent: AgentDefinition): ComponentRef => ({ kind: "agent", id: agent.id, name: agent.name, version: agent.version });
