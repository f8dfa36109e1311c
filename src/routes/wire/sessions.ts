import type { Page } from "../../domain/page.ts";
import { type Session, sessionTitle } from "../../domain/session.ts";
import type { RunReading } from "../../session/commands.ts";
import type { AgentSessionDetail, SessionSchema } from "../schemas/session.ts";
import { messagesToWire } from "./messages.ts";
import { secondsOf, toIso, usageToWire } from "./words.ts";

/** A session as lists show it. */
export function sessionToWire(session: Session): SessionSchema {
  return {
    session_id: session.sessionId,
    session_name: sessionTitle(session),
    session_type: session.component?.kind ?? "agent",
    user_id: session.userId ?? null,
    agent_id: session.component?.id ?? null,
    session_state: session.state,
    session_summary: session.summary ?? null,
    metrics: metricsOf(session),
    metadata: session.metadata ?? null,
    total_tokens: totalTokens(session),
    created_at: toIso(session.createdAt),
    updated_at: toIso(session.updatedAt),
  };
}

/** A session read alone, with what was said in it. `agentName`: what its agent is called, where code still defines it. */
export function sessionDetailToWire(session: Session, runs: readonly RunReading[], agentName?: string): AgentSessionDetail {
  const agentId = session.component?.id;
  return {
    user_id: session.userId ?? null,
    agent_session_id: session.sessionId,
    session_id: session.sessionId,
    session_name: sessionTitle(session),
    session_summary: session.summary ?? null,
    session_state: session.state,
    agent_id: agentId ?? null,
    total_tokens: totalTokens(session),
    agent_data: agentId === undefined ? null : { agent_id: agentId, ...(agentName === undefined ? {} : { name: agentName }) },
    metrics: metricsOf(session),
    metadata: session.metadata ?? null,
    chat_history: runs.flatMap(chatOf),
    created_at: toIso(session.createdAt),
    updated_at: toIso(session.updatedAt),
  };
}

/** A page of things as every list shows it. */
export const pageToWire = <Item, Wire>(page: Page<Item>, toWire: (item: Item) => Wire) => ({
  data: page.items.map(toWire),
  meta: {
    page: page.page,
    limit: page.limit,
    total_pages: Math.ceil(page.total / page.limit),
    total_count: page.total,
    search_time_ms: 0,
  },
});

/** What a run added to the talk. One that was regenerated was taken back. */
function chatOf({ record }: RunReading) {
  if (record.status === "regenerated") return [];
  return messagesToWire(record.messages, record.effects).filter(({ role }) => role === "user" || role === "assistant");
}

const totalTokens = ({ metrics: { runs, usage } }: Session): number | null => (runs === 0 ? null : usage.inputTokens + usage.outputTokens);

function metricsOf({ metrics }: Session) {
  if (metrics.runs === 0) return null;
  return { ...usageToWire(metrics.usage), duration: secondsOf(metrics.durationMs) };
}
