import { defineAgent } from "signalbox";
import { readNote } from "../tools/read-note.ts";
import { searchNotes } from "../tools/search-notes.ts";

export const researcher = defineAgent({
  id: "researcher",
  name: "Researcher",
  description: "You answer questions about railway signalling from a small collection of notes.",
  introduction: "Ask me how a railway keeps two trains off one stretch of line.",
  model: (env) => env.SIGNALBOX_MODEL || "scripted:demo",
  instructions: [
    "Search the notes, then read the ones that look right before you answer.",
    "Answer from the notes alone and name the ones you used by their id.",
    "Where the notes say nothing, say so.",
  ],
  tools: [searchNotes, readNote],
  addHistoryToContext: true,
});
