import { z } from "@hono/zod-openapi";
import { VERSION } from "../version.ts";
import type { Deployment } from "./deployment.ts";
import { newRouter, route, type Router } from "./route.ts";

/** The viewer's one file, as its package names it. */
const VIEWER = "openapi-explorer.min.js";

const page = (title: string, body: string) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
</head>
<body>
${body}
</body>
</html>
`;

/** Nothing on the page may come from, or be told to, anywhere but here. */
const ONLY_FROM_HERE = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:";

/** The API's description and a page to read it on. */
export function docs(app: Router, deployment: Deployment): Router {
  const router = newRouter();
  const title = escaped(deployment.name);
  let described: string | undefined;

  router.openapi(
    route({
      method: "get",
      path: "/openapi.json",
      guard: "public",
      summary: "This API, as OpenAPI 3.1",
      responses: { 200: { description: "The document", content: { "application/json": { schema: z.object({}).loose() } } } },
    }),
    (c) => {
      described ??= JSON.stringify(describe(app, deployment));
      return c.body(described, 200, { "content-type": "application/json" });
    },
  );

  router.openapi(
    route({
      method: "get",
      path: "/docs",
      guard: "public",
      summary: "This API, as a page",
      responses: { 200: { description: "The page", content: { "text/html": { schema: z.string() } } } },
    }),
    (c) => {
      const body =
        c.env.ASSETS === undefined
          ? `<h1>${title}</h1>
<p>The viewer's script is not bound. Install the package <code>openapi-explorer</code> and add to <code>wrangler.toml</code>:</p>
<pre>[assets]
directory = "./node_modules/openapi-explorer/dist/browser"
binding = "ASSETS"
run_worker_first = true</pre>
<p>The API's description is at <a href="openapi.json">openapi.json</a>.</p>`
          : `<script type="module" src="docs/${VIEWER}"></script>
<openapi-explorer spec-url="openapi.json"></openapi-explorer>`;
      return c.html(page(title, body), 200, { "content-security-policy": ONLY_FROM_HERE });
    },
  );

  router.openapi(
    route({
      method: "get",
      path: `/docs/${VIEWER}`,
      guard: "public",
      summary: "The page's script",
      responses: { 200: { description: "JavaScript", content: { "text/javascript": { schema: z.string() } } }, 404: { description: "ASSETS is not bound" } },
    }),
    (c) => c.env.ASSETS?.fetch(new URL(`/${VIEWER}`, c.req.url)) ?? c.notFound(),
  );

  return router;
}

function describe(app: Router, deployment: Deployment) {
  app.openAPIRegistry.registerComponent("securitySchemes", "bearer", {
    type: "http",
    scheme: "bearer",
    description: "The deployment's security key.",
  });
  const document = app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: { title: deployment.name, version: VERSION, ...(deployment.description === undefined ? {} : { description: deployment.description }) },
  });
  // Viewers group operations by tag: the first word of the path is what they are about.
  for (const [path, methods] of Object.entries(document.paths ?? {})) {
    const tag = methods.get?.security?.length === 0 ? "deployment" : (path.split("/")[1] ?? "");
    for (const operation of Object.values(methods) as { tags?: string[] }[]) operation.tags = [tag];
  }
  return document;
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
