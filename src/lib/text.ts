/** Lone surrogates become U+FFFD, so that the text is valid UTF-8 wherever it goes (stores and providers refuse halves). */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

/** The beginning of a text, at most so many UTF-16 units long. It does not end in the middle of a surrogate pair. */
export function cutText(text: string, length: number): string {
  const cut = text.slice(0, Math.max(length, 0));
  return cut.length < text.length && isHighSurrogate(cut.charCodeAt(cut.length - 1)) ? cut.slice(0, -1) : cut;
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;

/**
 * Joins text that arrives in pieces cut anywhere, also in the middle of a surrogate pair. `push` gives back what may be
 * told now; the half that waits for its partner comes with the next piece, or as U+FFFD from `end`.
 */
export class TextJoiner {
  #half = "";

  push(piece: string): string {
    const text = this.#half + piece;
    const endsInHalf = isHighSurrogate(text.charCodeAt(text.length - 1));
    this.#half = endsInHalf ? text.slice(-1) : "";
    return wellFormed(endsInHalf ? text.slice(0, -1) : text);
  }

  end(): string {
    const rest = wellFormed(this.#half);
    this.#half = "";
    return rest;
  }
}
