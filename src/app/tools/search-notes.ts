import { defineTool } from "signalbox";
import { z } from "zod";
import { findNotes, NOTES } from "../notes.ts";

export const searchNotes = defineTool({
  name: "search_notes",
  description: "Finds notes by words: ids and titles, best first.",
  input: z.object({ query: z.string() }),
  effect: "none",
  execute({ query }) {
    const found = findNotes(query);
    return found.length > 0 ? found : `No note is about that. There are notes on: ${NOTES.map((note) => note.title).join(", ")}.`;
  },
});
