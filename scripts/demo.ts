/** `npm run demo`: starts a server of its own, sends it one sales request, and tells what happens as it happens. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createParser } from "eventsource-parser";
import { type DevServer, startDevServer } from "./dev-server.ts";
import { narrator } from "./narrate.ts";

const AGENT = "sales-assistant";
const MESSAGE = "Look up c-1001 and upgrade them to pro";
/** Milliseconds after which a run that has not ended is a failure. */
const RUN_TIMEOUT_MS = 60_000;

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "signalbox-demo-"));
  // However this ends. The server ends with its group, which is killed when this process exits.
  process.once("exit", () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));

  const workerOutput = new PassThrough();
  let server: DevServer | undefined;
  try {
    console.log("Starting a server with an empty database …");
    server = await startDevServer({
      flags: ["--port", "0", "--persist-to", folder, "--var", "SIGNALBOX_MODEL:scripted:demo"],
      output: { stdout: workerOutput, stderr: workerOutput },
    });
    await tellRun(server.url);
  } catch (error) {
    // What the Worker said is worth reading only now.
    process.stderr.write((workerOutput.read() as Buffer | null) ?? "");
    throw error;
  } finally {
    await server?.stop();
  }
}

async function tellRun(url: string): Promise<void> {
  const form = new FormData();
  form.set("message", MESSAGE);
  const response = await fetch(`${url}/agents/${AGENT}/runs`, { method: "POST", body: form, signal: AbortSignal.timeout(RUN_TIMEOUT_MS) });
  if (!response.ok || response.body === null) throw new Error(`POST /agents/${AGENT}/runs answered ${response.status}: ${await response.text()}`);

  console.log(`You, to ${AGENT}: ${MESSAGE}\n`);
  const narrate = narrator((text) => process.stdout.write(text));
  const parser = createParser({ onEvent: ({ data }) => narrate.tell(JSON.parse(data) as Record<string, unknown>) });
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) parser.feed(text);
  if (narrate.ending !== "RunCompleted") throw new Error(`The run did not complete: its last word was ${narrate.ending ?? "nothing"}.`);
}

try {
  await main();
} catch (error) {
  console.error(`\nThe demo failed. ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
