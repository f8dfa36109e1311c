import { tmpdir } from "node:os";
import { join } from "node:path";

/** Wrangler without prompts, metrics, update checks or log files in the home folder: it needs no terminal, network or login. */
export const quietEnvironment = (): NodeJS.ProcessEnv => ({
  CI: "1",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  WRANGLER_LOG_PATH: join(tmpdir(), "signalbox-wrangler-logs"),
  ...process.env,
});
