import type { RunContext } from "../define/agent.ts";
import { jsonEntries } from "../lib/json.ts";
import { wellFormed } from "../lib/text.ts";
import type { ModelRequest, ToolChoice } from "../models/model.ts";
import { asModelsSee, projectHistory } from "./history.ts";
import { ownReplies } from "./own-replies.ts";
import type { Turn, TurnPorts } from "./ports.ts";

/** What a turn works out once and uses for all its steps: instructions and dependencies may be functions with a cost. */
export interface TurnContext extends RunContext {
  system: string | undefined;
  history: ModelRequest["messages"];
}

export async function prepareContext(turn: Turn, ports: TurnPorts): Promise<TurnContext> {
  // A copy: the agent's own outlives the turn, and tools are handed this one.
  const metadata = jsonEntries({ ...turn.input.metadata, ...turn.agent.metadata });
  const context: RunContext = {
    env: ports.env,
    runId: turn.runId,
    sessionId: turn.sessionId,
    ...(turn.userId === undefined ? {} : { userId: turn.userId }),
    sessionState: turn.sessionState,
    dependencies: {},
    metadata,
  };
  context.dependencies = await resolveDependencies({ ...turn.agent.dependencies, ...turn.input.dependencies }, context);
  return {
    ...context,
    system: await systemMessage(turn, ports, context),
    history: projectHistory(ports.pastRuns(), turn.agent, turn.input),
  };
}

/** The request for the next step: the same prefix each time, so that providers can cache it. */
export function prepareRequest(turn: Turn, context: TurnContext): ModelRequest {
  const { agent } = turn;
  const toolChoice = toolChoiceOf(turn);
  return {
    ...(context.system === undefined ? {} : { system: context.system }),
    messages: [...context.history, ...asModelsSee(turn.messages, turn.effects)],
    tools: agent.tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...(agent.generation === undefined ? {} : { options: agent.generation }),
    sessionId: turn.sessionId,
  };
}

/** A choice that forces a call holds until there is one: forced in every step, the model could never answer. */
function toolChoiceOf(turn: Turn): ToolChoice | undefined {
  const { agent } = turn;
  const { toolChoice, tools } = agent;
  if (toolChoice === undefined || tools.length === 0) return undefined;
  const forces = toolChoice !== "auto" && toolChoice !== "none";
  return forces && ownReplies(turn).length > 0 ? undefined : toolChoice;
}

async function resolveDependencies(given: Record<string, unknown>, context: RunContext): Promise<Record<string, unknown>> {
  const entries = await Promise.all(
    Object.entries(given).map(async ([name, value]) => [name, typeof value === "function" ? await value(context) : value] as const),
  );
  return Object.fromEntries(entries);
}

async function systemMessage(turn: Turn, ports: TurnPorts, context: RunContext): Promise<string | undefined> {
  const { agent } = turn;
  const fill = (text: string | undefined) => (text === undefined || agent.resolveInContext === false ? text : fillPlaceholders(text, context));
  if (agent.systemMessage !== undefined) return wellFormed(fill(agent.systemMessage) ?? "");

  const instructions = typeof agent.instructions === "function" ? await agent.instructions(context) : agent.instructions;
  const lines = instructions === undefined ? [] : typeof instructions === "string" ? [instructions] : instructions;
  const sections = [
    fill(agent.description),
    fill(agent.role === undefined ? undefined : `Your role: ${agent.role}`),
    fill(lines.length > 1 ? lines.map((line) => `- ${line}`).join("\n") : lines[0]),
    fill(agent.expectedOutput === undefined ? undefined : `Expected output:\n${agent.expectedOutput}`),
    agent.markdown === true ? "Use Markdown to format your answers." : undefined,
    agent.addDatetimeToContext === true ? `The current time is ${dateIn(agent.timezone ?? "UTC", ports.clock.now())}.` : undefined,
    fill(agent.additionalContext),
    // Values are shown as they are: braces in what a user wrote must not fetch other values.
    agent.addDependenciesToContext === true ? `Additional context:\n${JSON.stringify(jsonEntries(context.dependencies))}` : undefined,
    agent.addSessionStateToContext === true ? `Session state:\n${JSON.stringify(jsonEntries(turn.sessionState))}` : undefined,
  ].filter((section): section is string => section !== undefined && section !== "");
  return sections.length === 0 ? undefined : wellFormed(sections.join("\n\n"));
}

/** `{name}` becomes the value of that name; a name nobody knows stays as it is, since braces are also just text. */
function fillPlaceholders(text: string, context: RunContext): string {
  const sources = [context.sessionState, context.dependencies, context.metadata];
  return text.replace(/\{([A-Za-z_][A-Za-z0-9_]*)\}/g, (whole, name: string) => {
    const source = sources.find((values) => Object.hasOwn(values, name));
    if (source === undefined) return whole;
    const { value } = jsonEntries({ value: source[name] });
    // What JSON has no word for leaves the text as its author wrote it.
    if (value === undefined) return whole;
    return typeof value === "string" ? value : JSON.stringify(value);
  });
}

const dateIn = (timeZone: string, at: number): string =>
  `${new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" }).format(at)} (${timeZone})`;
