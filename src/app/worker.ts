import { createAgentOS } from "signalbox";
import { scriptedModels } from "signalbox/models/scripted";
import { researcher } from "./agents/researcher.ts";
import { salesAssistant } from "./agents/sales-assistant.ts";
import { demo } from "./demo-script.ts";

const os = createAgentOS({
  agents: [salesAssistant, researcher],
  models: { scripted: scriptedModels({ demo }) },
  quickPrompts: {
    "sales-assistant": ["Who is c-1001?", "Should we downgrade c-1004?", "Look up c-1005 and upgrade them to pro"],
    researcher: ["How do two trains stay off the same block?", "What is a token?", "What happens when a shift is handed over?"],
  },
});

export class AgentSession extends os.AgentSession {}
export default os;
