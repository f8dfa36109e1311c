import { expect, test } from "vitest";
import type { RecordedRequest } from "../fakes/client.ts";
import { lastUserText } from "../fakes/wire.ts";
import { callScript, calls, end, say, type Script, script, wait } from "../fakes/script.ts";
import { historyProblems, holesIn, logProblems, seenProblems } from "./harness/checks.ts";
import type { Client, KnownRun, WireRun } from "./harness/client.ts";
import { type EventStream, isTerminal, type WireEvent } from "./harness/event-stream.ts";
import { type Random, random, storySeed } from "./harness/random.ts";
import { startStory } from "./harness/story.ts";
import { until } from "./harness/until.ts";

/** How often the whole server is killed. */
const KILLS = process.env.SIGNALBOX_NIGHTLY === "1" ? 200 : 20;
/** How often a session's object alone is taken out of memory, as a deploy does it. */
const EVICTIONS = KILLS * 3;
/** Sessions that run turn after turn at the same time, so that each kill meets several moments of a turn. */
const SESSIONS = 5;

const seed = storySeed();

/** What a turn is to do, by the key in its message. The model's answer follows from it and from how far the turn has come. */
const plans = new Map<string, Plan>();

interface Plan {
  /** What each step says, and which tools it calls; the last one calls none. */
  steps: { words: string[]; calls: { id: string; tool: string; tag: string; ms: number }[] }[];
  everyMs: number;
}

const story = await startStory({ answer: playPlan });
const { provider, world } = story;

/** The same request is answered alike, however often it is made. */
function playPlan({ body }: RecordedRequest): Script | undefined {
  const plan = plans.get(keyOf(body));
  const step = plan?.steps[stepOf(body)];
  if (plan === undefined || step === undefined) return undefined;
  const talk = step.words.flatMap((word) => [say(word), wait(plan.everyMs)]);
  if (step.calls.length === 0) return script(...talk, end());
  return script(...talk, calls(...step.calls.map(({ id, tool, tag, ms }) => callScript(id, tool, [JSON.stringify({ tag, ms })]))), end("tool"));
}

/** Which turn a request is of. What a failed turn asked may stand in one message with what the next one asks: the newest counts. */
const keyOf = (body: Record<string, unknown>): string => [...lastUserText(body.messages).matchAll(/#([\w-]+)/g)].at(-1)?.[1] ?? "";

/** How many replies the turn has had already: those since the user spoke. On Anthropic's wire results are user messages too. */
function stepOf(body: Record<string, unknown>): number {
  const messages = body.messages as { role: string; content: unknown }[];
  const isSpoken = ({ role, content }: (typeof messages)[number]) => role === "user" && (typeof content === "string" || (content as { type: string }[]).some(({ type }) => type === "text"));
  return messages.slice(messages.findLastIndex(isSpoken) + 1).filter(({ role }) => role === "assistant").length;
}

const TOOLS = ["charge", "lookup", "idem", "probed"];

function makePlan(key: string, dice: Random): Plan {
  const words = () => Array.from({ length: dice.between(1, 12) }, (_, place) => `${key}.${place} `);
  const steps = Array.from({ length: dice.between(0, 3) }, (_, step) => ({
    words: dice.next() < 0.7 ? words() : [],
    calls: Array.from({ length: dice.between(1, 3) }, (_, place) => {
      const tool = dice.pick(TOOLS);
      return { id: `c${step}x${place}`, tool, tag: `${key}:${step}:${place}:${tool}`, ms: dice.between(0, 120) };
    }),
  }));
  return { steps: [...steps, { words: words(), calls: [] }], everyMs: dice.between(5, 40) };
}

/** One turn as its client lives through it. */
interface Turn {
  key: string;
  message: string;
  client: Client;
  sessionId: string;
  plan: Plan;
  run?: KnownRun;
  /** What was seen of it, connection by connection. */
  seen: WireEvent[][];
  /** Statuses that were read of it, in order. */
  statuses: string[];
}

/** Whether a call failed because the server is gone, or is just coming back: then it is made again. */
async function unlessDown<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call();
  } catch (error) {
    if (!isDown(error)) throw error;
    return undefined;
  }
}

const isDown = (error: unknown): boolean => error instanceof TypeError || (error instanceof Error && /answered 503|could not be opened/.test(error.message));

/** A client that runs one turn after the other on its session, and comes back after every kill. */
class Driver {
  readonly turns: Turn[] = [];
  readonly #client: Client;
  readonly #sessionId: string;
  readonly #dice: Random;
  readonly #isOver: () => boolean;

  constructor(name: string, client: Client, dice: Random, isOver: () => boolean) {
    this.#client = client;
    this.#sessionId = name;
    this.#dice = dice;
    this.#isOver = isOver;
  }

  async drive(): Promise<void> {
    while (!this.#isOver()) {
      const key = `${this.#sessionId}-t${this.turns.length}`;
      const plan = makePlan(key, this.#dice);
      plans.set(key, plan);
      const turn: Turn = { key, message: `do it #${key}`, client: this.#client, sessionId: this.#sessionId, plan, seen: [], statuses: [] };
      this.turns.push(turn);
      await this.#live(turn);
    }
  }

  /** From the first POST to the end that a client sees. */
  async #live(turn: Turn): Promise<void> {
    while (turn.run === undefined) {
      await this.#start(turn);
      turn.run ??= await this.#find(turn);
    }
    const { run } = turn;
    while (!turn.seen.some((events) => events.some(isTerminal))) {
      const after = Math.max(-1, ...turn.seen.flat().map(({ event_index }) => event_index));
      await unlessDown(() => this.#look(turn, run, after));
    }
    // The end was told: from here on nothing may say anything else.
    const read = await until("the run to be readable", () => unlessDown(() => turn.client.read(run)), { withinMs: 60_000 });
    turn.statuses.push(read.status);
  }

  async #start(turn: Turn): Promise<void> {
    const fields = { session_id: turn.sessionId, on_disconnect: "keep" };
    const shape = this.#dice.pick(["stream", "stream", "background", "whole", "socket"]);
    if (shape === "stream") {
      const stream = await unlessDown(() => turn.client.stream(turn.message, fields));
      if (stream !== undefined) await this.#watch(turn, stream);
    } else if (shape === "socket") {
      await unlessDown(() => this.#bySocket(turn, { action: "start", agent_id: turn.client.agent, message: turn.message, on_disconnect: "keep" }));
    } else {
      const answered = await unlessDown(() => turn.client.run(turn.message, { ...fields, background: shape === "background" }));
      if (answered === undefined) return;
      expect([200, 202, 409, 503]).toContain(answered.status);
      if (answered.status !== 200 && answered.status !== 202) return;
      turn.run = { runId: answered.body.run_id, sessionId: turn.sessionId };
      turn.statuses.push(answered.body.status);
    }
  }

  /** After a crash: was the turn accepted? A client finds it by what it said, as it is the only one on its session. */
  async #find(turn: Turn): Promise<KnownRun | undefined> {
    const runs = await until("the server to be back", () => unlessDown(() => turn.client.get<WireRun[]>(`/sessions/${turn.sessionId}/runs`)), { withinMs: 120_000, everyMs: 50 });
    if (runs.status !== 200) return undefined;
    const found = runs.body.find((run) => run.run_input === turn.message);
    return found === undefined ? undefined : { runId: found.run_id, sessionId: turn.sessionId };
  }

  /** Looks at the run from a cursor on, in one of the ways there are, until it is over or the connection is. */
  async #look(turn: Turn, run: KnownRun, after: number): Promise<void> {
    const way = this.#dice.pick(["follow", "resume", "poll", "socket"]);
    if (way === "follow") return this.#watch(turn, await turn.client.follow(run, { lastEventId: after }));
    if (way === "resume") return this.#watch(turn, await turn.client.resume(run, after));
    if (way === "socket") return this.#bySocket(turn, { action: "follow", run_id: run.runId, after });
    const { status, body } = await turn.client.poll(run, after, 2);
    if (status === 503) return;
    expect(status).toBe(200);
    turn.seen.push(body.events);
    turn.statuses.push(body.status);
  }

  async #watch(turn: Turn, stream: EventStream): Promise<void> {
    turn.seen.push(stream.events);
    await stream.closed;
    const [first] = stream.events;
    if (first !== undefined) turn.run ??= { runId: first.run_id, sessionId: turn.sessionId };
    if (stream.notices.some(({ event }) => event === "error")) throw new Error(`A resume was refused: ${stream.raw}`);
  }

  async #bySocket(turn: Turn, message: object): Promise<void> {
    const socket = await turn.client.socket(turn.sessionId);
    turn.seen.push(socket.events);
    socket.send(message);
    await until("the run's end, or the socket's", () => socket.state !== "open" || socket.events.some(isTerminal) || socket.frames.some(({ event }) => event === "error"), { withinMs: 120_000 });
    const accepted = socket.frames.find(({ event }) => event === "accepted");
    if (accepted !== undefined) turn.run ??= { runId: String(accepted.run_id), sessionId: turn.sessionId };
    socket.drop();
  }
}

/** Everything that must be true of a turn once all is over. `crashes`: how often its attempts can have been cut off. */
async function check(turn: Turn, crashes: number): Promise<string> {
  const { key, client, plan } = turn;
  const run = turn.run!;
  const log = await client.log(run);
  const read = await client.read(run);
  const told = { key, run: run.runId };

  // Nothing that was seen is gone, and there is no hole in what was seen of it.
  expect({ ...told, problems: logProblems(log) }).toEqual({ ...told, problems: [] });
  for (const events of turn.seen) expect({ ...told, problems: seenProblems(events, log) }).toEqual({ ...told, problems: [] });
  if (turn.seen.some((events) => events[0]?.event_index === 0)) expect({ ...told, holes: holesIn(turn.seen.flat(), -1, log) }).toEqual({ ...told, holes: [] });

  // Everyone agrees on the end, from the moment it was told.
  const last = log.at(-1)!;
  const status = { RunCompleted: "COMPLETED", RunError: "ERROR", RunCancelled: "CANCELLED" }[last.event];
  expect({ ...told, status: read.status }).toEqual({ ...told, status });
  expect({ ...told, ends: new Set(turn.statuses.filter((seen) => seen !== "PENDING" && seen !== "RUNNING")) }).toEqual({ ...told, ends: new Set([status]) });
  expect(read.events).toEqual(log.filter(({ event }) => event !== "RunContent"));
  const [listed] = (await client.get<WireRun[]>(`/sessions/${turn.sessionId}/runs`)).body.filter((one) => one.run_id === run.runId);
  expect({ ...told, status: listed?.status, content: listed?.content }).toEqual({ ...told, status, content: read.content });
  await until("D1 to have the end", async () => (await story.rowsOf(turn.sessionId)).find((row) => row.run_id === run.runId)?.status === status, { withinMs: 30_000 });

  // Each call was made as often as its tool allows, and the ledger says which may have happened.
  const ledger = new Map((read.tools ?? []).map((tool) => [String(tool.tool_args.tag), tool]));
  expect(ledger.size).toBe(read.tools?.length ?? 0);
  for (const { tag, tool } of plan.steps.flatMap(({ calls }) => calls)) {
    const effects = world.effects(tag);
    const entry = ledger.get(tag);
    const done = entry?.tool_call_error === false;
    const context = { ...told, tag, status, result: entry?.result };
    if (entry === undefined) expect({ ...context, effects }).toEqual({ ...context, effects: 0 });
    else if (done && tool !== "lookup") expect({ ...context, effects }).toEqual({ ...context, effects: 1 });
    else if (done) expect(effects).toBeGreaterThan(0);
    else if (tool !== "lookup") expect(effects).toBeLessThanOrEqual(1);
    if (entry !== undefined && !done) expect({ ...context, why: entry.result }).toEqual({ ...context, why: expect.stringMatching(/unknown|may have happened|not executed/i) });
  }

  if (status === "COMPLETED") {
    expect(read.content).toBe(plan.steps.flatMap(({ words }) => words).join(""));
    expect(ledger.size).toBe(plan.steps.flatMap(({ calls }) => calls).length);
    return "COMPLETED";
  }
  // The only ends that a crash may bring are those that say why.
  expect({ ...told, status, crashes: crashes > 0 }).toEqual({ ...told, status: "ERROR", crashes: true });
  expect(["tool_outcome_unknown", "attempts_exhausted"]).toContain(read.error_type);
  if (read.error_type === "tool_outcome_unknown") {
    const unknown = (read.tools ?? []).filter(({ tool_name, tool_call_error }) => tool_name === "charge" && tool_call_error);
    expect(unknown.length).toBeGreaterThan(0);
  } else {
    expect(log.filter(({ event, reason }) => event === "RunRetry" && reason === "crash").length).toBeGreaterThanOrEqual(3);
  }
  return String(read.error_type);
}

/** All there is to know of a turn that is not as it should be. */
async function dump({ key, client, sessionId, message, run, seen, statuses, plan }: Turn): Promise<string> {
  const runs = (await client.get<WireRun[]>(`/sessions/${sessionId}/runs`)).body;
  return JSON.stringify(
    {
      run,
      plan: plan.steps,
      log: (await client.log(run!)).map(({ event, event_index, reason, discarded, tool, content, created_at }) => [event_index, event, created_at, reason, discarded, tool?.tool_args.tag, tool?.result, content]),
      runs: runs.filter(({ run_input }) => run_input === message).map(({ run_id, status, created_at, tools, content, error_type }) => ({ run_id, status, created_at, tools, content, error_type })),
      read: await client.read(run!),
      acts: world.acts().filter(({ tag }) => tag.startsWith(`${key}:`)),
      requests: provider.requests().filter(({ body }) => keyOf(body) === key).map(({ receivedAt, state, body }) => ({ receivedAt, state, messages: (body.messages as unknown[]).length, step: stepOf(body) })),
      seen: seen.map((events) => events.map(({ event, event_index, run_id }) => `${run_id.slice(-4)} ${event_index} ${event}`)),
      statuses,
    },
    undefined,
    1,
  );
}

/** Runs sessions turn after turn while `disturb` does its worst, then checks every turn of every session. */
async function throughTrouble(name: string, dice: Random, report: (message: string) => unknown, disturb: (drivers: Driver[]) => Promise<number>): Promise<void> {
  let over = false;
  const clients = [story.chat, story.claude];
  const names = Array.from({ length: SESSIONS }, (_, place) => `${name}-${seed}-s${place}`);
  const drivers = names.map((sessionId, place) => new Driver(sessionId, clients[place % clients.length]!, dice.fork(sessionId), () => over));
  const driving = Promise.all(drivers.map((driver) => driver.drive()));
  driving.catch(() => {});
  const crashes = await Promise.race([disturb(drivers), driving.then(() => 0)]);
  over = true;
  await driving;

  const ends: Record<string, number> = {};
  let interrupted = 0;
  for (const driver of drivers) {
    for (const turn of driver.turns) {
      const ended = await check(turn, crashes).catch(async (failure) => {
        console.error(await dump(turn));
        throw failure;
      });
      ends[ended] = (ends[ended] ?? 0) + 1;
      if ((await turn.client.log(turn.run!)).some(({ event, reason }) => event === "RunRetry" && reason === "crash")) interrupted += 1;
    }
    const [turn] = driver.turns;
    const { client, sessionId } = turn!;
    // One run for each turn that was posted: a POST whose answer was lost was not accepted twice.
    const runs = (await client.get<WireRun[]>(`/sessions/${sessionId}/runs`)).body;
    expect(runs.map(({ run_input }) => run_input)).toEqual(driver.turns.map(({ message }) => message));
    expect((await story.rowsOf(sessionId)).map(({ run_id }) => run_id)).toEqual(runs.map(({ run_id }) => run_id));
    // And the session takes the next turn.
    plans.set(`${sessionId}-next`, { steps: [{ words: ["still here"], calls: [] }], everyMs: 0 });
    expect((await client.run(`next #${sessionId}-next`, { session_id: sessionId })).body).toMatchObject({ status: "COMPLETED", content: "still here" });
  }
  expect(historyProblems(provider.requests())).toEqual([]);
  const turns = drivers.reduce((sum, driver) => sum + driver.turns.length, 0);
  await report(`${crashes} crashes, ${turns} turns, ${interrupted} of them interrupted: ${JSON.stringify(ends)}`);
  // Trouble that met no turn, or let none come to its end, has tested nothing.
  expect(interrupted).toBeGreaterThan(0);
  expect(ends.COMPLETED).toBeGreaterThan(0);
}

test(`P2 P3 P4 P5 S117 S137 S161 C004 ${KILLS} kills of the whole server lose nothing, repeat nothing and leave every session free (seed ${seed})`, { timeout: KILLS * 60_000 }, async ({ annotate }) => {
  const dice = random(seed).fork("kills");
  await throughTrouble("kill", dice, annotate, async () => {
    for (let kill = 0; kill < KILLS; kill += 1) {
      // Some kills come while the sessions are still being taken up again.
      const after = performance.now() + (dice.next() < 0.25 ? dice.between(0, 300) : dice.between(300, 2_500));
      await until("the moment to kill", () => performance.now() >= after, { everyMs: 1 });
      await story.server.kill();
      await story.server.start();
    }
    return KILLS;
  });
});

test(`P2 P3 P4 P5 C012 ${EVICTIONS} resets of single objects lose nothing and repeat nothing (seed ${seed})`, { timeout: KILLS * 15_000 }, async ({ annotate }) => {
  const dice = random(seed).fork("evictions");
  await throughTrouble("evict", dice, annotate, async (drivers) => {
    for (let eviction = 0; eviction < EVICTIONS; eviction += 1) {
      const after = performance.now() + dice.between(20, 400);
      await until("the moment to evict", () => performance.now() >= after, { everyMs: 1 });
      await story.evict(dice.pick(drivers).turns[0]!.sessionId);
    }
    return EVICTIONS;
  });
});
