import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { guardOf } from "../../../src/auth/require-scope.ts";
import { createAgentOS } from "../../../src/os.ts";
import { MIGRATIONS } from "../../../src/storage/migrations-applied.ts";
import { echo } from "../agents.ts";
import { os } from "../entry.ts";
import { call, callWith, form, json } from "../http.ts";

const ORIGIN = "http://localhost:3000";
const KEY = { OS_SECURITY_KEY: "open sesame" };
const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

/** Every route there is, as requests can be made of them. */
const ROUTES = os.routes.routes
  .filter(({ method }) => method !== "ALL")
  .map(({ method, path, handler }) => ({ method, path, guard: guardOf(handler) }));

const DOORS = [...Map.groupBy(ROUTES, ({ method, path }) => `${method} ${path}`)].map(([door, handlers]) => ({
  door,
  method: handlers[0]!.method,
  path: handlers[0]!.path.replaceAll(/:\w+/g, "x").replaceAll("*", "x"),
  guard: handlers.find(({ guard }) => guard !== undefined)?.guard,
}));

describe("every route", () => {
  it("has a guard on its door", () => {
    expect(DOORS.length).toBeGreaterThan(15);
    expect(DOORS.filter(({ guard }) => guard === undefined).map(({ door }) => door)).toEqual([]);
  });

  it("is public only if it says so on this list", () => {
    expect(DOORS.filter(({ guard }) => guard === "public").map(({ door }) => door).sort()).toEqual([
      "GET /",
      "GET /docs",
      "GET /docs/openapi-explorer.min.js",
      "GET /health",
      "GET /info",
      "GET /openapi.json",
    ]);
  });

  it.each(DOORS.filter(({ guard }) => guard !== "public"))("$door lets nobody in without the key, or with a wrong one", async ({ method, path }) => {
    const none = await callWith(KEY, path, { method });
    expect([none.status, await none.json()]).toMatchObject([401, { detail: "Authorization header required" }]);
    const wrong = await callWith(KEY, path, { method, ...bearer("open barley") });
    expect([wrong.status, await wrong.json()]).toMatchObject([401, { detail: "Invalid authentication token" }]);
  });

  it.each(DOORS)("$door answers a preflight before anyone says who they are", async ({ method, path }) => {
    const headers = { origin: ORIGIN, "access-control-request-method": method, "access-control-request-headers": "authorization, content-type, last-event-id" };
    const answer = await callWith(KEY, path, { method: "OPTIONS", headers });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-origin")).toBe(ORIGIN);
    expect(answer.headers.get("access-control-allow-headers")).toBe("authorization,content-type,last-event-id");
    expect(answer.headers.get("access-control-max-age")).toBe("600");
    expect(answer.headers.get("access-control-allow-methods")!.split(",")).toEqual(["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY"]);
  });

  it("S142 is in the OpenAPI document, with its guard", async () => {
    const document = await (await call("/openapi.json")).json<any>();
    expect(document.openapi).toBe("3.1.0");
    const listed = Object.entries<any>(document.paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`));
    const there = DOORS.map(({ door }) => door.replaceAll(/:(\w+)(\{[^/]*\})?/g, "{$1}"));
    expect(listed.sort()).toEqual(there.sort());
    expect(document.paths["/agents/{component_id}/runs"].post.security).toEqual([{ bearer: ["agents:run"] }]);
    expect(document.paths["/health"].get.security).toEqual([]);
    expect(document.components.securitySchemes.bearer).toMatchObject({ type: "http", scheme: "bearer" });
    const fields = document.paths["/agents/{component_id}/runs"].post.requestBody.content["multipart/form-data"].schema;
    expect(fields).toMatchObject({ required: ["message"], properties: { stream: { type: "boolean" }, on_busy: { enum: ["reject", "enqueue", "interrupt"] } } });
  });
});

describe("who may come in", () => {
  it.each([bearer("open sesame"), { headers: { authorization: "open sesame" } }, { headers: { authorization: "bearer open sesame" } }])("the key opens, as %j", async (init) => {
    expect((await callWith(KEY, "/agents", init)).status).toBe(200);
  });

  it.each(["open sesam", "open sesame ", "", "Basic b3BlbiBzZXNhbWU=", "Bearer"])("%j does not open", async (token) => {
    const answer = await callWith(KEY, "/agents", { headers: { authorization: token === "open sesame " ? "Bearer open sesame x" : token } });
    expect(answer.status).toBe(401);
    expect(answer.headers.has("www-authenticate")).toBe(false);
  });

  it("public routes need no key", async () => {
    for (const path of ["/", "/health", "/info", "/docs", "/openapi.json"]) expect((await callWith(KEY, path)).status, path).toBe(200);
    expect(await (await callWith(KEY, "/info")).json()).toMatchObject({ auth_mode: "security_key", user_isolation: false });
  });

  it("an unknown path is not told from a known one to who may not come in", async () => {
    expect((await callWith(KEY, "/nowhere")).status).toBe(401);
    expect((await callWith(KEY, "/nowhere", bearer("open sesame"))).status).toBe(404);
    expect((await callWith(KEY, "/health", { method: "POST" })).status).toBe(401);
  });

  it("a deployment without any auth answers 503 to all but /health", async () => {
    for (const { method, path, door } of DOORS) {
      const answer = await callWith({}, path, { method });
      if (door === "GET /health") expect(answer.status).toBe(200);
      else expect([answer.status, ((await answer.json()) as any).error_type], door).toEqual([503, "auth_not_configured"]);
    }
    expect((await callWith({}, "/nowhere")).status).toBe(503);
  });

  it.each([
    { settings: { SIGNALBOX_AUTH: "nobody" }, says: "must be" },
    { settings: { SIGNALBOX_AUTH: "none", ...KEY }, says: "Remove one of them" },
    { settings: { SIGNALBOX_AUTH: "security_key" }, says: "OS_SECURITY_KEY is not set" },
  ])("$settings closes the deployment and says why", async ({ settings, says }) => {
    const answer = await callWith(settings, "/agents", bearer("open sesame"));
    expect([answer.status, await answer.json()]).toEqual([503, { detail: expect.stringContaining(says), error_type: "auth_not_configured" }]);
  });
});

describe("C095 origins", () => {
  const get = (origin: string, settings: Record<string, unknown> = { SIGNALBOX_AUTH: "none" }, path = "/agents") => callWith(settings, path, { headers: { origin } });

  it.each([ORIGIN, "https://os.agno.com", "https://app.agno.com"])("%s may call", async (origin) => {
    const { headers } = await get(origin);
    expect(headers.get("access-control-allow-origin")).toBe(origin);
    expect(headers.get("access-control-allow-credentials")).toBe("true");
    expect(headers.get("vary")).toMatch(/\bOrigin\b/);
    expect(headers.get("access-control-expose-headers")).toContain("*");
  });

  it.each(["https://os.agno.com.evil.test", "https://evil.test", "null", "http://localhost:3001", "https://localhost:3000"])("%s may not", async (origin) => {
    for (const method of ["GET", "OPTIONS"]) {
      const { headers } = await call("/agents", { method, headers: { origin, "access-control-request-method": "GET" } });
      for (const name of ["origin", "credentials"]) expect(headers.has(`access-control-allow-${name}`), name).toBe(false);
    }
  });

  it("CORS_ORIGINS adds to the list", async () => {
    const settings = { SIGNALBOX_AUTH: "none", CORS_ORIGINS: "https://mine.test, https://other.test:8443/" };
    for (const origin of ["https://mine.test", "https://other.test:8443", ORIGIN]) expect((await get(origin, settings)).headers.get("access-control-allow-origin")).toBe(origin);
    for (const origin of ["https://other.test", "https://x.mine.test"]) expect((await get(origin, settings)).headers.has("access-control-allow-origin")).toBe(false);
    const anyone = await get("https://any.test", { SIGNALBOX_AUTH: "none", CORS_ORIGINS: "*" });
    expect(anyone.headers.get("access-control-allow-origin")).toBe("https://any.test");
  });

  it("errors and streams carry the headers too", async () => {
    const cases = [
      callWith(KEY, "/agents", { headers: { origin: ORIGIN } }),
      call("/nowhere", { headers: { origin: ORIGIN } }),
      call("/agents", { method: "PUT", headers: { origin: ORIGIN } }),
      call("/agents/echo/runs", { method: "POST", headers: { origin: ORIGIN } }),
      call("/agents/echo/runs", { ...form({ message: "hi" }), headers: { origin: ORIGIN } }),
    ];
    for (const answer of await Promise.all(cases)) {
      expect(answer.headers.get("access-control-allow-origin"), String(answer.status)).toBe(ORIGIN);
      await answer.text();
    }
  });
});

describe("the request's id", () => {
  it.each(["abc-123_=", "x".repeat(128)])("%s is kept", async (id) => {
    expect((await call("/health", { headers: { "x-request-id": id } })).headers.get("x-request-id")).toBe(id);
  });

  it.each(["a b", "<script>", "x".repeat(129), "a/b"])("%s is replaced", async (id) => {
    expect((await call("/health", { headers: { "x-request-id": id } })).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("is on errors, streams and sockets as well", async () => {
    const headers = { "x-request-id": "mine" };
    const cases = [call("/nowhere", { headers }), call("/agents/none", { headers }), callWith(KEY, "/agents", { headers }), call("/agents/echo/runs", { ...form({ message: "hi" }), headers })];
    for (const answer of await Promise.all(cases)) {
      expect(answer.headers.get("x-request-id"), String(answer.status)).toBe("mine");
      await answer.text();
    }
  });
});

describe("paths and methods", () => {
  it("an unknown path is 404 and a wrong method 405 with those that are right", async () => {
    const unknown = await call("/nowhere");
    expect([unknown.status, await unknown.json()]).toEqual([404, { detail: "Not Found" }]);
    const wrong = await call("/agents/echo/runs", { method: "DELETE" });
    expect([wrong.status, await wrong.json()]).toEqual([405, { detail: "Method Not Allowed" }]);
    expect(wrong.headers.get("allow")!.split(", ").sort()).toEqual(["GET", "HEAD", "POST"]);
  });

  it("what is not found at a path that is there stays 404", async () => {
    const missing = await call("/agents/none");
    expect([missing.status, await missing.json()]).toEqual([404, { detail: "Agent not found", error_type: "not_found" }]);
  });

  it("a slash at the end changes nothing", async () => {
    expect(await (await call("/agents/")).json()).toEqual(await (await call("/agents")).json());
    expect((await call("/agents/echo/")).status).toBe(200);
  });

  it("HEAD answers as GET without a body", async () => {
    for (const path of ["/", "/health", "/agents", "/agents/echo", "/docs"]) {
      const answer = await call(path, { method: "HEAD" });
      expect([answer.status, await answer.text()], path).toEqual([200, ""]);
    }
    expect((await call("/agents/none", { method: "HEAD" })).status).toBe(404);
  });
});

describe("what the deployment says of itself", () => {
  it("S151 /health is ok with everything there, and names what is missing", async () => {
    expect(await (await call("/health")).json()).toEqual({ status: "ok", instantiated_at: expect.stringMatching(/Z$/) });

    const unbound = await callWith({ DB: undefined, SESSIONS: undefined }, "/health");
    expect([unbound.status, await unbound.json()]).toMatchObject([503, { missing_bindings: ["DB", "SESSIONS"] }]);

    // A database that wrangler has applied nothing to.
    const empty = { prepare: () => ({ all: () => Promise.reject(new Error("D1_ERROR: no such table: d1_migrations: SQLITE_ERROR")) }) };
    const unmigrated = await callWith({ DB: empty }, "/health");
    expect([unmigrated.status, await unmigrated.json()]).toMatchObject([503, { unapplied_migrations: MIGRATIONS, detail: expect.stringContaining(MIGRATIONS[0]) }]);

    const down = { prepare: () => ({ all: () => Promise.reject(new Error("D1_ERROR: internal error")) }) };
    expect((await callWith({ DB: down }, "/health")).status).toBe(503);
  });

  it("a deployment that lacks a binding says so instead of failing", async () => {
    const answer = await callWith({ SIGNALBOX_AUTH: "none", SESSIONS: undefined }, "/agents/echo/runs", form({ message: "hi" }));
    expect([answer.status, await answer.json()]).toEqual([503, { detail: expect.stringContaining("SESSIONS"), error_type: "not_available" }]);
  });

  it("S2 S22 S65 /info tells versions and modes, nulls included", async () => {
    expect(await (await call("/info")).json()).toEqual({
      os_id: "signalbox",
      name: "Test",
      os_version: "1.0.0",
      agno_version: expect.stringMatching(/^3\./),
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      schema_version: expect.stringMatching(/\.sql$/),
      agent_count: os.registry.agents.length,
      team_count: 0,
      workflow_count: 0,
      mcp: { enabled: false, path: null, oauth: null },
      auth_mode: "none",
      user_isolation: false,
    });
  });

  it("S118 S176 /config shows what there is, without nulls", async () => {
    const config = await (await call("/config")).json<any>();
    expect(config).toMatchObject({ os_id: "signalbox", name: "Test", databases: [config.os_database], teams: [], workflows: [], interfaces: [], chat: { quick_prompts: { echo: ["Say hello."] } } });
    expect(config.agents.map((agent: any) => agent.id)).toEqual(os.registry.agents.map((agent) => agent.id));
    expect(config.available_models).toContainEqual({ id: "echo", provider: "scripted" });
    expect(Object.values(config)).not.toContain(null);
  });

  it("S183 /agents is complete before any run, and agent-ui finds what it needs", async () => {
    const agents = await (await call("/agents")).json<any[]>();
    expect(agents.map((agent) => agent.id)).toEqual(os.registry.agents.map((agent) => agent.id));
    for (const agent of agents) expect(agent).toMatchObject({ name: expect.stringMatching(/./), db_id: expect.stringMatching(/./), model: { model: expect.any(String), provider: expect.any(String) } });
    expect(await (await call("/agents/echo")).json()).toEqual(agents.find((agent) => agent.id === "echo"));
    expect(await (await call("/teams")).json()).toEqual([]);
    expect(await (await call("/workflows")).json()).toEqual([]);
  });

  it("the docs page says what to bind until its script is bound, and then serves it from here", async () => {
    const unbound = await call("/docs");
    expect(unbound.headers.get("content-type")).toMatch(/^text\/html/);
    expect(await unbound.text()).toContain('binding = "ASSETS"');
    expect((await call("/docs/openapi-explorer.min.js")).status).toBe(404);

    const ASSETS = { fetch: async (url: URL) => new Response(`// ${new URL(url).pathname}`, { headers: { "content-type": "text/javascript" } }) };
    const bound = { SIGNALBOX_AUTH: "none", ASSETS };
    const page = await callWith(bound, "/docs");
    expect(await page.text()).toContain('src="docs/openapi-explorer.min.js"');
    expect(page.headers.get("content-security-policy")).toContain("default-src 'self'");
    expect(await (await callWith(bound, "/docs/openapi-explorer.min.js")).text()).toBe("// /openapi-explorer.min.js");
  });
});

describe("what goes wrong inside", () => {
  it("is told by its request's id alone, and logged without what was sent", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const SESSIONS = { idFromName: () => ({}), get: () => ({ readRun: () => Promise.reject(new TypeError("secret of the client")), fetch: () => Promise.reject(new TypeError("secret of the client")) }) };
    const settings = { SIGNALBOX_AUTH: "none", SESSIONS };
    const init = { ...form({ message: "my secret" }), headers: { "x-request-id": "r-500", authorization: "Bearer hidden" } };
    const answer = await callWith(settings, "/agents/echo/runs", init);
    expect([answer.status, await answer.json()]).toEqual([500, { detail: "Internal server error", error_type: "internal", request_id: "r-500" }]);
    const logged = log.mock.calls.flat().join(" ");
    log.mockRestore();
    expect(logged).toContain("r-500");
    expect(logged).toContain("/agents/:component_id/runs");
    expect(logged).not.toMatch(/secret|hidden/);
  });

  it("a database that is down is 503 with a time to come back, not 500", async () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => {});
    const failing = { prepare: () => ({ bind: () => ({ raw: () => Promise.reject(new Error("D1_ERROR: network connection lost")), all: () => Promise.reject(new Error("D1_ERROR: network connection lost")) }) }) };
    const answer = await callWith({ SIGNALBOX_AUTH: "none", DB: failing }, `/agents/echo/runs/${crypto.randomUUID()}/events`);
    log.mockRestore();
    expect([answer.status, ((await answer.json()) as any).error_type, answer.headers.get("retry-after")]).toEqual([503, "unavailable", "1"]);
  });

  it("an overloaded session is 503; one that was reset is asked again", async () => {
    const refusing = (error: Error) => ({ SIGNALBOX_AUTH: "none", SESSIONS: { idFromName: () => ({}), get: () => ({ fetch: () => Promise.reject(error) }) } });
    const overloaded = await callWith(refusing(Object.assign(new Error("overloaded"), { overloaded: true, retryable: true })), "/agents/echo/runs", form({ message: "hi" }));
    expect([overloaded.status, overloaded.headers.get("retry-after")]).toEqual([503, "1"]);

    let asked = 0;
    const namespace = { idFromName: (name: string) => env.SESSIONS.idFromName(name), get: (id: DurableObjectId) => ({ fetch: (...args: Parameters<Fetcher["fetch"]>) => (++asked < 3 ? Promise.reject(Object.assign(new Error("reset"), { retryable: true })) : env.SESSIONS.get(id).fetch(...args)) }) };
    const answer = await callWith({ SIGNALBOX_AUTH: "none", SESSIONS: namespace }, "/agents/echo/runs", form({ message: "again" }));
    expect([answer.status, asked]).toEqual([200, 3]);
    expect(await answer.text()).toContain("You said: again");
  });
});

describe("putting a deployment together", () => {
  it("S179 needs something to run", () => {
    expect(() => createAgentOS({ agents: [] })).toThrow(new RangeError("createAgentOS needs at least one agent."));
    expect(() => createAgentOS({ agents: [echo, echo] })).toThrow(RangeError);
  });

  it("keeps several deployments in one isolate apart", async () => {
    const other = createAgentOS({ agents: [echo], id: "other", corsOrigins: ["https://other.test"] });
    const ask = async (path: string) => (await other.routes.request(path, { headers: { origin: "https://other.test" } }, { ...env, SIGNALBOX_AUTH: "none" }));
    expect(await (await ask("/info")).json()).toMatchObject({ os_id: "other", agent_count: 1 });
    expect((await ask("/info")).headers.get("access-control-allow-origin")).toBe("https://other.test");
    expect((await ask("/agents/held")).status).toBe(404);
    expect((await call("/agents/held")).status).toBe(200);
  });

  it("a message that nobody understands is kept for a version that does", async () => {
    const retryAll = vi.fn();
    await os.queue({ messages: [], queue: "q", retryAll, ackAll: () => expect.fail("It was dropped.") } as unknown as MessageBatch);
    expect(retryAll).toHaveBeenCalledOnce();
  });

  it("JSON and forms alike", async () => {
    expect((await call("/agents/echo/runs", json({ message: "hi", stream: false }))).status).toBe(200);
  });
});
