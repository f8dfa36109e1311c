import { fileURLToPath } from "node:url";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

const root = fileURLToPath(new URL("..", import.meta.url).href);

/**
 * Three kinds of test, by what they run on: `unit` in Node, `worker` inside workerd with the real bindings, `stories`
 * in Node against the real dev server over HTTP. test/README.md says which goes where.
 */
export default defineConfig({
  root,
  test: {
    // One pool for all three on a small machine: workerd and dev servers are heavy, and races hide in overload.
    maxWorkers: 2,
    projects: [
      {
        root,
        test: { name: "unit", include: ["test/unit/**/*.test.ts"], environment: "node" },
      },
      async () => ({
        root,
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./test/worker/wrangler.toml" },
            miniflare: { bindings: { TEST_MIGRATIONS: await readD1Migrations("./migrations") } },
          }),
        ],
        test: {
          name: "worker",
          testTimeout: 30_000,
          include: ["test/worker/**/*.test.ts"],
          setupFiles: ["test/worker/setup.ts"],
          globalSetup: ["test/worker/fakes.global.ts"],
        },
      }),
      {
        root,
        test: {
          name: "stories",
          include: ["test/stories/**/*.test.ts"],
          environment: "node",
          testTimeout: 120_000,
          hookTimeout: 120_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
