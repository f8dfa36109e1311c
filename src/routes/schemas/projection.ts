import { z } from "@hono/zod-openapi";
import { ListSessionsParameters, SessionPage } from "./session.ts";

export const ListParkedParameters = ListSessionsParameters.pick({ limit: true, page: true });

export const ParkedProjection = z
  .object({
    session_id: z.string(),
    entity: z.string().openapi({ description: "What the database lacks: `session`, `deleted`, or `run:` and the run's id." }),
    reason: z.string().openapi({ description: "What the database said." }),
    release: z.string().openapi({ description: "The release whose tries were refused. Another one tries again." }),
    parked_at: z.iso.datetime(),
  })
  .openapi("ParkedProjection");

export const ParkedPage = z.object({ data: z.array(ParkedProjection), meta: SessionPage.shape.meta }).openapi("ParkedPage");
