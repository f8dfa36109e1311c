import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { AppError } from "../../../src/domain/errors.ts";
import { formBoolean, formInteger, formText, parseFields, readFields } from "../../../src/routes/fields.ts";
import { StartRunFields } from "../../../src/routes/schemas/run-form.ts";

const post = (body: BodyInit | undefined, contentType?: string) =>
  new Request("http://test/", { method: "POST", body, headers: contentType === undefined ? {} : { "content-type": contentType } });

const URL_ENCODED = "application/x-www-form-urlencoded";

async function refusal(what: Promise<unknown> | (() => unknown)): Promise<AppError> {
  try {
    await (typeof what === "function" ? what() : what);
  } catch (error) {
    return error as AppError;
  }
  throw new Error("It was not refused.");
}

const form = (fields: Record<string, string | Blob>) => {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  return data;
};

/** A multipart body written byte by byte, as broken as a test wants it. */
const multipart = (value: Uint8Array) => {
  const [head, tail] = ['--b\r\nContent-Disposition: form-data; name="message"\r\n\r\n', "\r\n--b--\r\n"].map((text) => new TextEncoder().encode(text));
  return post(new Blob([head!, value as Uint8Array<ArrayBuffer>, tail!]), "multipart/form-data; boundary=b");
};

describe("reading a body's fields", () => {
  it("the three encodings say the same", async () => {
    const values = { message: "Grüße 🚂", stream: "false" };
    expect(await readFields(post(form(values)))).toEqual({ values, files: [] });
    expect(await readFields(post(new URLSearchParams(values), URL_ENCODED))).toEqual({ values, files: [] });
    expect(await readFields(post(JSON.stringify(values), "application/json; charset=utf-8"))).toEqual({ values, files: [] });
  });

  it("empty fields and nulls are not there, and of several the last counts", async () => {
    expect(await readFields(post("session_id=&message=a&message=b", URL_ENCODED))).toEqual({ values: { message: "b" }, files: [] });
    expect(await readFields(post('{"message":"a","session_id":null,"user_id":""}', "application/json"))).toEqual({ values: { message: "a" }, files: [] });
  });

  it("names the fields that hold files", async () => {
    expect(await readFields(post(form({ message: "look", files: new Blob(["x"], { type: "image/png" }) })))).toEqual({ values: { message: "look" }, files: ["files"] });
  });

  it("no body has no fields, whatever type it claims", async () => {
    expect(await readFields(post(undefined))).toEqual({ values: {}, files: [] });
    expect(await readFields(post("", "multipart/form-data"))).toEqual({ values: {}, files: [] });
  });

  it.each(["text/plain", "application/octet-stream", "application/xml", "text/html; application/json", ""])("refuses the type %j", async (type) => {
    const error = await refusal(readFields(post(new Blob(["message=a"]), type)));
    expect(error).toMatchObject({ code: "unsupported_media_type", message: expect.stringContaining("application/json") });
  });

  it.each(["{", "[1]", '"text"', "null", "5", "NaN"])("refuses the JSON %s", async (body) => {
    expect(await refusal(readFields(post(body, "application/json")))).toMatchObject({ code: "invalid_request" });
  });

  it("refuses multipart without its boundary", async () => {
    for (const type of ["multipart/form-data", "multipart/form-data; boundary=other"]) {
      expect(await refusal(readFields(post("--x\r\nnothing", type)))).toMatchObject({ code: "invalid_request" });
    }
  });

  it.each([
    { name: "JSON", request: () => post(new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), "application/json") },
    { name: "a form", request: () => post(new Uint8Array([0x6d, 0x3d, 0xff]), URL_ENCODED) },
    { name: "percent escapes", request: () => post("message=%ff%fe", URL_ENCODED) },
    { name: "percent escapes beside a true U+FFFD", request: () => post("message=%EF%BF%BD%ff", URL_ENCODED) },
    { name: "multipart", request: () => multipart(new Uint8Array([0x61, 0xff])) },
    { name: "multipart beside a true U+FFFD", request: () => multipart(new Uint8Array([0xef, 0xbf, 0xbd, 0xff])) },
  ])("refuses invalid UTF-8 in $name", async ({ request }) => {
    expect(await refusal(readFields(request()))).toMatchObject({ code: "invalid_request", message: expect.stringContaining("UTF-8") });
  });

  it("a U+FFFD that was really sent is text", async () => {
    expect((await readFields(post("message=%EF%BF%BD\ufffd", URL_ENCODED))).values).toEqual({ message: "\ufffd\ufffd" });
    expect((await readFields(multipart(new Uint8Array([0xef, 0xbf, 0xbd])))).values).toEqual({ message: "\ufffd" });
  });

  it("names that objects have by themselves are names like others", async () => {
    const { values } = await readFields(post('{"__proto__":{"message":"a"},"constructor":"b"}', "application/json"));
    expect(Object.keys(values)).toEqual(["__proto__", "constructor"]);
    expect(await refusal(() => parseFields(StartRunFields, { values, files: [] }))).toMatchObject({ code: "unprocessable" });
  });
});

describe("fields as a schema wants them", () => {
  const schema = z.object({ message: formText(), stream: formBoolean().default(true), last: formInteger({ min: -1 }).optional() });
  const parse = (values: Record<string, unknown>) => parseFields(schema, { values, files: [] });
  const problems = async (values: Record<string, unknown>) => (await refusal(() => parse(values))).details.problems;

  it.each(["true", "1", "yes", "on", "t", "y", "TRUE", "Yes", true, 1])("%j is true", (stream) => expect(parse({ message: "a", stream }).stream).toBe(true));
  it.each(["false", "0", "no", "off", "f", "n", "FALSE", "No", false, 0])("%j is false", (stream) => expect(parse({ message: "a", stream }).stream).toBe(false));

  it("says which field is wrong and how, in FastAPI's words", async () => {
    expect(await problems({})).toEqual([{ type: "missing", loc: ["body", "message"], msg: "Field required", input: null }]);
    expect(await problems({ message: 5, stream: "maybe", last: "x" })).toEqual([
      { type: "string_type", loc: ["body", "message"], msg: "Input should be a valid string", input: 5 },
      { type: "bool_parsing", loc: ["body", "stream"], msg: "Input should be a valid boolean", input: "maybe" },
      { type: "int_parsing", loc: ["body", "last"], msg: "Input should be a valid integer", input: "x" },
    ]);
    expect(await problems({ message: "a", last: "-2" })).toMatchObject([{ loc: ["body", "last"], msg: "Input should be greater than or equal to -1" }]);
    expect(await problems({ message: "\ud800" })).toMatchObject([{ type: "value_error", msg: expect.stringContaining("surrogate") }]);
  });

  it("echoes only the beginning of what is long", async () => {
    const [problem] = (await problems({ message: "a", stream: "x".repeat(1_000) })) as { input: string }[];
    expect(problem!.input).toHaveLength(201);
  });
});

describe("the fields of a new run", () => {
  const parse = (values: Record<string, unknown>) => parseFields(StartRunFields, { values: { message: "hi", ...values }, files: [] });
  const problems = async (values: Record<string, unknown>) => (await refusal(() => parse(values))).details.problems as { loc: string[]; msg: string }[];

  it("has AgentOS's defaults", () => {
    expect(parse({})).toMatchObject({ message: "hi", stream: true, background: false, stream_events: true, on_busy: "reject", on_disconnect: 120 });
  });

  it("decodes JSON fields, takes them as they are in a JSON body, and drops what is no JSON", () => {
    expect(parse({ session_state: '{"a":1}' }).session_state).toEqual({ a: 1 });
    expect(parse({ session_state: { a: 1 } }).session_state).toEqual({ a: 1 });
    expect(parse({ session_state: "{broken", metadata: "nor this", dependencies: "{" })).toMatchObject({ message: "hi" });
    expect(parse({ metadata: '["kept for a clear refusal"]' }).metadata).toEqual(["kept for a clear refusal"]);
  });

  it("ignores fields that nobody knows", () => {
    expect(parse({ monitor: "true", whatever: "x" })).not.toHaveProperty("whatever");
  });

  it.each([
    { field: "run_id", value: "mine" },
    { field: "output_schema", value: '{"type":"object"}' },
    { field: "knowledge_filters", value: "{}" },
    { field: "images", value: '[{"url":"http://x/y.png"}]' },
    { field: "images", value: '{"url":"http://x/y.png"}' },
    { field: "audio", value: '"text"' },
    { field: "session_id", value: "sbx:mine" },
    { field: "session_id", value: "a\u0000b" },
    { field: "session_id", value: "\ud800" },
    { field: "session_id", value: "x".repeat(256) },
    { field: "user_id", value: "\udfff" },
    { field: "user_id", value: "x".repeat(256) },
    { field: "session_state", value: "5" },
    { field: "session_state", value: '{"a":"\\ud800"}' },
    { field: "dependencies", value: "[]" },
    { field: "metadata", value: '{"\\udc00":1}' },
    { field: "on_busy", value: "wait" },
    { field: "on_disconnect", value: "-1" },
    { field: "on_disconnect", value: "never" },
    { field: "on_disconnect", value: "1e9" },
    { field: "version", value: "two" },
    { field: "num_history_runs", value: "-1" },
    { field: "stream", value: "perhaps" },
  ])("refuses $field=$value by name", async ({ field, value }) => {
    expect(await problems({ [field]: value })).toMatchObject([{ loc: ["body", field], msg: expect.stringMatching(/.+/) }]);
  });

  it.each([
    { field: "images", value: "[]" },
    { field: "images", value: "{broken" },
    { field: "on_disconnect", value: "keep" },
    { field: "on_disconnect", value: "0" },
    { field: "on_disconnect", value: 1.5 },
    { field: "session_id", value: "любая сессия / 7" },
    { field: "version", value: "1" },
  ])("takes $field=$value", ({ field, value }) => {
    expect(() => parse({ [field]: value })).not.toThrow();
  });

  it("nesting that no store could write again is refused", async () => {
    const deep = `${'{"a":'.repeat(10_000)}1${"}".repeat(10_000)}`;
    expect(await problems({ session_state: deep })).toMatchObject([{ loc: ["body", "session_state"] }]);
  });
});
