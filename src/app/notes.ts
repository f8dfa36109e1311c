export interface Note {
  note_id: string;
  title: string;
  text: string;
}

export const NOTES: readonly Note[] = [
  {
    note_id: "n-1",
    title: "Block working",
    text: "A line is divided into blocks, and only one train may be in a block at a time. A second train waits at the signal until the first has left and the block is given back.",
  },
  {
    note_id: "n-2",
    title: "The train register",
    text: "Each signal box keeps a register in which every movement is entered in order and with its time. Nothing is erased: a wrong entry is struck through so that it can still be read.",
  },
  {
    note_id: "n-3",
    title: "The single-line token",
    text: "On a single line a driver may enter only with the token for that section in hand. There is one token out at a time, so two trains can not meet.",
  },
  {
    note_id: "n-4",
    title: "Interlocking",
    text: "Levers are locked against each other so that a signal can not be cleared unless the points are set for it and no conflicting signal is clear.",
  },
  {
    note_id: "n-5",
    title: "Signals at danger",
    text: "A signal that loses its power or its wire shows danger. Failing must mean stopping, never going on.",
  },
  {
    note_id: "n-6",
    title: "Handing over a shift",
    text: "Whoever takes over a box reads the register first and signs it. The state of the line is what the register says, not what the last signaller remembers.",
  },
];

const STOP_WORDS = new Set("a an and are about can did do does for from has have how i in is it its me of on one or so that the this to two was what when which who why with you".split(" "));

/** The words of a text that say what it is about. */
export const wordsOf = (text: string): string[] => (text.toLowerCase().match(/[a-z]{2,}/g) ?? []).filter((word) => !STOP_WORDS.has(word));

/** Notes that share words with the query, best first. A word in the title counts three times. */
export function findNotes(query: string): Pick<Note, "note_id" | "title">[] {
  const asked = wordsOf(query);
  return NOTES.map((note) => ({ note, score: 3 * shared(asked, note.title) + shared(asked, note.text) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ note: { note_id, title } }) => ({ note_id, title }));
}

/** How many of the words a text has, taking "trains" for "train". */
function shared(words: readonly string[], text: string): number {
  const there = wordsOf(text);
  return words.filter((word) => there.some((other) => other === word || `${other}s` === word || other === `${word}s`)).length;
}
