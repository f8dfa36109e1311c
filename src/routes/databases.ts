import { z } from "@hono/zod-openapi";
import { AppError } from "../domain/errors.ts";
import { MIGRATIONS, pendingMigrations } from "../storage/migrations-applied.ts";
import { newRouter, route } from "./route.ts";
import { selectDatabase } from "./select-database.ts";
import { DB_ID } from "./wire.ts";

const Migrated = z.object({ message: z.string(), db_id: z.string(), migrations: z.array(z.string()) }).openapi("Migrated");

const declared = {
  method: "post",
  guard: { scopes: ["config:write"] },
  description: "A deploy applies migrations before the code that needs them; this says whether that was done. `target_version` is not looked at.",
  responses: { 200: { description: "The database has what this release needs", content: { "application/json": { schema: Migrated } } } },
} as const;

/** Whether the database is migrated. */
export const databases = newRouter();

databases.openapi(route({ ...declared, path: "/all/migrate", summary: "Check the migrations of every database" }), async (c) =>
  c.json(await checkMigrations(c.env.DB)),
);

databases.openapi(
  route({ ...declared, path: "/{db_id}/migrate", summary: "Check a database's migrations", request: { params: z.object({ db_id: z.string() }) } }),
  async (c) => {
    selectDatabase(c.req.valid("param"), []);
    return c.json(await checkMigrations(c.env.DB));
  },
);

/** @throws AppError `conflict` that names what is missing. */
async function checkMigrations(db: D1Database): Promise<z.infer<typeof Migrated>> {
  const pending = await pendingMigrations(db);
  if (pending.length === 0) return { message: "All migrations of this release are applied.", db_id: DB_ID, migrations: [...MIGRATIONS] };
  throw new AppError(
    "conflict",
    `The database lacks ${pending.join(", ")}. Migrations are applied from where the code is deployed, with "wrangler d1 migrations apply DB --remote", and not by requests.`,
    { pending },
  );
}
