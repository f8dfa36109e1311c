import type { ScriptFunction } from "signalbox/models/scripted";
import { researchScript } from "./demo/research-script.ts";
import { salesScript } from "./demo/sales-script.ts";

/** The model behind `scripted:demo`: it makes the app useful without a key. It tells the agents apart by their tools. */
export const demo: ScriptFunction = (request, turn) =>
  request.tools.some((tool) => tool.name === "search_notes") ? researchScript(request, turn) : salesScript(request, turn);
