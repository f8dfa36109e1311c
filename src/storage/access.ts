import { eq, type SQL } from "drizzle-orm";
import type { SQLiteColumn } from "drizzle-orm/sqlite-core";
import type { Access } from "../domain/principal.ts";

/** The condition that every query of rows with an owner carries. Nothing to add where all rows may be seen. */
export const visibleTo = (access: Access, owner: SQLiteColumn): SQL | undefined =>
  access.rows === "all" ? undefined : eq(owner, access.userId);
