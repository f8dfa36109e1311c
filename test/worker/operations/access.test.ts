import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import type { AppError } from "../../../src/domain/errors.ts";
import type { Access } from "../../../src/domain/principal.ts";
import type { PlatformEnv } from "../../../src/env.ts";
import { cancelRun } from "../../../src/operations/cancel-run.ts";
import { makeOperationContext, type OperationContext } from "../../../src/operations/context.ts";
import { followRun, pollRun } from "../../../src/operations/follow-run.ts";
import { listRuns, readRun } from "../../../src/operations/read-run.ts";
import { startRun, type StartRequest } from "../../../src/operations/start-run.ts";
import { gateReached, releaseGate } from "../../../src/testing.ts";
import { os } from "../entry.ts";

/** What an edge makes for one user's request. */
const as = (userId: string): OperationContext =>
  makeOperationContext({
    principal: { kind: "user", subject: userId, scopes: [] },
    access: { rows: "user", userId } satisfies Access,
    env: env as unknown as PlatformEnv,
    registry: os.registry,
    requestId: "test",
  });

const ada = as("ada");
const bob = as("bob");

const request = (agent: string, fields: Partial<StartRequest> = {}): StartRequest => ({
  component: os.registry.agent(agent)!,
  input: { message: "hi" },
  stream: false,
  background: false,
  contentOnly: false,
  onBusy: "reject",
  onDisconnect: "keep",
  ...fields,
});

async function finished(context: OperationContext, fields: Partial<StartRequest> = {}) {
  const answer = await startRun(context, request("echo", fields));
  if (answer.kind !== "finished") throw new Error("It did not wait.");
  return answer.reading.record;
}

const component = (id: string) => ({ kind: "agent", id }) as const;

/** The same words for what is another's and for what was never there. */
const notFound = async (asked: Promise<unknown>, message: string) => {
  const error = (await asked.then(() => undefined, (thrown: unknown) => thrown)) as AppError;
  expect(error).toMatchObject({ code: "not_found", message });
};

describe("P6 what is another's does not exist", () => {
  it("a run: not to read, list, follow or poll", async () => {
    const { runId, sessionId } = await finished(ada);
    const run = { runId, sessionId, component: component("echo") };
    expect((await readRun(ada, run)).record.userId).toBe("ada");
    for (const asked of [run, { ...run, runId: crypto.randomUUID() }]) {
      await notFound(readRun(bob, asked), "Run not found");
      await notFound(pollRun(bob, asked, { after: -1, waitMs: 0 }), "Run not found");
      await notFound(pollRun(bob, { ...asked, sessionId: undefined }, { after: -1, waitMs: 0 }), "Run not found");
      await notFound(followRun(bob, asked, { after: -1, framing: "plain" }), "Run not found");
    }
    await notFound(listRuns(bob, sessionId, component("echo")), "Session not found");
    await notFound(listRuns(bob, crypto.randomUUID(), component("echo")), "Session not found");
  });

  it("a run: cancelling it is answered as for an unknown one, and changes nothing", async () => {
    const answer = await startRun(ada, request("held", { input: { message: "access-1" }, background: true }));
    if (answer.kind !== "accepted") throw new Error("It was not accepted.");
    const { runId, sessionId } = answer.run;
    await gateReached("access-1");
    const run = { runId, component: component("held") };
    expect(await cancelRun(bob, { ...run, sessionId })).toBeUndefined();
    expect(await cancelRun(bob, run)).toBeUndefined();
    // Under another component's name too: not even that it is there is told.
    expect(await cancelRun(bob, { ...run, sessionId, component: component("echo") })).toBeUndefined();
    expect((await readRun(ada, { ...run, sessionId })).record.status).toBe("running");
    releaseGate("access-1");
    for await (const _chunk of ((await followRun(ada, { ...run, sessionId }, { after: -1, framing: "plain" })) as { stream: Response }).stream.body!);
    expect((await readRun(ada, { ...run, sessionId })).record.status).toBe("completed");
  });

  it("a session: no run can be started in it, and none lands there", async () => {
    const { sessionId } = await finished(ada, { sessionId: "adas own" });
    await notFound(startRun(bob, request("echo", { sessionId })), "Session with id 'adas own' not found");
    await notFound(startRun(bob, request("echo", { sessionId, background: true })), "Session with id 'adas own' not found");
    await notFound(startRun(bob, request("echo", { sessionId, stream: true })), "Session with id 'adas own' not found");
    expect(await listRuns(ada, sessionId, component("echo"))).toHaveLength(1);
  });

  it("nobody is who they say they are where it is known who they are", async () => {
    expect((await finished(ada, { userId: "bob" })).userId).toBe("ada");
  });
});
