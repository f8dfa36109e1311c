import { defineTool, type ToolContext } from "signalbox";
import { z } from "zod";

/**
 * Tools that act on the world server (`harness/world.ts`), which counts what was done to it and outlives every kill of the
 * server that runs these.
 */

/** What an act is counted under, and how long the world takes to answer once it has happened. */
const Act = z.object({ tag: z.string(), ms: z.number().int().default(0) });
type Act = z.infer<typeof Act>;

const worldOf = (context: ToolContext): string => (context.env as unknown as { WORLD_URL: string }).WORLD_URL;

async function act(tool: string, { tag, ms }: Act, context: ToolContext, signal: AbortSignal | null = context.signal): Promise<string> {
  const response = await fetch(`${worldOf(context)}/act/${tool}`, {
    method: "POST",
    body: JSON.stringify({ tag, ms, key: context.idempotencyKey }),
    ...(signal === null ? {} : { signal }),
  });
  if (!response.ok) throw new Error(`The world answered ${response.status}.`);
  return response.text();
}

/** Nobody has promised anything about calling it again. */
export const charge = defineTool({
  name: "charge",
  description: "Takes money, once.",
  input: Act,
  effect: "once",
  execute: (input, context) => act("charge", input, context),
});

/** As `charge`, and waits for the calls before it. */
export const chargeAlone = defineTool({
  name: "charge_alone",
  description: "Takes money, after the calls before it.",
  input: Act,
  effect: "once",
  sequential: true,
  execute: (input, context) => act("charge_alone", input, context),
});

/** Only reads. */
export const lookup = defineTool({
  name: "lookup",
  description: "Reads something.",
  input: Act,
  effect: "none",
  execute: (input, context) => act("lookup", input, context),
});

/** The world knows calls by their key, and does the same call once. */
export const idem = defineTool({
  name: "idem",
  description: "Orders something, under a key.",
  input: Act,
  effect: "idempotent",
  execute: (input, context) => act("idem", input, context),
});

/** Must happen once, and the world can be asked whether it did. */
export const probed = defineTool({
  name: "probed",
  description: "Sends something, and can find out whether it was sent.",
  input: Act,
  effect: "once",
  async probe(key, context) {
    const response = await fetch(`${worldOf(context)}/probe?${new URLSearchParams({ key })}`);
    const { result } = (await response.json()) as { result?: string };
    return result === undefined ? { happened: false } : { happened: true, result };
  },
  execute: (input, context) => act("probed", input, context),
});

/** Takes its time, and says how far it is. */
export const slow = defineTool({
  name: "slow",
  description: "Takes so many milliseconds.",
  input: z.object({ ms: z.number().int() }),
  effect: "none",
  timeoutMs: 300_000,
  async execute({ ms }, context) {
    await sleep(ms, context.signal);
    context.progress({ slept: ms });
    return `slept ${ms} ms`;
  },
});

export const slowAlone = defineTool({
  name: "slow_alone",
  description: "Takes so many milliseconds, and everything after it waits.",
  input: z.object({ ms: z.number().int() }),
  effect: "none",
  sequential: true,
  timeoutMs: 300_000,
  async execute({ ms }, context) {
    await sleep(ms, context.signal);
    return `slept ${ms} ms`;
  },
});

/** Holds until the world lets it go. */
export const gate = defineTool({
  name: "gate",
  description: "Waits at a gate.",
  input: z.object({ g: z.string() }),
  effect: "once",
  timeoutMs: 300_000,
  async execute({ g }, context) {
    const response = await fetch(`${worldOf(context)}/gate/${encodeURIComponent(g)}`, { signal: context.signal });
    return response.text();
  },
});

/** Answers with so many bytes. */
export const big = defineTool({
  name: "big",
  description: "Answers with a lot of text.",
  input: z.object({ bytes: z.number().int() }),
  effect: "none",
  execute: ({ bytes }) => "0123456789abcdef".repeat(Math.ceil(bytes / 16)).slice(0, bytes),
});

/** Does not hear that it was cancelled: it goes on, and acts on the world at its end. */
export const deaf = defineTool({
  name: "deaf",
  description: "Goes on whatever happens, until the world lets it go.",
  input: z.object({ tag: z.string(), g: z.string() }),
  effect: "once",
  timeoutMs: 300_000,
  async execute({ tag, g }, context) {
    await fetch(`${worldOf(context)}/gate/${encodeURIComponent(g)}`);
    return act("deaf", { tag, ms: 0 }, context, null);
  },
});

/** Answers with what it was given. */
export const echo = defineTool({
  name: "echo",
  description: "Says it back.",
  input: z.object({ text: z.string() }),
  effect: "none",
  execute: ({ text }) => text,
});

/** Remembers something in the session. */
export const remember = defineTool({
  name: "remember",
  description: "Keeps a value in the session's state.",
  input: z.object({ name: z.string(), value: z.string() }),
  effect: "idempotent",
  execute({ name, value }, { session }) {
    session.state[name] = value;
    return "kept";
  },
});

export const breaks = defineTool({
  name: "breaks",
  description: "Fails.",
  input: z.object({ message: z.string() }),
  effect: "none",
  execute({ message }) {
    throw new Error(message);
  },
});

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new Error("The tool was told to stop."));
    });
  });
}
