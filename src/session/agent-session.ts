import { DurableObject } from "cloudflare:workers";
import type { Registry } from "../components/registry.ts";
import type { ModelChoice } from "../define/agent.ts";
import { AppError, type ErrorInfo, type Result } from "../domain/errors.ts";
import type { Access } from "../domain/principal.ts";
import { systemClock } from "../lib/clock.ts";
import type { Model } from "../models/model.ts";
import { applyProjections } from "../storage/apply-projection.ts";
import { isRefusal } from "../storage/refusal.ts";
import {
  type ContinueRun,
  type CreateSession,
  type FollowRun,
  type FollowView,
  type ImportSession,
  type PatchSession,
  type ResolveApproval,
  type RunQuery,
  SESSION_PATHS,
  SESSION_QUERY_HEADER,
  SESSION_REFUSAL_HEADER,
  type SessionCommands,
  type StartRun,
} from "./commands.ts";
import { fillFromD1 } from "./fill-from-d1.ts";
import { Session } from "./session.ts";
import { Sockets } from "./sockets.ts";
import type { WireEncoder } from "./wire-encoder.ts";

/** What the session class closes over: what code defined, and the words of the wire. */
export interface AgentSessionParts {
  registry: Registry;
  encoder: WireEncoder;
  /** @throws when the choice names no model. */
  resolveModel: (choice: ModelChoice, env: Cloudflare.Env) => Model;
  /** Names what is deployed: the package's version, and the deployment's own where the platform says it. */
  release: (env: Cloudflare.Env) => string;
}

/** What this class itself needs of the bindings. */
interface SessionEnv {
  DB: D1Database;
  MEDIA?: R2Bucket;
}

export type AgentSessionClass = new (context: DurableObjectState, env: Cloudflare.Env) => DurableObject<Cloudflare.Env> & SessionCommands;

/**
 * Makes the Durable Object class of a deployment. It is a switchboard: what a session does is in `session.ts` and below,
 * which know no platform class.
 */
export function makeAgentSession(parts: AgentSessionParts): AgentSessionClass {
  return class AgentSession extends DurableObject<Cloudflare.Env> implements SessionCommands {
    readonly #session: Session;
    readonly #sockets: Sockets;

    constructor(context: DurableObjectState, env: Cloudflare.Env) {
      super(context, env);
      const bindings = env as unknown as SessionEnv;
      this.#session = new Session(
        {
          ...parts,
          sessionId: context.id.name ?? "",
          release: parts.release(env),
          storage: context.storage,
          env,
          clock: systemClock,
          isRefusal,
          abort: (reason) => context.abort(reason),
          deliver: async (projections) => {
            const { cancelWishes } = await applyProjections(bindings.DB, bindings.MEDIA, projections);
            for (const runId of cancelWishes) await this.#session.cancelRun({ runId, access: { rows: "all" } });
          },
        },
        (core, sessionId) => fillFromD1(bindings, core, sessionId),
      );
      this.#sockets = new Sockets(context, this.#session);
    }

    startRun(command: StartRun) {
      return this.#answer(() => this.#session.startRun(command));
    }
    continueRun(command: ContinueRun) {
      return this.#answer(() => this.#session.continueRun(command));
    }
    resolveApproval(command: ResolveApproval) {
      return this.#answer(() => this.#session.resolveApproval(command));
    }
    readApproval(query: { approvalId: string; access: Access }) {
      return this.#answer(() => this.#session.readApproval(query));
    }
    deleteApproval(command: { approvalId: string; access: Access }) {
      return this.#answer(() => this.#session.deleteApproval(command));
    }
    importSession(command: ImportSession) {
      return this.#answer(() => this.#session.importSession(command));
    }
    cancelRun(command: RunQuery & { reason?: string }) {
      return this.#answer(() => this.#session.cancelRun(command));
    }
    readRun(query: RunQuery) {
      return this.#answer(() => this.#session.readRun(query));
    }
    readRuns(query: { access: Access }) {
      return this.#answer(() => this.#session.readRuns(query));
    }
    pollEvents(query: RunQuery & { after: number; waitMs: number }) {
      return this.#answer(() => this.#session.pollEvents(query));
    }
    createSession(command: CreateSession) {
      return this.#answer(() => this.#session.createSession(command));
    }
    readSession(query: { access: Access }) {
      return this.#answer(() => this.#session.readSession(query));
    }
    patchSession(command: PatchSession) {
      return this.#answer(() => this.#session.patchSession(command));
    }
    poke(command: { runIds: string[]; parked?: string[] }) {
      return this.#answer(() => this.#session.poke(command));
    }
    deleteSession(command: { access: Access }) {
      return this.#answer(async () => {
        const deleted = await this.#session.deleteSession(command);
        if (deleted.ok) this.#sockets.closeAll("The session was deleted.");
        return deleted;
      });
    }

    override async fetch(request: Request): Promise<Response> {
      const { pathname } = new URL(request.url);
      const answer = await this.#answer(() => this.#open(pathname, request));
      return answer.ok ? answer.value : refusal(answer.error);
    }

    override async alarm(): Promise<void> {
      await this.#session.onAlarm();
    }
    override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
      this.#session.wake();
      await this.#sockets.onMessage(socket, message);
    }
    override webSocketClose(socket: WebSocket): void {
      this.#session.wake();
      this.#sockets.onClose(socket);
      // A close is only over when it is answered; until then the client waits.
      socket.close();
    }
    override webSocketError(socket: WebSocket): void {
      this.#sockets.onClose(socket);
    }

    async #open(path: string, request: Request): Promise<Result<Response>> {
      if (path === SESSION_PATHS.start) {
        const { command, view } = await request.json<{ command: StartRun; view: FollowView }>();
        const started = await this.#session.startRun(command);
        return started.ok ? this.#session.follow({ ...view, runId: command.runId, access: command.access }) : started;
      }
      if (path === SESSION_PATHS.continue) {
        const { command, view } = await request.json<{ command: ContinueRun; view: FollowView }>();
        const continued = await this.#session.continueRun(command);
        if (!continued.ok) return continued;
        const { runId, after } = continued.value;
        return this.#session.follow({ ...view, after: Math.max(view.after, after), runId, access: command.access });
      }
      const query = JSON.parse(decodeURIComponent(request.headers.get(SESSION_QUERY_HEADER) ?? "{}"));
      if (path === SESSION_PATHS.follow) return this.#session.follow(query as FollowRun);
      const allowed = this.#session.mayOpenSocket(query.access);
      return allowed.ok ? { ok: true, value: this.#sockets.accept({ sessionId: this.ctx.id.name ?? "", ...query }) } : allowed;
    }

    /** Expected refusals are values across RPC, where classes do not survive. */
    async #answer<T>(command: () => Promise<Result<T>>): Promise<Result<T>> {
      try {
        this.#session.wake();
        return await command();
      } catch (error) {
        if (error instanceof AppError) return { ok: false, error: error.toInfo() };
        throw error;
      }
    }
  };
}

const refusal = (error: ErrorInfo): Response => Response.json(error, { status: 409, headers: { [SESSION_REFUSAL_HEADER]: "1" } });
