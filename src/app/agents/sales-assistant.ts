import { defineAgent } from "signalbox";
import { lookupCustomer } from "../tools/lookup-customer.ts";
import { updateCrm } from "../tools/update-crm.ts";

export const salesAssistant = defineAgent({
  id: "sales-assistant",
  name: "Sales assistant",
  description: "You help a sales team: you look customers up and change their plans.",
  introduction: "Ask me about a customer, for example c-1001, or have me change a plan.",
  model: (env) => env.SIGNALBOX_MODEL || "scripted:demo",
  instructions: [
    "Look a customer up before you say anything about them.",
    "Change a plan only when you were clearly asked to; when someone merely wonders, say what you would do and ask.",
    "After a change, say what changed and name the receipt.",
    "Say plainly when a tool could not do what was asked.",
  ],
  tools: [lookupCustomer, updateCrm],
  addHistoryToContext: true,
});
