import { refOf } from "../components/registry.ts";
import type { ErrorInfo } from "../domain/errors.ts";
import { newId } from "../domain/ids.ts";
import type { Access } from "../domain/principal.ts";
import { isDelta, isTerminalEvent, type RunEvent } from "../domain/run-event.ts";
import type { EventLog, Follower } from "./event-log.ts";
import type { Session } from "./session.ts";
import { PING, PONG, SocketMessage } from "./socket-protocol.ts";
import type { WireFrame } from "./wire-encoder.ts";

/** Larger frames break sockets on the way; what they would hold is fetched instead. */
const MAX_FRAME_BYTES = 1_000_000;
/** What fits in a socket's attachment, which is all of it that outlives hibernation. */
const MAX_FOLLOWED_RUNS = 100;

/** What a socket is remembered by while the object sleeps. */
interface Attachment {
  sessionId: string;
  access: Access;
  userId?: string;
  /** For each followed run the last stored index that was sent: a woken object goes on from there. */
  follows: Record<string, number>;
}

/** The object's WebSockets. They hibernate: an idle session with open sockets costs nothing. */
export class Sockets {
  readonly #context: DurableObjectState;
  readonly #session: Session;
  readonly #followed = new Map<WebSocket, Map<string, SocketFollower>>();

  constructor(context: DurableObjectState, session: Session) {
    this.#context = context;
    this.#session = session;
    context.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    for (const socket of context.getWebSockets()) this.#resume(socket);
  }

  /** Answers a client's upgrade. */
  accept(attachment: Omit<Attachment, "follows">): Response {
    const [client, server] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.#context.acceptWebSocket(server);
    server.serializeAttachment({ ...attachment, follows: {} } satisfies Attachment);
    this.#followed.set(server, new Map());
    send(server, { event: "connected", session_id: attachment.sessionId });
    return new Response(null, { status: 101, webSocket: client });
  }

  async onMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const message = parse(data);
    if ("error" in message) return send(socket, message);
    const ref = message.ref === undefined ? {} : { ref: message.ref };
    const { access } = attachmentOf(socket);
    switch (message.action) {
      case "ping":
        return send(socket, { event: "pong", ...ref });
      case "start":
        return this.#start(socket, message, ref);
      case "follow":
        return this.#follow(socket, message.run_id, message.after, ref);
      case "unfollow":
        return this.#unfollow(socket, message.run_id);
      case "cancel": {
        const answer = await this.#session.cancelRun({ runId: message.run_id, access });
        return send(socket, answer.ok ? { event: "cancel_accepted", run_id: message.run_id, ...ref } : { ...errorFrame(answer.error), run_id: message.run_id, ...ref });
      }
    }
  }

  onClose(socket: WebSocket): void {
    for (const runId of [...(this.#followed.get(socket)?.keys() ?? [])]) this.#unfollow(socket, runId);
    this.#followed.delete(socket);
  }

  /** The session is gone: there is nothing left that these could follow. */
  closeAll(reason: string): void {
    for (const socket of this.#context.getWebSockets()) {
      this.onClose(socket);
      socket.close(1000, reason);
    }
  }

  async #start(socket: WebSocket, message: Extract<SocketMessage, { action: "start" }>, ref: object): Promise<void> {
    const { sessionId, access, userId } = attachmentOf(socket);
    const agent = this.#session.core.parts.registry.agent(message.agent_id);
    if (agent === undefined) return send(socket, { ...errorFrame({ code: "not_found", message: "Agent not found" }), ...ref });
    const answer = await this.#session.startRun({
      runId: newId(),
      sessionId,
      sessionIsNew: false,
      access,
      ...(userId === undefined ? {} : { userId }),
      component: refOf(agent),
      input: {
        message: message.message.toWellFormed(),
        ...(message.session_state === undefined ? {} : { sessionState: message.session_state }),
        ...(message.dependencies === undefined ? {} : { dependencies: message.dependencies }),
        ...(message.metadata === undefined ? {} : { metadata: message.metadata }),
      },
      background: message.background,
      stream: true,
      onBusy: message.on_busy,
      onDisconnect: message.on_disconnect === "keep" ? "keep" : message.on_disconnect * 1_000,
    });
    if (!answer.ok) return send(socket, { ...errorFrame(answer.error), ...ref });
    send(socket, { event: "accepted", run_id: answer.value.runId, session_id: sessionId, ...ref });
    this.#follow(socket, answer.value.runId, -1, ref);
  }

  #follow(socket: WebSocket, runId: string, after: number, ref: object): void {
    const followed = this.#followed.get(socket) ?? new Map<string, SocketFollower>();
    this.#followed.set(socket, followed);
    if (followed.size >= MAX_FOLLOWED_RUNS && !followed.has(runId)) {
      return send(socket, { ...errorFrame({ code: "invalid_request", message: `A socket can follow ${MAX_FOLLOWED_RUNS} runs at a time.` }), run_id: runId, ...ref });
    }
    const watched = this.#session.watch(runId, attachmentOf(socket).access);
    if (!watched.ok) return send(socket, { ...errorFrame(watched.error), run_id: runId, ...ref });
    followed.get(runId)?.end();
    const follower = new SocketFollower(watched.value.log, after, {
      send: (text) => sendText(socket, text),
      onStored: (index) => this.#remember(socket, runId, index),
      onOver: () => this.#unfollow(socket, runId),
    });
    followed.set(runId, follower);
    follower.onEnd = watched.value.watch(follower);
    this.#remember(socket, runId, after);
    follower.begin();
  }

  #unfollow(socket: WebSocket, runId: string): void {
    const followed = this.#followed.get(socket);
    followed?.get(runId)?.end();
    followed?.delete(runId);
    const attachment = attachmentOf(socket);
    delete attachment.follows[runId];
    remember(socket, attachment);
  }

  #remember(socket: WebSocket, runId: string, index: number): void {
    const attachment = attachmentOf(socket);
    attachment.follows[runId] = index;
    remember(socket, attachment);
  }

  /** The object has woken: each socket goes on where it was, before anything new is told. */
  #resume(socket: WebSocket): void {
    this.#followed.set(socket, new Map());
    for (const [runId, after] of Object.entries(attachmentOf(socket).follows)) this.#follow(socket, runId, after, {});
  }
}

/** One run that one socket follows. */
class SocketFollower implements Follower {
  onEnd: () => void = () => {};
  readonly #log: EventLog;
  readonly #parts: { send: (text: string) => void; onStored: (index: number) => void; onOver: () => void };
  #cursor: number;
  #live = false;

  constructor(log: EventLog, after: number, parts: { send: (text: string) => void; onStored: (index: number) => void; onOver: () => void }) {
    this.#log = log;
    this.#cursor = after;
    this.#parts = parts;
  }

  /** Replays what was told, then hears of the rest: in one go, so that nothing can fall between. */
  begin(): void {
    this.#log.attach(this);
    for (let page = this.#log.read(this.#cursor); page.length > 0; page = this.#log.read(this.#cursor)) {
      for (const event of page) if (this.#tell(event, () => this.#log.frame(event)) === "over") return;
    }
    this.#live = true;
  }

  push(event: RunEvent, frame: () => WireFrame): void {
    if (this.#live) this.#tell(event, frame);
  }

  cut(): void {
    this.end();
  }

  end(): void {
    this.#live = false;
    this.#log.detach(this);
    this.onEnd();
    this.onEnd = () => {};
  }

  #tell(event: RunEvent, frame: () => WireFrame): "over" | undefined {
    this.#cursor = event.index;
    const { json } = frame();
    // Characters are at most three bytes each here, so only long ones need to be measured.
    const bytes = json.length * 3 > MAX_FRAME_BYTES ? new TextEncoder().encode(json).length : 0;
    this.#parts.send(bytes > MAX_FRAME_BYTES ? this.#log.oversized(event, bytes).json : json);
    if (!isDelta(event)) this.#parts.onStored(event.index);
    if (!isTerminalEvent(event)) return undefined;
    this.#parts.onOver();
    return "over";
  }
}

const attachmentOf = (socket: WebSocket): Attachment => socket.deserializeAttachment() as Attachment;
const errorFrame = (error: ErrorInfo) => ({ event: "error", error: error.message, error_type: error.code, ...error.details });
const send = (socket: WebSocket, frame: object): void => sendText(socket, JSON.stringify(frame));

function sendText(socket: WebSocket, text: string): void {
  try {
    socket.send(text);
  } catch {
    // It is closing; the client comes back with its cursor.
  }
}

function remember(socket: WebSocket, attachment: Attachment): void {
  try {
    socket.serializeAttachment(attachment);
  } catch {
    // It is closed, and nobody will ask for what it followed.
  }
}

function parse(data: string | ArrayBuffer): SocketMessage | { event: "error"; error: string; error_type: string } {
  const refuse = (code: string, error: string) => ({ event: "error" as const, error, error_type: code });
  if (typeof data !== "string") return refuse("invalid_request", "Messages are text: one JSON object each.");
  if (data.length > MAX_FRAME_BYTES) return refuse("payload_too_large", `A message may have ${MAX_FRAME_BYTES} bytes; send larger input over HTTP.`);
  let json: unknown;
  try {
    json = JSON.parse(data);
  } catch {
    return refuse("invalid_request", "The message is not JSON.");
  }
  const parsed = SocketMessage.safeParse(json);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  return refuse("unprocessable", `${issue?.path.join(".") || "message"}: ${issue?.message ?? "not a message"}`);
}
