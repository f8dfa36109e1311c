import { z } from "zod";
import { AppError } from "../domain/errors.ts";
import { isJsonObject } from "../lib/json.ts";
import { unprocessable } from "./errors.ts";
import { fieldProblems } from "./route.ts";

/** A body's fields by name, whichever way they were written down. */
export interface Fields {
  /** What is empty or null is not here: clients send empty fields for what they do not mean. */
  values: Record<string, unknown>;
  /** Names of the fields that hold files. */
  files: string[];
}

/** The encodings in which a route with fields takes them; the OpenAPI page of such a route names all three. */
export const FIELD_MEDIA_TYPES = ["multipart/form-data", "application/x-www-form-urlencoded", "application/json"] as const;

/**
 * Reads the fields of a form, or of a JSON object that stands for one. A request without a body has none.
 * @throws AppError `unsupported_media_type`, or `invalid_request` when the body is not what its type says.
 */
export async function readFields(request: Request): Promise<Fields> {
  const bytes = new Uint8Array(await request.arrayBuffer());
  const contentType = request.headers.get("content-type") ?? "";
  const mediaType = contentType.split(";")[0]!.trim().toLowerCase();
  if (bytes.length === 0) return { values: {}, files: [] };
  switch (mediaType) {
    case "multipart/form-data":
      return readMultipart(bytes, contentType);
    case "application/x-www-form-urlencoded":
      return { values: meant(readUrlEncoded(asText(bytes))), files: [] };
    case "application/json":
      return { values: meant(Object.entries(readJsonObject(asText(bytes)))), files: [] };
    default:
      throw new AppError(
        "unsupported_media_type",
        `This route takes ${FIELD_MEDIA_TYPES.join(", ")}; the request's content type is ${mediaType === "" ? "missing" : `"${mediaType}"`}.`,
      );
  }
}

/**
 * The fields as a schema wants them.
 * @throws AppError `unprocessable` with every field that is wrong.
 */
export function parseFields<Schema extends z.ZodType>(schema: Schema, fields: Fields): z.output<Schema> {
  const parsed = schema.safeParse(fields.values);
  if (!parsed.success) throw unprocessable(fieldProblems("form", parsed.error.issues, fields.values));
  return parsed.data;
}

/** @throws AppError `unprocessable` where a form carries files, before anything else is looked at. */
export function withoutFiles(fields: Fields, message: string): Fields {
  if (fields.files.length === 0) return fields;
  throw unprocessable(fields.files.map((name) => ({ type: "value_error", loc: ["body", name], msg: message, input: null })));
}

async function readMultipart(bytes: Uint8Array, contentType: string): Promise<Fields> {
  let form: FormData;
  try {
    form = await new Response(bytes, { headers: { "content-type": contentType } }).formData();
  } catch {
    throw invalidBody("The body is not multipart/form-data with the boundary that its content type names.");
  }
  const entries: [string, string][] = [];
  const files = new Set<string>();
  for (const [name, value] of form as unknown as Iterable<[string, string | File]>) {
    if (typeof value !== "string") files.add(name);
    else if (wasReplaced(value, bytes)) throw invalidBody(`The field "${name}" is not valid UTF-8.`);
    else entries.push([name, value]);
  }
  return { values: meant(entries), files: [...files] };
}

/** The parser puts U+FFFD where bytes are no UTF-8: text that holds one is checked against the bytes it came from. */
function wasReplaced(text: string, bytes: Uint8Array): boolean {
  if (!text.includes("\ufffd")) return false;
  // Latin-1 keeps a character a byte, so that searching text is searching bytes.
  const latin1 = new TextDecoder("latin1");
  return !latin1.decode(bytes).includes(latin1.decode(new TextEncoder().encode(text)));
}

function readUrlEncoded(text: string): [string, string][] {
  const entries = [...new URLSearchParams(text)] as [string, string][];
  const written = [...text.matchAll(/\ufffd|%ef%bf%bd/gi)].length;
  const read = entries.reduce((count, entry) => count + [...entry.join("").matchAll(/\ufffd/g)].length, 0);
  if (read > written) throw invalidBody("The body holds percent-encoded bytes that are not valid UTF-8.");
  return entries;
}

function readJsonObject(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalidBody("The body is not valid JSON.");
  }
  if (!isJsonObject(value)) throw invalidBody("The body must be a JSON object whose keys are the form's fields.");
  return value;
}

function asText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw invalidBody("The body is not valid UTF-8.");
  }
}

const invalidBody = (message: string) => new AppError("invalid_request", message);

/** The last value of each field, without the empty ones. */
const meant = (entries: readonly [string, unknown][]): Record<string, unknown> =>
  Object.fromEntries([...new Map(entries)].filter(([, value]) => value !== "" && value !== null));

const TRUE_WORDS = ["true", "1", "yes", "on", "t", "y"];
const FALSE_WORDS = ["false", "0", "no", "off", "f", "n"];

const asWord = (value: unknown): unknown => (typeof value === "boolean" || typeof value === "number" ? String(value) : value);

/** A boolean as forms write it, in any case of letters. */
export const formBoolean = () =>
  z
    .preprocess(asWord, z.stringbool({ truthy: TRUE_WORDS, falsy: FALSE_WORDS, error: "Input should be a valid boolean" }))
    .meta({ type: "boolean" });

/** An integer as forms and queries write it. */
export const formInteger = ({ min, max }: { min?: number; max?: number } = {}) => {
  let integer = z.int({ error: "Input should be a valid integer" });
  if (min !== undefined) integer = integer.min(min, { error: `Input should be greater than or equal to ${min}` });
  if (max !== undefined) integer = integer.max(max, { error: `Input should be less than or equal to ${max}` });
  const read = (value: unknown) => (typeof value === "string" && /^[+-]?\d+$/.test(value.trim()) ? Number(value) : value);
  return z.preprocess(read, integer).meta({ type: "integer" });
};

/** Text: valid Unicode, since half a surrogate pair can be neither stored nor sent on as UTF-8. */
export const formText = () =>
  z.string({ error: "Input should be a valid string" }).refine((text) => text.isWellFormed(), "Input should be valid Unicode: it holds half of a surrogate pair");

/** The schema of a body's fields as OpenAPI writes it, under each of the encodings. */
export function fieldsContent(schema: z.ZodType): Record<string, { schema: Record<string, unknown> }> {
  const { $schema: _dialect, ...written } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return Object.fromEntries(FIELD_MEDIA_TYPES.map((mediaType) => [mediaType, { schema: written as Record<string, unknown> }]));
}
