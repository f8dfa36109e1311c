import type { AgentDefinition } from "../define/agent.ts";
import type { ComponentRef } from "../domain/component.ts";

/** What code defined, by id and version. */
export interface Registry {
  /** The newest version of each, which is the one that new runs take. */
  readonly agents: readonly AgentDefinition[];
  /** The newest version with this id. */
  agent(id: string): AgentDefinition | undefined;
  /** The definition that carries this id and version, or nothing: never another version. */
  find(ref: Pick<ComponentRef, "kind" | "id" | "version">): AgentDefinition | undefined;
}

/**
 * Gathers definitions. Several may share an id if their versions differ: new runs take the one that stands last, and runs
 * that wait go on with theirs for as long as it is listed.
 * @throws RangeError when two of them have the same id and version.
 */
export function makeRegistry(definitions: { agents: readonly AgentDefinition[] }): Registry {
  const newest = new Map<string, AgentDefinition>();
  const versions = new Map<string, AgentDefinition>();
  for (const agent of definitions.agents) {
    const key = JSON.stringify([agent.id, agent.version]);
    if (versions.has(key)) throw new RangeError(`Two agents have the id "${agent.id}" and the version "${agent.version}".`);
    versions.set(key, agent);
    newest.set(agent.id, agent);
  }
  return {
    agents: [...newest.values()],
    agent: (id) => newest.get(id),
    find: ({ kind, id, version }) => (kind === "agent" ? versions.get(JSON.stringify([id, version])) : undefined),
  };
}

/** How a run names the definition it keeps to. */
export const refOf = (agent: AgentDefinition): ComponentRef => ({ kind: "agent", id: agent.id, name: agent.name, version: agent.version });
