import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { getPlatformProxy, type Unstable_Config as WranglerConfig, unstable_splitSqlQuery as splitSqlQuery } from "wrangler";

/** The part of D1's interface that migrating needs. */
interface Database {
  prepare(sql: string): Statement;
  batch(statements: Statement[]): Promise<unknown>;
}
interface Statement {
  bind(...values: unknown[]): Statement;
  run<Row>(): Promise<{ results: Row[] }>;
}

/**
 * Applies the D1 migrations that a local database does not have, as `wrangler d1 migrations apply --local` does and into
 * the same files and the same table, in one process and within a second. Nothing else may have the database open.
 */
export async function migrateLocal(config: WranglerConfig, persistTo: string): Promise<void> {
  const databases = config.d1_databases.filter((database) => database.migrations_dir !== undefined);
  if (databases.length === 0) return;

  // A configuration with the databases and nothing else, so that nothing else is started.
  const folder = await mkdtemp(join(tmpdir(), "signalbox-migrate-"));
  try {
    const configPath = join(folder, "wrangler.json");
    await writeFile(configPath, JSON.stringify({ name: "migrate", compatibility_date: config.compatibility_date, d1_databases: databases.map(withoutMigrations) }));
    // Wrangler keeps its state one folder below what `--persist-to` names.
    const proxy = await getPlatformProxy<Record<string, Database>>({ configPath, envFiles: [], persist: { path: join(resolve(persistTo), "v3") } });
    try {
      for (const { binding, migrations_dir, migrations_table } of databases) {
        const directory = resolve(dirname(config.configPath ?? "."), migrations_dir ?? "migrations");
        const database = proxy.env[binding];
        if (database !== undefined) await migrate(database, directory, migrations_table ?? "d1_migrations");
      }
    } finally {
      await proxy.dispose();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const withoutMigrations = ({ binding, database_name, database_id, preview_database_id }: WranglerConfig["d1_databases"][number]) => ({
  binding,
  database_name,
  database_id,
  preview_database_id,
});

async function migrate(database: Database, directory: string, table: string): Promise<void> {
  await database
    .prepare(
      `CREATE TABLE IF NOT EXISTS ${table}(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)`,
    )
    .run();
  const applied = new Set((await database.prepare(`SELECT name FROM ${table}`).run<{ name: string }>()).results.map((row) => row.name));
  const files = (await readdir(directory)).filter((name) => name.endsWith(".sql")).sort();
  for (const name of files.filter((file) => !applied.has(file))) {
    const statements = splitSqlQuery(await readFile(join(directory, name), "utf8"));
    // One transaction with the row that says so: a migration that is cut off was not applied.
    await database.batch([...statements.map((sql) => database.prepare(sql)), database.prepare(`INSERT INTO ${table} (name) VALUES (?)`).bind(name)]);
  }
}
