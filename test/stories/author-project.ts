/** Someone's own project, file by file: what an author writes who installs the package. */
export const AUTHOR_PROJECT: Readonly<Record<string, string>> = {
  "package.json": `{ "name": "acme-agents", "private": true, "type": "module" }
`,
  "wrangler.toml": `name = "acme-agents"
main = "src/worker.ts"
compatibility_date = "2026-11-01"
compatibility_flags = ["enable_request_signal"]
send_metrics = false

[vars]
SIGNALBOX_AUTH = "none"
GREETING = "Good day"

[[durable_objects.bindings]]
name = "SESSIONS"
class_name = "AgentSession"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["AgentSession"]

[[d1_databases]]
binding = "DB"
database_name = "acme-agents"
database_id = "00000000-0000-0000-0000-000000000000"
migrations_dir = "node_modules/signalbox/migrations"
`,
  "src/worker.ts": `import { createAgentOS } from "signalbox";
import { greeter } from "./greeter";

const os = createAgentOS({ agents: [greeter] });

export class AgentSession extends os.AgentSession {}
export default os;
`,
  "src/greeter.ts": `import { defineAgent, defineTool } from "signalbox";
import { call, reply, scripted } from "signalbox/models/scripted";
import { z } from "zod";

const greet = defineTool({
  name: "greet",
  description: "Greets someone.",
  input: z.object({ name: z.string() }),
  effect: "none",
  execute: ({ name }, { env }) => \`\${env.GREETING}, \${name}!\`,
});

export const greeter = defineAgent({
  id: "greeter",
  model: scripted((_request, { step, input, results }) => (step === 0 ? reply(call("greet", { name: input })) : results[0]?.content ?? "")),
  tools: [greet],
});
`,
  "src/mistakes.ts": `import { defineTool } from "signalbox";

export const misspelt = defineTool({
  name: "misspelt",
  description: "Two mistakes that the types must find.",
  effect: "non",
  execute: (_input, { env }) => env.GRETING,
});
`,
  "tsconfig.json": `{
  "compilerOptions": {
    "target": "es2024",
    "lib": ["es2024"],
    "module": "esnext",
    "moduleResolution": "bundler",
    "strict": true,
    "noEmit": true,
    "skipLibCheck": true,
    "types": ["./worker-configuration.d.ts"]
  },
  "files": ["src/worker.ts"]
}
`,
  "tsconfig.mistakes.json": `{ "extends": "./tsconfig.json", "files": ["src/mistakes.ts"] }
`,
};
