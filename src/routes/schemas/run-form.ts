import { z } from "zod";
import { ChosenSessionId } from "../../domain/ids.ts";
import { tryParseJson } from "../../lib/json.ts";
import { unstorable } from "../../lib/storable-json.ts";
import { formBoolean, formInteger, formText } from "../fields.ts";

/** JSON in a form's field. AgentOS drops what it cannot decode, and so do we; in a JSON body the value stands as it is. */
const decoded = (value: unknown): unknown => (typeof value === "string" ? tryParseJson(value) : value);

const object = z.record(z.string(), z.unknown());

const jsonObject = (description: string) =>
  z
    .preprocess(decoded, object.superRefine(storable).optional())
    .meta({ type: ["string", "object"], description });

const storable = (value: unknown, context: z.RefinementCtx) => {
  const problem = unstorable(value);
  if (problem !== undefined) context.addIssue({ code: "custom", message: `Input should be JSON that can be stored: ${problem}` });
};

/** A field that this release cannot honour: better refused than ignored. */
const refused = (message: string) =>
  z
    .unknown()
    .optional()
    .superRefine((value, context) => {
      if (value !== undefined) context.addIssue({ code: "custom", message });
    })
    .meta({ description: message });

/** Media as AgentOS takes it: a JSON array. Undecodable or empty is nothing. */
const media = (name: string) =>
  z
    .preprocess(decoded, z.unknown().optional())
    .superRefine((value, context) => {
      if (value === undefined || (Array.isArray(value) && value.length === 0)) return;
      context.addIssue({ code: "custom", message: Array.isArray(value) ? NO_MEDIA : `${name} should be a JSON array` });
    })
    .meta({ type: ["string", "array"], description: NO_MEDIA });

export const NO_MEDIA = "Runs with images, audio, video or files are not supported by this server";

const USER_ID_MAX_BYTES = 255;
const userId = formText().refine((id) => new TextEncoder().encode(id).length <= USER_ID_MAX_BYTES, `user_id must be at most ${USER_ID_MAX_BYTES} bytes of UTF-8`);

const DAY_SECONDS = 24 * 60 * 60;
const DEFAULT_GRACE_SECONDS = 120;

/** In which shape a run that is set going answers. */
const shapeFields = {
  stream: formBoolean().default(true).meta({ description: "Answer with server-sent events; else wait until the run ends or pauses." }),
  background: formBoolean().default(false).meta({ description: "Run on without a client. Not streaming: answer 202 at once." }),
  stream_events: formBoolean().default(true).meta({ description: "`false`: a stream of the text and the run's end alone." }),
};

/** How it behaves where others wait for the session, and where nobody waits for it. */
const lineFields = {
  on_busy: z.enum(["reject", "enqueue", "interrupt"]).default("reject").meta({ description: "When another run holds the session: refuse with 409, wait in order, or cancel it." }),
  on_disconnect: z
    .preprocess(
      (value) => (typeof value === "string" && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value),
      z.union([z.literal("keep"), z.number().min(0).max(DAY_SECONDS)], { error: `Input should be "keep" or a number of seconds from 0 to ${DAY_SECONDS}` }),
    )
    .default(DEFAULT_GRACE_SECONDS)
    .meta({ description: 'Seconds a run without any follower goes on before it is cancelled; "keep" lets it finish.' }),
};

/** What `POST …/runs` takes. Fields that nobody knows are ignored, as AgentOS ignores them. */
export const StartRunFields = z.object({
  message: formText().meta({ description: "What the user says. Must not be empty." }),
  ...shapeFields,
  session_id: ChosenSessionId.optional().meta({ description: "The session to run in; a new one if absent." }),
  user_id: userId.optional().meta({ description: "Whose run it is, where the request's credentials do not say." }),
  version: formInteger().optional().meta({ description: "The component's version; another one is not found." }),
  factory_input: z.unknown().optional().meta({ description: "A JSON object, for components made by a factory; others ignore it." }),

  session_state: jsonObject("Merged into the session's state before the run."),
  dependencies: jsonObject("Values for the agent's tools and instructions."),
  metadata: z.preprocess(decoded, z.unknown().optional().superRefine(storable)).meta({ type: ["string", "object"], description: "Stored with the run. Must be an object." }),
  add_history_to_context: formBoolean().optional(),
  num_history_runs: formInteger({ min: 0 }).optional(),
  num_history_messages: formInteger({ min: 0 }).optional(),
  tool_call_limit: formInteger({ min: 0 }).optional(),

  ...lineFields,

  run_id: refused("Run ids are made by the server; a client can not choose one"),
  output_schema: refused("output_schema is not supported by this server"),
  knowledge_filters: refused("knowledge_filters is not supported by this server"),
  images: media("images"),
  audio: media("audio"),
  videos: media("videos"),
  input_files: media("input_files"),
});
export type StartRunFields = z.output<typeof StartRunFields>;

const answersField = (what: string) => z.unknown().optional().meta({ type: ["string", "array"], description: `A JSON array of ${what}, as the run shows them, with the answers filled in.` });

/** What `POST …/continue` takes. */
export const ContinueRunFields = z.object({
  session_id: formText().optional().meta({ description: "The run's session. Must not be blank." }),
  tools: answersField("tool calls"),
  requirements: answersField("requirements"),
  input: formText().optional().meta({ description: "A user message to go on with." }),
  continue_from: z
    .union([z.string(), z.number()])
    .default("end")
    .meta({ type: ["string", "integer"], description: "`end`, `last_user`, or how many of the run's messages to keep." }),
  fork: formBoolean().default(false).meta({ description: "Leave the run as it is and go on in a sibling." }),
  regenerate: formBoolean().default(false).meta({ description: "Answer anew, in a sibling: the last answer goes, the calls before it stay." }),
  replace_original: formBoolean().optional().meta({ description: "Only with `regenerate`. `true`, the default: the run is marked as replaced and leaves the history." }),
  additional_instructions: formText().optional().meta({ description: "Only with `regenerate`: told to the model before it answers anew." }),
  user_id: userId.optional().meta({ description: "Who asks, where the request's credentials do not say." }),
  ...shapeFields,
  ...lineFields,
});
export type ContinueRunFields = z.output<typeof ContinueRunFields>;

/** What `POST …/resume` takes. */
export const ResumeFields = z.object({
  last_event_index: formInteger({ min: -1 }).optional().meta({ description: "Index of the last event the client has; absent or -1: none." }),
  session_id: formText().optional(),
});
