import type { Model } from "./model.ts";

/**
 * A model from its name, `"provider:id"`. Only the first colon divides: ids hold colons too (`openai-chat:llama3.3:70b`).
 * Throws a `RangeError` that says what would be right.
 */
export function resolveModel(spec: string, factories: Record<string, (id: string) => Model>): Model {
  const colon = spec.indexOf(":");
  const provider = spec.slice(0, Math.max(colon, 0));
  const id = spec.slice(colon + 1).trim();
  const factory = Object.hasOwn(factories, provider) ? factories[provider] : undefined;
  if (factory && id !== "") return factory(id);
  const allowed = Object.keys(factories)
    .map((name) => `"${name}:<id>"`)
    .join(", ");
  throw new RangeError(`"${spec}" names no model. A model is written as ${allowed}.`);
}
