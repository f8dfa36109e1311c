import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";

// Storage is isolated by test file, so the migrations are applied once a file.
await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
