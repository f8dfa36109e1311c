import type { TestProject } from "vitest/node";
import { startFakeProvider } from "../fakes/provider.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the fake model provider listens; tests in workerd steer it by fetch (`test/fakes/client.ts`). */
    fakeProviderUrl: string;
  }
}

/** One fake provider for all tests in workerd. Each test queues its scripts under a key of its own. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const provider = await startFakeProvider();
  project.provide("fakeProviderUrl", provider.url);
  return () => provider.close();
}
