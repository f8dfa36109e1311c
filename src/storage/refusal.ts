/** A projection that D1 can not hold, whoever delivers it and how often. */
export class ProjectionRefused extends Error {
  override readonly name = "ProjectionRefused";
}

/**
 * What SQLite says of the values it was given. A full disk, an overloaded or restarting D1 and a table that is not
 * there yet are none of these: they pass, with time, room, or the migration that is still to be applied.
 */
const REFUSALS = /SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|RANGE)|D1_TYPE_ERROR|string or blob too big/;

/**
 * Whether an error of `applyProjections` is about what was to be written, so that trying for ever can not help.
 * Everything else (the way to D1, or its load) is worth another try however often it was tried.
 */
export function isRefusal(error: unknown): boolean {
  if (error instanceof ProjectionRefused) return true;
  return error instanceof Error && (REFUSALS.test(error.message) || isRefusal(error.cause));
}
