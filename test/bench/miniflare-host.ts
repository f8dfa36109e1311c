/**
 * Serves one bundle by Miniflare, in a process of its own, so that what is measured is workerd's and not the driver's.
 * Prints its address when the database is migrated and the port is open.
 */
import { readFileSync } from "node:fs";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";

export interface HostOptions {
  /** File of the bundled module. */
  bundle: string;
  /** Folder of its state. */
  state: string;
  /** Statements for D1, in one batch. */
  statements: readonly string[];
  bindings: Record<string, string>;
  /** Opens workerd's inspector on this port. */
  inspectorPort?: number;
}

export interface HostReady {
  url: string;
}

const { bundle, state, statements, bindings, inspectorPort } = JSON.parse(process.argv[2] ?? "") as HostOptions;

const miniflare = new Miniflare(
  convertV4MiniflareOptions({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    log: new Log(LogLevel.WARN),
    logRequests: false,
    telemetry: { enabled: false },
    resourcePersistencePath: state,
    ...(inspectorPort === undefined ? {} : { inspectorPort }),
    workers: [
      {
        name: "bench",
        modules: [{ type: "ESModule", path: "worker.js", contents: readFileSync(bundle, "utf8") }],
        compatibilityDate: "2026-11-01",
        compatibilityFlags: ["enable_request_signal"],
        bindings,
        durableObjects: { SESSIONS: { className: "AgentSession", useSQLite: true } },
        d1Databases: { DB: "00000000-0000-0000-0000-000000000000" },
      },
    ],
  }),
);

process.on("SIGTERM", () => void miniflare.dispose().then(() => process.exit(0)));

const url = await miniflare.ready;
const database = await miniflare.getD1Database("DB");
await database.batch(statements.map((sql) => database.prepare(sql)));
console.log(JSON.stringify({ url: url.origin } satisfies HostReady));
