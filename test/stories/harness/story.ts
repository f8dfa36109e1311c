import { afterAll, afterEach } from "vitest";
import { type FakeProvider, type FakeProviderOptions, startFakeProvider } from "../../fakes/provider.ts";
import { type Script, script, say, end } from "../../fakes/script.ts";
import { type Client, client } from "./client.ts";
import { type Server, startServer, STORY_APP } from "./server.ts";
import { startWorld, type World } from "./world.ts";

/** The stories' app with everything around it. */
export interface Story {
  server: Server;
  provider: FakeProvider;
  world: World;
  chat: Client;
  claude: Client;
  /** A key of its own for a test: scripts are queued by it, and messages carry it. */
  key(name: string): string;
  /** Queues what the model answers to messages that carry the key, one script each request. */
  play(key: string, ...scripts: Script[]): void;
  /** D1, read past the platform. */
  d1<Row = Record<string, unknown>>(sql: string, ...values: unknown[]): Promise<Row[]>;
  /** What D1 says of a session's runs, in the order they were accepted, with statuses in the wire's words. */
  rowsOf(sessionId: string): Promise<{ run_id: string; status: string }[]>;
  /** Which life of a session's object answers. */
  instance(sessionId: string): Promise<string>;
  /** Takes a session's object out of memory, whatever it is doing. */
  evict(sessionId: string): Promise<void>;
}

/** Starts the stories' app once for a file of tests, and ends it after them. Call it at the top of the file. */
export async function startStory({ vars = {}, ...options }: { vars?: Record<string, string> } & Pick<FakeProviderOptions, "answer"> = {}): Promise<Story> {
  const [provider, world] = await Promise.all([startFakeProvider(options), startWorld()]);
  const server = await startServer({
    config: STORY_APP,
    vars: { WORLD_URL: world.url, OPENAI_BASE_URL: `${provider.url}/v1`, ANTHROPIC_BASE_URL: provider.url, ...vars },
  });
  let printed = 0;
  afterEach(({ task }) => {
    const log = server.log().slice(printed);
    printed += log.length;
    if (task.result?.state === "fail") console.error(`What the server printed meanwhile:\n${log}`);
  });
  afterAll(async () => {
    await server.stop();
    await Promise.all([provider.close(), world.close()]);
  });

  const ask = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${server.url}/__story/${path}`, init);
    if (!response.ok) throw new Error(`/__story/${path} answered ${response.status}: ${await response.text()}`);
    return response;
  };
  const inSession = (sessionId: string) => `?${new URLSearchParams({ session: sessionId })}`;
  const d1: Story["d1"] = async (sql, ...values) => (await (await ask("d1", { method: "POST", body: JSON.stringify({ sql, values }) })).json()) as any;
  let keys = 0;

  return {
    server,
    provider,
    world,
    chat: client(server.url, "chat"),
    claude: client(server.url, "claude"),
    key: (name) => `${name}-${(keys += 1)}`,
    play: (key, ...scripts) => provider.next(scripts, key),
    d1,
    async rowsOf(sessionId) {
      const rows = await d1<{ run_id: string; status: string }>("SELECT run_id, status FROM runs WHERE session_id = ? ORDER BY ordinal", sessionId);
      return rows.map(({ run_id, status }) => ({ run_id, status: status === "failed" ? "ERROR" : status.toUpperCase() }));
    },
    instance: async (sessionId) => (await ask(`instance${inSession(sessionId)}`)).text(),
    evict: async (sessionId) => void (await ask(`evict${inSession(sessionId)}`, { method: "POST" })),
  };
}

/** A short answer. */
export const answer = (text: string): Script => script(say(text), end());
