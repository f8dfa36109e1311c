import { z } from "zod";
import { AppError, invalid } from "../domain/errors.ts";
import { unstorable } from "../lib/storable-json.ts";
import { unprocessable } from "./errors.ts";
import { fieldProblems } from "./route.ts";

/** Well below what a row of D1 takes, since what is sent is merged with what is stored. */
const MAX_BYTES = 1_000_000;

/**
 * Reads a JSON body as its schema wants it. No body is an empty object: whether that is enough is for the schema to say.
 * @throws AppError `unsupported_media_type`, `payload_too_large`, `invalid_request` when it is no JSON, `unprocessable`
 * when it is other JSON.
 */
export async function readJson<Schema extends z.ZodType>(request: Request, schema: Schema): Promise<z.output<Schema>> {
  const bytes = await readBytes(request);
  if (bytes.length > 0) requireJson(request);
  const value = bytes.length === 0 ? {} : parse(bytes);
  const problem = unstorable(value);
  if (problem !== undefined) throw unprocessable([{ type: "value_error", loc: ["body"], msg: `Input should be JSON that can be stored: ${problem}`, input: null }]);
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw unprocessable(fieldProblems("json", parsed.error.issues, value));
  return parsed.data;
}

/** The schema of a JSON body as OpenAPI writes it. Not a zod schema there, so that the body is read here and nowhere else. */
export function jsonContent(schema: z.ZodType): Record<string, { schema: Record<string, unknown> }> {
  const { $schema: _dialect, ...written } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return { "application/json": { schema: written } };
}

function requireJson(request: Request): void {
  const mediaType = (request.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  if (mediaType === "application/json" || mediaType.endsWith("+json")) return;
  throw new AppError("unsupported_media_type", `This route takes application/json; the request's content type is ${mediaType === "" ? "missing" : `"${mediaType}"`}.`);
}

/** Stops reading once there is too much, whatever length the request claims. */
async function readBytes(request: Request): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.byteLength;
    if (length > MAX_BYTES) throw new AppError("payload_too_large", `The body is longer than ${MAX_BYTES} bytes.`);
    chunks.push(chunk);
  }
  return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

function parse(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw invalid("The body is not valid UTF-8.");
  }
  try {
    return JSON.parse(text);
  } catch {
    throw invalid("The body is not valid JSON.");
  }
}
