import { defineTool } from "signalbox";
import { z } from "zod";
import { findCustomer, noSuchCustomer } from "../customers.ts";

export const lookupCustomer = defineTool({
  name: "lookup_customer",
  description: "Reads a customer's record: name, plan, seats, and what the team has noted.",
  input: z.object({ customer_id: z.string().describe("For example c-1001") }),
  effect: "none",
  execute: ({ customer_id }, { session }) => findCustomer(customer_id, session.state) ?? noSuchCustomer(customer_id),
});
