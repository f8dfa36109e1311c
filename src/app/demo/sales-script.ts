import { call, reply, type Reply, type ScriptFunction, type ScriptedTurn, think } from "signalbox/models/scripted";
import type { Customer, Plan } from "../customers.ts";
import { readResult, speak, speakAhead } from "./speak.ts";

type Request = Parameters<ScriptFunction>[0];

/** What the user wants, as far as a script can tell. */
interface Wish {
  customers: readonly string[];
  plan?: Plan;
  /** They only wonder: say what would be done, and ask. */
  wondering?: boolean;
}

interface Change {
  receipt: string;
  customer_id: string;
  name: string;
  plan_before: Plan;
  plan: Plan;
}

const ABILITIES =
  'I can look a customer up ("who is c-1001?") and change their plan ("upgrade c-1001 to pro"). ' +
  'There are customers c-1001 to c-1005, and I remember whom we spoke of ("put them back on free").';

/**
 * Plays a sales assistant: it finds customer ids and plans in what the user says, looks customers up before it says
 * anything about them, changes a plan when it was asked to, and tells what the tools answered.
 */
export const salesScript: ScriptFunction = (request, turn) => {
  const wish = readWish(request, turn.input);
  if (wish === undefined) return reply(speak(isGreeting(turn.input) ? `Hello! I am the sales assistant. ${ABILITIES}` : `I did not find a customer in that. ${ABILITIES}`));
  if (turn.step === 0) return lookUp(wish);

  const { plan } = wish;
  const customers = resultsOf<Customer>(turn, "lookup_customer");
  if (plan === undefined) return reply(speak(customers.map(describe).join("\n")));

  const due = customers.filter((customer) => typeof customer !== "string" && customer.plan !== plan) as Customer[];
  const settled = customers.filter((customer) => typeof customer === "string" || customer.plan === plan).map((customer) => tellNothingToDo(customer, plan));
  const changes = resultsOf<Change>(turn, "update_crm");
  if (changes.length > 0 || due.length === 0) return reply(speak([...changes.map(tellChange), ...settled].join("\n")));
  if (wish.wondering === true) {
    return reply(speak(`${customers.map(describe).join("\n")}\n${due.map((customer) => propose(customer, plan)).join("\n")}`));
  }
  return reply(
    speakAhead(`${due.map((customer) => `${customer.name} is on ${customer.plan}`).join(", ")}; I will change that to ${plan}.`),
    ...due.map(({ customer_id }) => call("update_crm", { customer_id, plan })),
  );
};

function lookUp({ customers }: Wish): Reply {
  return reply(
    think("I should see the record before I say anything."),
    speakAhead(`Let me look up ${customers.join(" and ")}.`),
    ...customers.map((customer_id) => call("lookup_customer", { customer_id })),
  );
}

function readWish(request: Request, input: string): Wish | undefined {
  const proposed = /^\W*(yes|yep|sure|ok(ay)?|go ahead|do it|please do|confirm(ed)?)\b/i.test(input) ? lastProposal(request) : undefined;
  if (proposed !== undefined) return proposed;

  const plan = readPlan(input);
  const named = idsIn(input);
  // Someone asked for by name is looked up by it: the tool's answer says which ids there are.
  const name = /\b(?:who is|who's|look up|tell me about)\s+([\p{L}][\p{L} '-]*\p{L})/iu.exec(input)?.[1];
  const meansLast = plan !== undefined || /\b(they|them|their|he|him|his|she|her|it|this customer|that customer|the customer|again)\b/i.test(input);
  const spokenOf = named.length > 0 ? named : meansLast ? lastCustomers(request) : [];
  const customers = spokenOf.length > 0 ? spokenOf : name === undefined ? [] : [name];
  if (customers.length === 0) return undefined;
  return {
    customers,
    ...(plan === undefined ? {} : { plan }),
    ...(/\b(should|could|would|might|what if)\b/i.test(input) && input.includes("?") ? { wondering: true } : {}),
  };
}

const isGreeting = (input: string): boolean => /^\W*(hi|hello|hey|good (morning|afternoon|evening)|greetings)\b/i.test(input);

const idsIn = (text: string): string[] => [...new Set((text.match(/\bc-\d+\b/gi) ?? []).map((id) => id.toLowerCase()))];

/** The plan that a change is asked to: "put c-1001 on pro", "downgrade them". To ask which plan someone is on asks for no change. */
function readPlan(input: string): Plan | undefined {
  const named = /\b(?:to|on|onto)\s+(?:the\s+)?(free|pro)\b/i.exec(input)?.[1]?.toLowerCase() as Plan | undefined;
  if (/\bupgrade/i.test(input)) return named ?? "pro";
  if (/\bdowngrade/i.test(input)) return named ?? "free";
  return /\b(put|move|switch|change|set|make|bring|get)\b/i.test(input) ? (named ?? (/\b(free|pro)\b/i.exec(input)?.[1]?.toLowerCase() as Plan | undefined)) : undefined;
}

/** Whom the conversation was about before this turn: the customers of its newest message that looks any up or names any. */
function lastCustomers(request: Request): string[] {
  const before = request.messages.slice(0, request.messages.findLastIndex((message) => message.role === "user"));
  for (const message of before.toReversed()) {
    const called = message.role === "assistant" ? message.toolCalls.map((made) => String(made.arguments.customer_id ?? "")).join(" ") : "";
    const ids = message.role === "tool" || message.role === "system" ? [] : idsIn(called || message.content);
    if (ids.length > 0 && !message.content.includes(ABILITIES)) return ids;
  }
  return [];
}

const propose = (customer: Customer, plan: Plan): string => `Shall I put ${customer.customer_id} on ${plan}?`;

/** What the assistant offered in its last words before this turn. */
function lastProposal(request: Request): Wish | undefined {
  const before = request.messages.slice(0, request.messages.findLastIndex((message) => message.role === "user"));
  const said = before.findLast((message) => message.role === "assistant")?.content ?? "";
  const offers = [...said.matchAll(/Shall I put (c-\d+) on (free|pro)\?/g)];
  const plan = offers[0]?.[2] as Plan | undefined;
  return plan === undefined ? undefined : { customers: offers.map((offer) => offer[1] ?? ""), plan };
}

/** What a tool answered in this turn; a string where it was no record but words: an unknown id, an error, a refusal. */
const resultsOf = <T>(turn: ScriptedTurn, toolName: string): (T | string)[] =>
  turn.results.filter((result) => result.toolName === toolName).map((result) => readResult<T>(result.content));

const describe = (customer: Customer | string): string =>
  typeof customer === "string"
    ? customer
    : `${customer.name} (${customer.customer_id}) is on the ${customer.plan} plan with ${customer.seats} ${customer.seats === 1 ? "seat" : "seats"}, a customer since ${customer.customer_since}. ${customer.note}`;

const tellNothingToDo = (customer: Customer | string, plan: Plan): string =>
  typeof customer === "string" ? customer : `${customer.name} (${customer.customer_id}) is on ${plan} already; I changed nothing.`;

const tellChange = (change: Change | string): string =>
  typeof change === "string"
    ? `The plan was not changed: ${change}`
    : `Done: ${change.name} (${change.customer_id}) went from ${change.plan_before} to ${change.plan}. The receipt is ${change.receipt}.`;
