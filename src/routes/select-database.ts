import { invalid, notFound } from "../domain/errors.ts";
import { DB_ID } from "./wire.ts";

/**
 * Checks which database a request names, as AgentOS does where several are registered. There is one, and not naming it
 * means it.
 * @throws AppError `invalid_request`, `not_found`
 */
export function selectDatabase({ db_id: id, table }: { db_id?: string; table?: string }, tables: readonly string[]): void {
  if (id === undefined && table !== undefined) throw invalid("The parameter table needs db_id.");
  if (id !== undefined && id !== DB_ID) throw notFound(`No database found with id '${id}'`);
  if (table !== undefined && !tables.includes(table)) throw notFound(`No table '${table}' found in the database '${DB_ID}'`);
}
