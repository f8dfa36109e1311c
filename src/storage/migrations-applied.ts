import { answered } from "./answered.ts";

/** The migrations that this release was built with, by the names of their files. */
export const MIGRATIONS = ["0000_initial.sql", "0001_idempotency-keys.sql"] as const;

/** Which of them the database does not have yet, in order. Empty when it is up to date. */
export async function pendingMigrations(db: D1Database): Promise<string[]> {
  const applied = await appliedMigrations(db);
  return MIGRATIONS.filter((name) => !applied.has(name));
}

async function appliedMigrations(db: D1Database): Promise<ReadonlySet<string>> {
  const reading = db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const { results } = await answered(
    reading.catch((error: unknown) => {
      // wrangler makes the table with the first migration: without it, none was applied.
      if (String(error).includes("no such table")) return { results: [] };
      throw error;
    }),
  );
  return new Set(results.map((row) => row.name));
}
