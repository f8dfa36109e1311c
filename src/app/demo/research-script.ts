import { call, reply, type ScriptFunction, think } from "signalbox/models/scripted";
import type { Note } from "../notes.ts";
import { readResult, speak, speakAhead } from "./speak.ts";

/** How many of the notes that were found are read. */
const NOTES_READ = 2;

const HELP = "I answer questions about railway signalling from a few notes. Ask me, for example: how do two trains stay off the same block?";

/** Plays a researcher: search, read the best notes side by side, answer from them and name them. */
export const researchScript: ScriptFunction = (_request, { step, input, results }) => {
  if (step === 0) {
    if (/^\W*(hi|hello|hey|help)\b/i.test(input)) return reply(speak(HELP));
    return reply(think("The notes may know."), call("search_notes", { query: input }));
  }
  const last = results[results.length - 1];
  if (last?.toolName === "search_notes") {
    const found = readResult<Pick<Note, "note_id" | "title">[]>(last.content);
    if (typeof found === "string") return reply(speak(found));
    const best = found.slice(0, NOTES_READ);
    return reply(
      speakAhead(`I found ${best.map((note) => `"${note.title}"`).join(" and ")}; let me read.`),
      ...best.map(({ note_id }) => call("read_note", { note_id })),
    );
  }
  const read = results.filter((result) => result.toolName === "read_note").map((result) => readResult<Note>(result.content));
  return reply(speak(read.map((note) => (typeof note === "string" ? note : `${note.text} (${note.note_id}, ${note.title})`)).join("\n\n")));
};
