import { defineTool } from "signalbox";
import { z } from "zod";
import { NOTES } from "../notes.ts";

export const readNote = defineTool({
  name: "read_note",
  description: "Reads one note.",
  input: z.object({ note_id: z.string().describe("For example n-1") }),
  effect: "none",
  execute: ({ note_id }) =>
    NOTES.find((note) => note.note_id === note_id) ?? `There is no note "${note_id}". There are: ${NOTES.map((note) => note.note_id).join(", ")}.`,
});
