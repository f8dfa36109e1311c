import type { Bench, Section, Side } from "../bench-context.ts";
import { INSTANT, warmSession } from "../bench-context.ts";
import { bare, product, run, type Target } from "../client.ts";
import { countsOf, D1_ROW_BUDGET, objectRowBudget, type SessionCounts, written } from "../counts.ts";
import type { Figure } from "../figure.ts";
import { fsyncsOf } from "../fsyncs.ts";
import { serve, type Server } from "../server.ts";
import { median } from "../statistics.ts";

const section = "Rows, commits and growth";
const KIB = 1024;
const PACED_SECONDS = 4;
const PACED = `Hello #n=400,ms=${(PACED_SECONDS * 1000) / 400}#`;
const FSYNC_RUNS = 5;

/** What a turn writes. Counted on a server of its own, because counting takes time. */
export const rows: Section = async (bench) => {
  const server = await serve("worker", bench.product.bundle, { modelUrl: bench.model.url, counting: true });
  const target = product(server.url);
  const figures: Figure[] = [];

  async function turn(name: string, given: { message: string; tools?: boolean; sessionId?: string }, budget?: number): Promise<string> {
    const before = given.sessionId === undefined ? undefined : await countsOf(server.url, given.sessionId);
    const { sessionId } = await run(target, given);
    const after = await countsOf(server.url, sessionId);
    const turn = before === undefined ? after : written(before, after);
    figures.push({ section, name: `rows in the object, ${name}`, unit: "rows", product: [turn.rows], ...(budget === undefined ? {} : { goal: { atMost: budget, of: "product" } }) });
    figures.push({ section, name: `rows in D1, ${name}`, unit: "rows", product: [turn.d1Rows], goal: { atMost: D1_ROW_BUDGET, of: "product" } });
    figures.push({ section, name: `commits in the object, ${name}`, unit: "transactions", product: [turn.transactions] });
    figures.push({ section, name: `bytes written to the object, ${name}`, unit: "KiB", product: [turn.bytes / KIB] });
    return sessionId;
  }

  try {
    const sessionId = await turn("first turn, 20 tokens at once", { message: INSTANT });
    await turn("later turn, 20 tokens at once", { message: INSTANT, sessionId }, objectRowBudget({}));
    await turn("400 tokens in 4 s", { message: PACED, sessionId }, objectRowBudget({ seconds: PACED_SECONDS }));
    await turn("one tool call", { message: "Look #n=20,ms=0,tool=1#", tools: true, sessionId }, objectRowBudget({ toolCalls: 1 }));
    figures.push(...(await growth(server.url)));
  } finally {
    await server.stop();
  }
  figures.push(...(await commits(bench)));
  return figures;
};

async function growth(url: string): Promise<Figure[]> {
  const target = product(url);
  const sessionId = await warmSession(target);
  const turns = [await countsOf(url, sessionId)];
  for (let turn = 2; turn <= 100; turn += 1) {
    await run(target, { message: INSTANT, sessionId });
    if ([2, 50, 99, 100].includes(turn)) turns.push(await countsOf(url, sessionId));
  }
  const [first, second, fiftieth, last, hundredth] = turns as [SessionCounts, SessionCounts, SessionCounts, SessionCounts, SessionCounts];
  const early = written(first, second);
  const late = written(last, hundredth);
  const goal = { atMost: 1.2, of: "product" } as const;
  return [
    { section, name: "rows of turn 100 to those of turn 2, object", unit: "×", product: [late.rows / early.rows], goal },
    { section, name: "rows of turn 100 to those of turn 2, D1", unit: "×", product: [late.d1Rows / early.d1Rows], goal },
    { section, name: "bytes of turn 100 to those of turn 2, object", unit: "×", product: [late.bytes / early.bytes], goal },
    { section, name: "bytes of turn 100 to those of turn 2, D1", unit: "×", product: [late.d1Bytes / early.d1Bytes], goal },
    { section, name: "stored in the object a turn, turns 50 to 100", unit: "KiB", product: [(hundredth.databaseSize - fiftieth.databaseSize) / KIB / 50], goal: { atMost: 3, of: "product" } },
    { section, name: "stored in the object, first turn", unit: "KiB", product: [first.databaseSize / KIB] },
  ];
}

/** Commits as the disk sees them. Each side has a server that did nothing else: objects that are put away write too. */
async function commits(bench: Bench): Promise<Figure[]> {
  const measure = async ({ name, bundle }: Side) => {
    const kind = name === "product" ? "worker" : "bare";
    const server = await serve(kind, bundle, { modelUrl: bench.model.url });
    try {
      return await fsyncsOfRuns(server, kind === "worker" ? product(server.url) : bare(server.url));
    } finally {
      await server.stop();
    }
  };
  const [ours, theirs] = [await measure(bench.product), await measure(bench.bare)];
  if (ours === undefined || theirs === undefined) {
    console.error("fsyncs are not counted: strace is not installed, or may not attach.");
    return [];
  }
  const figure = (name: string, key: keyof RunFsyncs, budget?: number): Figure => ({
    section,
    name: `fsyncs, ${name}`,
    unit: "calls",
    product: [median(ours[key])],
    bare: [median(theirs[key])],
    ...(budget === undefined ? {} : { goal: { atMost: budget, of: "product" } }),
  });
  return [
    figure("object, later turn, 20 tokens at once", "warm", 4),
    figure("object, first turn, 20 tokens at once", "new", 10),
    figure("D1, later turn", "warmD1"),
    figure("D1, first turn", "newD1"),
  ];
}

type RunFsyncs = Record<"new" | "warm" | "newD1" | "warmD1", number[]>;

async function fsyncsOfRuns(server: Server, target: Target): Promise<RunFsyncs | undefined> {
  const found: RunFsyncs = { new: [], warm: [], newD1: [], warmD1: [] };
  for (let count = 0; count < FSYNC_RUNS; count += 1) {
    let sessionId = "";
    const fresh = await fsyncsOf(server.workerd.pid, async () => {
      sessionId = await warmSession(target);
    });
    const warm = await fsyncsOf(server.workerd.pid, async () => {
      await run(target, { message: INSTANT, sessionId });
    });
    if (fresh === undefined || warm === undefined) return undefined;
    found.new.push(fresh.object);
    found.newD1.push(fresh.d1);
    found.warm.push(warm.object);
    found.warmD1.push(warm.d1);
  }
  return found;
}
