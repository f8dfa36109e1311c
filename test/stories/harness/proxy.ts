import { createServer, request as ask } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** What goes between a client and the server, and fails when a story wants it to. */
export interface Proxy {
  url: string;
  /** Requests that came through, in order. */
  requests: { method: string; path: string; lastEventId: string | undefined; status: number | undefined }[];
  /** Cuts every connection there is. */
  cut(): void;
  /** From now on nobody gets through, or everybody does again. */
  refuse(refuses: boolean): void;
  close(): Promise<void>;
}

export async function startProxy(target: string): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const requests: Proxy["requests"] = [];
  let refusing = false;

  const server = createServer((incoming, response) => {
    const record: Proxy["requests"][number] = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      lastEventId: incoming.headers["last-event-id"] as string | undefined,
      status: undefined,
    };
    requests.push(record);
    if (refusing) return void incoming.socket.destroy();
    const outgoing = ask(target + incoming.url, { method: incoming.method, headers: incoming.headers }, (answer) => {
      record.status = answer.statusCode;
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
      answer.on("error", () => response.destroy());
    });
    outgoing.on("error", () => response.destroy());
    response.on("close", () => outgoing.destroy());
    incoming.pipe(outgoing);
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  server.listen(0, "127.0.0.1");
  await new Promise<void>((resolve) => server.once("listening", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    refuse(refuses) {
      refusing = refuses;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
