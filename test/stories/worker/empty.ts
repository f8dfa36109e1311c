import { createAgentOS } from "signalbox";

/** A deployment with nothing to run: it must not start. */
const os = createAgentOS({ agents: [] });

export class AgentSession extends os.AgentSession {}
export default os;
