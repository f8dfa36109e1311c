import { AppError } from "../domain/errors.ts";
import { hashOf } from "../lib/hash.ts";
import type { KeyedIds } from "../storage/repositories/idempotency-keys.ts";
import type { OperationContext } from "./context.ts";

/** A client's Idempotency-Key with what it came with. */
export interface Idempotency {
  key: string;
  /** Everything that makes it the same request. */
  request: unknown;
}

/** What is asked under a key: of whom, and the ids to give to what comes of it. */
export interface KeyedAsk extends Idempotency {
  userId: string | undefined;
  /** What it is asked of. The same key on another target is another key. */
  target: string;
  ids: KeyedIds;
}

/**
 * Acts under the ids that a key stands for, which may be those of a request before this one: acting must be idempotent by
 * them. Before anything else the key is taken in D1, so a crash at any point leaves the key with its ids, and the client
 * that asks again repeats what is missing. A refusal leaves nothing.
 * @returns what came of it, and whether another request had come with the key before.
 * @throws AppError `idempotency_mismatch` where the key came with another request, `conflict` where its run is deleted,
 * `unavailable` where D1 does not answer, and then nothing was done.
 */
export async function underKey<Answer>(context: OperationContext, ask: KeyedAsk, act: (ids: KeyedIds) => Promise<Answer>): Promise<{ answer: Answer; isReplay: boolean }> {
  const { idempotencyKeys } = context.repositories;
  const name = { target: ask.target, key: ask.key, ...(ask.userId === undefined ? {} : { userId: ask.userId }) };
  const ids = await idempotencyKeys.take(name, await hashOf(ask.request), ask.ids);
  if (ids === "mismatch") throw new AppError("idempotency_mismatch", "This Idempotency-Key came with another request before. A new request needs a new key.");
  if (ids === "gone") throw new AppError("conflict", "The run of this Idempotency-Key was deleted with its session.");
  try {
    return { answer: await act(ids), isReplay: ids.runId !== ask.ids.runId };
  } catch (error) {
    if (wasRefused(error)) await idempotencyKeys.giveBack(name);
    throw error;
  }
}

/** The session has said no. Anything else leaves open whether it has heard at all. */
const wasRefused = (error: unknown): boolean => error instanceof AppError && error.code !== "unavailable" && error.code !== "internal";
