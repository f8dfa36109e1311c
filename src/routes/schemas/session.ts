import { z } from "@hono/zod-openapi";
import { COMPONENT_KINDS } from "../../domain/component.ts";
import { ChosenSessionId } from "../../domain/ids.ts";
import { SESSION_SORTS } from "../../storage/repositories/sessions.ts";
import { formBoolean, formInteger, formText } from "../fields.ts";
import { WireMessage } from "./run.ts";

const json = z.record(z.string(), z.unknown());

/** A query parameter. Clients send empty ones for what they do not mean. */
export const given = <Schema extends z.ZodType>(schema: Schema) => z.preprocess((value) => (value === "" ? undefined : value), schema.optional());

export const text = (description: string) => given(z.string()).openapi({ type: "string", description });

/** Which database is meant. There is one; naming another one is an error, as in AgentOS. */
export const ofDatabase = { db_id: text("The database's id, as /config names it."), table: text("Only with db_id.") };

const type = given(z.enum(COMPONENT_KINDS)).openapi({ type: "string", enum: [...COMPONENT_KINDS] });
const ofUser = text("Whose. Users see their own whatever this says.");

export const ofSession = z.object({ session_id: z.string() });
export const ofSessionRun = ofSession.extend({ run_id: z.string() });
export const ofMedia = ofSession.extend({ storage_key: z.string() });

export const SessionParameters = z.object({ type, user_id: ofUser, ...ofDatabase });

/** Far enough for any list that people page through, and a number that SQLite can count with. */
const MAX_PAGE = 1_000_000;
const MAX_LIMIT = 1_000;

export const pageSize = (usual: number) => given(formInteger({ min: 1, max: MAX_LIMIT })).default(usual).openapi({ type: "integer" });
export const pageNumber = given(formInteger({ min: 0, max: MAX_PAGE })).default(1).openapi({ type: "integer", description: "From 1; 0 is the first page too." });

export const ListSessionsParameters = SessionParameters.extend({
  component_id: text("Of one agent, team or workflow."),
  session_name: text("A part of the name."),
  limit: pageSize(20),
  page: pageNumber,
  sort_by: given(z.enum(SESSION_SORTS)).default("created_at").openapi({ type: "string", enum: [...SESSION_SORTS] }),
  sort_order: given(z.enum(["asc", "desc"])).default("desc").openapi({ type: "string", enum: ["asc", "desc"] }),
});

const epochSeconds = (description: string) => given(formInteger()).openapi({ type: "integer", description });

export const ListSessionRunsParameters = SessionParameters.extend({
  created_after: epochSeconds("Epoch seconds: runs made then or later."),
  created_before: epochSeconds("Epoch seconds: runs made then or before."),
});

const deletesMedia = given(formBoolean()).default(false).openapi({ type: "boolean" });
export const DeleteSessionParameters = SessionParameters.omit({ type: true }).extend({ delete_media: deletesMedia });
export const MediaParameters = SessionParameters.extend({ redirect: given(formBoolean()).default(false).openapi({ type: "boolean" }) });
export const CreateSessionParameters = z.object({ type, db_id: ofDatabase.db_id });

/** A field of a body. `null` is the same as leaving it out, and an empty id is none. */
export const optional = <Schema extends z.ZodType>(schema: Schema) => schema.nullish().transform((value) => value ?? undefined);
const optionalId = <Schema extends z.ZodType>(schema: Schema) => z.preprocess((value) => (value === "" ? undefined : value), optional(schema));

export const CreateSessionBody = z.object({
  session_id: optionalId(ChosenSessionId),
  session_name: optional(formText()),
  session_state: optional(json),
  metadata: optional(json),
  user_id: optionalId(formText().max(255)),
  agent_id: optionalId(formText().max(255)),
  team_id: optionalId(formText()),
  workflow_id: optionalId(formText()),
});

export const PatchSessionBody = z.object({
  session_name: optional(formText()),
  session_state: optional(json),
  metadata: optional(json),
  summary: optional(json),
});

export const RenameSessionBody = z.object({ session_name: formText() });

const MAX_DELETES = 1_000;

export const DeleteSessionsBody = z.object({
  session_ids: z.array(z.string()).max(MAX_DELETES),
  session_types: z.array(z.enum(COMPONENT_KINDS)).max(MAX_DELETES),
});

const SessionMetrics = z
  .object({
    input_tokens: z.number().optional(),
    output_tokens: z.number().optional(),
    total_tokens: z.number().optional(),
    cache_read_tokens: z.number().optional(),
    cache_write_tokens: z.number().optional(),
    reasoning_tokens: z.number().optional(),
    duration: z.number().optional().openapi({ description: "Seconds." }),
  })
  .openapi("SessionMetrics");

/** A session as lists show it. Null keys are left out. */
export const SessionSchema = z
  .object({
    session_id: z.string(),
    session_name: z.string(),
    session_type: z.enum(COMPONENT_KINDS),
    user_id: z.string().nullable(),
    agent_id: z.string().nullable(),
    session_state: json,
    session_summary: json.nullable(),
    metrics: SessionMetrics.nullable(),
    metadata: json.nullable(),
    total_tokens: z.number().int().nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("Session");
export type SessionSchema = z.infer<typeof SessionSchema>;

export const AgentSessionDetail = z
  .object({
    user_id: z.string().nullable(),
    agent_session_id: z.string(),
    session_id: z.string(),
    session_name: z.string(),
    session_summary: json.nullable(),
    session_state: json,
    agent_id: z.string().nullable(),
    total_tokens: z.number().int().nullable(),
    agent_data: json.nullable(),
    metrics: SessionMetrics.nullable(),
    metadata: json.nullable(),
    chat_history: z.array(WireMessage).openapi({ description: "What was said by users and assistants, in order." }),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .openapi("AgentSessionDetail");
export type AgentSessionDetail = z.infer<typeof AgentSessionDetail>;

const PageMeta = z
  .object({
    page: z.number().int(),
    limit: z.number().int(),
    total_pages: z.number().int(),
    total_count: z.number().int(),
    search_time_ms: z.number(),
  })
  .openapi("PageMeta");

export const SessionPage = z.object({ data: z.array(SessionSchema.partial()), meta: PageMeta }).openapi("SessionPage");
