import type { Script } from "./script.ts";

/** Cuts one write into the chunks that a script asks for. A reader must not care where a chunk ends. */
export function split(bytes: Buffer, { splitInside = [], chunkBytes }: Pick<Script, "splitInside" | "chunkBytes">): Buffer[] {
  const cuts = new Set<number>();
  for (const text of splitInside) {
    const marker = Buffer.from(text);
    for (let at = bytes.indexOf(marker); at !== -1; at = bytes.indexOf(marker, at + 1)) cuts.add(at + Math.ceil(marker.length / 2));
  }
  if (chunkBytes) for (let at = chunkBytes; at < bytes.length; at += chunkBytes) cuts.add(at);
  const bounds = [0, ...[...cuts].sort((a, b) => a - b), bytes.length];
  return bounds.slice(1).map((end, index) => bytes.subarray(bounds[index], end)).filter((chunk) => chunk.length > 0);
}
