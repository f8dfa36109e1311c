import type { Section } from "../bench-context.ts";

const KIB = 1024;

/** What it takes until the first answer, and what is uploaded. */
export const start: Section = async ({ product, bare }) => {
  const section = "Start";
  return [
    { section, name: "process start to first 200, Miniflare and migrations included", unit: "ms", product: [product.server.readyMs], bare: [bare.server.readyMs] },
    { section, name: "bundle, raw", unit: "KiB", product: [product.bundle.bytes / KIB], bare: [bare.bundle.bytes / KIB] },
    { section, name: "bundle, gzip", unit: "KiB", product: [product.bundle.gzipBytes / KIB], bare: [bare.bundle.gzipBytes / KIB] },
    { section, name: "resident memory after the start", unit: "MiB", product: [product.server.workerd.residentMib()], bare: [bare.server.workerd.residentMib()] },
  ];
};
