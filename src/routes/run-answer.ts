import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { RunAnswer } from "../operations/start-run.ts";
import { REPLAYED_HEADER } from "./idempotency.ts";
import type { RouteEnv } from "./route-env.ts";
import { relayed } from "./stream.ts";
import { runToWire, statusToWire } from "./wire.ts";

/** A stream of events, as OpenAPI describes it. */
export const STREAMED = { "text/event-stream": { schema: z.string().openapi({ description: "Frames of `id`, `event` and `data`; the data is an event as JSON." }) } };

/** Answers for a run that was set going, in the shape that was asked for. `runsPath` is where runs are read. */
export function answerRun(c: Context<RouteEnv>, answer: RunAnswer, runsPath: string): Response {
  const response = shaped(c, answer, runsPath);
  if (answer.isReplay) response.headers.set(REPLAYED_HEADER, "true");
  return response;
}

function shaped(c: Context<RouteEnv>, answer: RunAnswer, runsPath: string): Response {
  if (answer.kind === "stream") return relayed(answer.stream);
  if (answer.kind === "finished") return c.json(runToWire(answer.reading));
  const { runId, sessionId, status } = answer.run;
  const location = `${runsPath}/${runId}?session_id=${encodeURIComponent(sessionId)}`;
  // However soon it begins: what clients of AgentOS are told here is that it was accepted.
  return c.json({ run_id: runId, session_id: sessionId, status: statusToWire(answer.isReplay ? status : "pending") }, 202, { location });
}

/** Milliseconds that a run goes on without anyone to see it. */
export const onDisconnectOf = ({ on_disconnect: seconds }: { on_disconnect: "keep" | number }): "keep" | number => (seconds === "keep" ? "keep" : seconds * 1000);
