import { parseArgs } from "node:util";
import { startFakeProvider } from "./provider.ts";

// The fake provider as a process of its own: `node test/fakes/serve.ts --port 9100`. Prints one line of JSON when it serves.
const { values } = parseArgs({ options: { port: { type: "string", default: "0" } } });
const provider = await startFakeProvider({ port: Number(values.port) });
console.log(JSON.stringify({ url: provider.url, ANTHROPIC_BASE_URL: provider.url, OPENAI_BASE_URL: `${provider.url}/v1` }));
