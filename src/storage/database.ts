import { drizzle, type DrizzleD1Database } from "drizzle-orm/d1";

/** The bindings that storage reads and writes. */
export interface StorageBindings {
  DB: D1Database;
  MEDIA?: R2Bucket;
}

/** Where what spans sessions is kept. */
export interface Database {
  d1: DrizzleD1Database;
  /** Holds what is too long for a row. */
  archives: R2Bucket | undefined;
}

/** The one place that decides which database is meant. */
export const openDatabase = (bindings: StorageBindings): Database => ({ d1: drizzle(bindings.DB), archives: bindings.MEDIA });
