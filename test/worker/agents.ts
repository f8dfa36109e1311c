import { z } from "zod";
import { pausingAgents } from "./pausing-agents.ts";
import { sessionAgents } from "./session/agents.ts";
import { pauseAgents } from "./session/pause-agents.ts";
import { defineAgent } from "../../src/define/agent.ts";
import { defineTool } from "../../src/define/tool.ts";
import { call, fail, gate, reply, say, scripted, think } from "../../src/models/scripted.ts";

const weather = defineTool({
  name: "weather",
  description: "Tells the weather of a city.",
  input: z.object({ city: z.string() }),
  effect: "none",
  execute: ({ city }) => `It is dry in ${city}.`,
});

/** Says back what it is told. */
export const echo = defineAgent({
  id: "echo",
  name: "Echo",
  description: "Says back what it is told.",
  instructions: "Repeat.",
  model: scripted((_request, { input }) => `You said: ${input}`, { id: "echo" }),
  addHistoryToContext: true,
});

/** Thinks, calls a tool once, and answers with what the tool said. */
export const forecaster = defineAgent({
  id: "forecaster",
  instructions: ["Ask the tool.", "Then answer."],
  tools: [weather],
  toolCallLimit: 3,
  metadata: { team: "railway" },
  model: scripted(
    (_request, { step, results }) =>
      step === 0 ? reply(think("Where is it?"), say("Let me look. "), call("weather", { city: "Leeds" }, { id: "call-1" })) : `${results[0]?.content}`,
    { id: "forecast" },
  ),
});

/** Begins to speak, then waits at the gate whose name is the message, and finishes. */
export const held = defineAgent({
  id: "held",
  model: scripted((_request, { input }) => reply(say("One "), gate(input), say("two")), { id: "held" }),
});

/** A provider that is out of order. */
export const broken = defineAgent({ id: "broken", model: scripted(() => reply(fail("invalid_request", { message: "The provider said no." })), { id: "broken" }) });

/** Keeps no events on its runs. */
export const quiet = defineAgent({ id: "quiet", storeEvents: false, model: scripted(["Hush."], { id: "quiet" }) });

export const agents = [echo, forecaster, held, broken, quiet, ...sessionAgents, ...pauseAgents, ...pausingAgents];
