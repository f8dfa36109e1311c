import type { InputField } from "../domain/requirement.ts";

/** JSON Schema's words for types, and AgentOS's. */
const FIELD_TYPES: Record<string, InputField["type"]> = { string: "str", integer: "int", number: "float", boolean: "bool", array: "list", object: "dict" };

interface PropertySchema {
  type?: unknown;
  description?: unknown;
  anyOf?: readonly PropertySchema[];
}

/** Text where a property takes more than one type. That it may also be null tells nothing about what people write. */
function typeOf(property: PropertySchema): InputField["type"] {
  const given = [property.type].flat().concat(property.anyOf?.map(({ type }) => type) ?? []);
  const [type, another] = [...new Set(given)].filter((name) => name !== undefined && name !== "null");
  return another === undefined ? (FIELD_TYPES[String(type)] ?? "str") : "str";
}

/**
 * The arguments that a person fills in, as fields. An empty list of names means all of them.
 * @throws RangeError when a name is none of the tool's arguments.
 */
export function inputFields(tool: string, parameters: Record<string, unknown>, names: readonly string[]): InputField[] {
  const properties = (parameters.properties ?? {}) as Record<string, PropertySchema>;
  const wanted = names.length === 0 ? Object.keys(properties) : names;
  return wanted.map((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (property === undefined) throw new RangeError(`Tool "${tool}": requiresUserInput names "${name}", which is none of its arguments.`);
    return { name, type: typeOf(property), ...(typeof property.description === "string" ? { description: property.description } : {}) };
  });
}
