import { z } from "zod";

export const COMPONENT_KINDS = ["agent", "team", "workflow"] as const;

/** Which definition runs, and as which of its versions. */
export const ComponentRef = z.object({
  kind: z.enum(COMPONENT_KINDS),
  id: z.string(),
  name: z.string(),
  /** The author's version; `"1"` where none was given. */
  version: z.string(),
});
export type ComponentRef = z.infer<typeof ComponentRef>;
export type ComponentKind = ComponentRef["kind"];
