import { once } from "node:events";
import { createServer } from "node:net";

/**
 * The port, when nobody listens on it; some free port for 0.
 * @throws the system's error, `EADDRINUSE` where somebody does.
 */
export async function freePort(ip: string, port: number): Promise<number> {
  const server = createServer();
  const listening = once(server, "listening");
  server.listen(port, ip);
  await listening;
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : port;
}
