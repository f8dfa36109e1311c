import { AppError } from "../domain/errors.ts";

/**
 * Awaits what a storage is asked. Where it does not answer, whoever asked is told to come back: nothing was lost, and
 * nothing is wrong with the request.
 * @throws AppError `unavailable`
 */
export async function answered<T>(question: PromiseLike<T>): Promise<T> {
  try {
    return await question;
  } catch (error) {
    const { message, cause } = error as Error;
    // The query's own text and not its values, which are what people wrote.
    console.error(JSON.stringify({ level: "error", error: "storage_unavailable", message: cause instanceof Error ? cause.message : message }));
    throw new AppError("unavailable", "The database could not be reached. Try again in a moment.");
  }
}
