import { createAgentOS } from "../../src/os.ts";
import { agents } from "./agents.ts";

/** The Worker under test. */
export const os = createAgentOS({ agents, name: "Test", quickPrompts: { echo: ["Say hello."] } });

export class AgentSession extends os.AgentSession {}

export default os;
