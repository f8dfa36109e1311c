/**
 * What the fragments of a call's arguments come to. A call without arguments arrives as no fragment at all, as empty or as
 * blank text, depending on the server: each means `{}`. Everything else is passed on as it was written.
 */
export const argumentText = (written: string): string => (written.trim() === "" ? "{}" : written);
