/** Lone surrogates become U+FFFD, so that the text is valid UTF-8 wherever it goes (stores and providers refuse halves). */
export function wellFormed(text: string): string {
  return text.isWellFormed() ? text : text.toWellFormed();
}

/**
 * Joins text that arrives in pieces cut anywhere, also in the middle of a surrogate pair. `push` gives back what may be
 * told now; the half that waits for its partner comes with the next piece, or as U+FFFD from `end`.
 */
export class TextJoiner {
  #half = "";

  push(piece: string): string {
    const text = this.#half + piece;
    const last = text.charCodeAt(text.length - 1);
    const endsInHalf = last >= 0xd800 && last <= 0xdbff;
    this.#half = endsInHalf ? text.slice(-1) : "";
    return wellFormed(endsInHalf ? text.slice(0, -1) : text);
  }

  end(): string {
    const rest = wellFormed(this.#half);
    this.#half = "";
    return rest;
  }
}
