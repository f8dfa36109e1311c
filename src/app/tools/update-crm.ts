import { defineTool } from "signalbox";
import { z } from "zod";
import { findCustomer, noSuchCustomer, recordPlan } from "../customers.ts";

export const updateCrm = defineTool({
  name: "update_crm",
  description: "Puts a customer on a plan and answers with a receipt.",
  input: z.object({ customer_id: z.string(), plan: z.enum(["free", "pro"]) }),
  effect: "once",
  async execute({ customer_id, plan }, { session, idempotencyKey }) {
    const customer = findCustomer(customer_id, session.state);
    if (customer === undefined) return noSuchCustomer(customer_id);
    // The same call has the same key, and so the same receipt, however often it is asked what became of it.
    const receipt = await receiptFor(idempotencyKey);
    recordPlan(customer_id, { plan, receipt }, session.state);
    return { receipt, customer_id, name: customer.name, plan_before: customer.plan, plan };
  },
});

async function receiptFor(key: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key)));
  return `crm-${Array.from(digest.subarray(0, 5), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
