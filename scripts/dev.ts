/** `npm run dev`: the app on this machine, without keys, an account or a network. Flags go on to `wrangler dev`. */
import { execFileSync } from "node:child_process";
import { type DevServer, StartFailure, startDevServer } from "./dev-server.ts";

const MINUTE_MS = 60_000;
/** How often it is looked whether npm is still there. */
const LOOK_MS = 1000;

async function main(): Promise<number> {
  let server: DevServer;
  try {
    server = await startDevServer({ flags: process.argv.slice(2), output: process });
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    console.error(error.message.trim());
    return error.exitCode;
  }

  let isAsked = false;
  const stop = () => {
    isAsked = true;
    void server.stop();
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, stop);
  stopWithNpm(stop);
  tickEveryMinute(server);

  console.log(banner(server));
  const code = await server.exited;
  await server.stop();
  return isAsked ? 0 : code;
}

function banner({ url, isOpen }: DevServer): string {
  const key = isOpen ? "" : ` -H "Authorization: Bearer $OS_SECURITY_KEY"`;
  return [
    "",
    `  signalbox is ready on ${url}`,
    "",
    `  docs   ${url}/docs`,
    `  try    curl -N ${url}/agents/sales-assistant/runs${key} -F message="Look up c-1001 and upgrade them to pro"`,
    "",
    isOpen ? "  Whoever reaches this address may use it (SIGNALBOX_AUTH=none). Ctrl-C stops it." : "  Ctrl-C stops it.",
    "",
  ].join("\n");
}

/** Cron Triggers fire only where a Worker is deployed; here somebody has to. */
function tickEveryMinute({ url, crons }: DevServer): void {
  const tick = () => {
    // Rounded, because a timer may fire a little early.
    const time = Math.round(Date.now() / MINUTE_MS) * MINUTE_MS;
    for (const cron of crons) {
      // A server that restarts just now misses the tick, as a deployed one would.
      fetch(`${url}/cdn-cgi/handler/scheduled?${new URLSearchParams({ cron, time: String(time) })}`).then(
        (response) => response.body?.cancel(),
        () => {},
      );
    }
    setTimeout(tick, time + MINUTE_MS - Date.now()).unref();
  };
  setTimeout(tick, MINUTE_MS - (Date.now() % MINUTE_MS)).unref();
}

/**
 * npm that is killed outright tells nobody; the server would stay behind and hold the port. Between npm and this process
 * may stand the shell that npm runs scripts in.
 */
function stopWithNpm(stop: () => void): void {
  if (process.env.npm_lifecycle_event === undefined || process.platform === "win32") return;
  const shell = process.ppid;
  const npm = parentOf(shell);
  if (npm === undefined) return;
  const isThere = () => {
    try {
      return process.kill(npm, 0) && process.ppid === shell;
    } catch {
      return false;
    }
  };
  setInterval(() => isThere() || stop(), LOOK_MS).unref();
}

function parentOf(pid: number): number | undefined {
  try {
    return Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)], { encoding: "utf8" }));
  } catch {
    // Small systems have no `ps`; then only npm's orderly end is noticed.
    return undefined;
  }
}

process.exitCode = await main();
