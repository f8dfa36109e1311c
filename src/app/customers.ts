export type Plan = "free" | "pro";

export interface Customer {
  customer_id: string;
  name: string;
  plan: Plan;
  seats: number;
  customer_since: string;
  note: string;
}

const CUSTOMERS: readonly Customer[] = [
  { customer_id: "c-1001", name: "Ada Okafor", plan: "free", seats: 4, customer_since: "2023-02", note: "Asked twice about shared reports, which need the pro plan." },
  { customer_id: "c-1002", name: "Bruno Keller", plan: "pro", seats: 12, customer_since: "2021-09", note: "Renews in March; likes a call better than mail." },
  { customer_id: "c-1003", name: "Chiara Rossi", plan: "free", seats: 1, customer_since: "2025-06", note: "Student, on the free plan for good reasons." },
  { customer_id: "c-1004", name: "Daniel Nkemelu", plan: "pro", seats: 3, customer_since: "2024-11", note: "Uses two of three seats; wondered whether free would do." },
  { customer_id: "c-1005", name: "Emi Tanaka", plan: "free", seats: 9, customer_since: "2022-05", note: "Team grew from 3 to 9 this year." },
];

/** What this session's CRM has changed. It stands in the session's state, so every session plays with its own copy. */
interface CrmState {
  crm?: Record<string, { plan: Plan; receipt: string }>;
}

/** The customer with that id, with the plan this session gave them. */
export function findCustomer(id: string, state: CrmState): Customer | undefined {
  const customer = CUSTOMERS.find((candidate) => candidate.customer_id === id);
  return customer && { ...customer, plan: state.crm?.[id]?.plan ?? customer.plan };
}

/** Puts a customer on a plan. */
export function recordPlan(id: string, change: { plan: Plan; receipt: string }, state: CrmState): void {
  state.crm = { ...state.crm, [id]: change };
}

/** What a tool answers about an id that nobody has. */
export const noSuchCustomer = (id: string): string =>
  `There is no customer "${id}". There are: ${CUSTOMERS.map((customer) => `${customer.customer_id} (${customer.name})`).join(", ")}.`;
