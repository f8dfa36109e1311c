import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { os } from "./entry.ts";

/** One server-sent event. */
export interface Frame {
  id?: string;
  event: string;
  data: Record<string, any>;
}

/** Calls the Worker under test. */
export const call = (path: string, init?: RequestInit): Promise<Response> => exports.default.fetch(new Request(`http://signalbox${path}`, init));

/** Calls the same routes with other settings: a deployment's key, its origins, a binding that is missing. */
export async function callWith(settings: Record<string, unknown>, path: string, init?: RequestInit): Promise<Response> {
  const context = createExecutionContext();
  const response = await os.fetch(new Request(`http://signalbox${path}`, init), { ...env, SIGNALBOX_AUTH: undefined, ...settings }, context);
  await waitOnExecutionContext(context);
  return response;
}

/** A form's body. */
export const form = (fields: Record<string, string>): RequestInit => ({ method: "POST", body: new URLSearchParams(fields) });

/** A JSON body. */
export const json = (body: unknown, method = "POST"): RequestInit => ({ method, body: JSON.stringify(body), headers: { "content-type": "application/json" } });

/** Starts a run. */
export const start = (agent: string, fields: Record<string, string>): Promise<Response> => call(`/agents/${agent}/runs`, form(fields));

/** Starts a run and waits for its end. */
export async function finish(agent: string, fields: Record<string, string>): Promise<Record<string, any>> {
  return (await start(agent, { stream: "false", ...fields })).json();
}

/** The frames of a stream's text; comments are none. */
export const framesIn = (text: string): Frame[] =>
  text
    .split("\n\n")
    .filter((block) => block.includes("data: "))
    .map((block) => {
      const line = (name: string) => block.split("\n").find((candidate) => candidate.startsWith(`${name}: `))?.slice(name.length + 2);
      const id = line("id");
      return { ...(id === undefined ? {} : { id }), event: line("event")!, data: JSON.parse(line("data")!) };
    });

/** All frames of a stream that ends. */
export const framesOf = async (response: Response): Promise<Frame[]> => framesIn(await response.text());

/** Frames of a stream as they come, for streams that are left before their end. */
export async function* frames(response: Response): AsyncGenerator<Frame, void, void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const end = text.lastIndexOf("\n\n");
      if (end === -1) continue;
      yield* framesIn(text.slice(0, end + 2));
      text = text.slice(end + 2);
    }
  } finally {
    await reader.cancel();
  }
}

/** Reads until a frame is there that fits. */
export async function until(stream: AsyncGenerator<Frame, void, void>, fits: (frame: Frame) => boolean): Promise<Frame[]> {
  const seen: Frame[] = [];
  for (;;) {
    const { done, value } = await stream.next();
    if (done) throw new Error(`The stream ended after ${seen.map((frame) => frame.event).join(", ")}.`);
    seen.push(value);
    if (fits(value)) return seen;
  }
}

/** The rest of a stream that ends. */
export async function all(stream: AsyncGenerator<Frame, void, void>): Promise<Frame[]> {
  const seen: Frame[] = [];
  for await (const frame of stream) seen.push(frame);
  return seen;
}
