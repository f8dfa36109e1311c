import { describe, expect, it, vi } from "vitest";
import type { ToolContext, ToolDefinition } from "../../../src/define/tool.ts";
import type { Message } from "../../../src/domain/message.ts";
import { tryParseJson } from "../../../src/lib/json.ts";
import { scripted } from "../../../src/models/scripted.ts";

// The package's front door opens onto the session object, which only exists in workerd; definitions need none of it.
vi.mock("signalbox", async () => ({ ...(await import("../../../src/define/agent.ts")), ...(await import("../../../src/define/tool.ts")) }));
const { demo } = await import("../../../src/app/demo-script.ts");
const { lookupCustomer } = await import("../../../src/app/tools/lookup-customer.ts");
const { updateCrm } = await import("../../../src/app/tools/update-crm.ts");
const { searchNotes } = await import("../../../src/app/tools/search-notes.ts");
const { readNote } = await import("../../../src/app/tools/read-note.ts");

/** A conversation with the demo's model and an agent's tools: the engine's loop in its shortest form. */
function conversation(tools: ToolDefinition<any>[]) {
  const model = scripted(demo, { clock: { now: () => 0, sleep: async () => {} } });
  const messages: Message[] = [];
  const state: Record<string, unknown> = {};
  const stamp = () => ({ id: String(messages.length), createdAt: messages.length });

  async function ask(content: string) {
    messages.push({ ...stamp(), role: "user", content });
    const called: { name: string; args: Record<string, unknown> }[] = [];
    for (let step = 0; step < 6; step++) {
      let text = "";
      const calls: { id: string; name: string; arguments: Record<string, unknown> }[] = [];
      const request = { messages: [...messages], tools: tools.map(({ name, description, parameters }) => ({ name, description, parameters })) };
      for await (const part of model.stream(request, { env: {}, signal: new AbortController().signal })) {
        if (part.type === "error") throw new Error(part.error.message);
        if (part.type === "text") text += part.text;
        if (part.type === "tool-call") calls.push({ id: part.id, name: part.name, arguments: tryParseJson(part.argumentsText) as Record<string, unknown> });
      }
      messages.push({ ...stamp(), role: "assistant", content: text, toolCalls: calls, provider: "scripted", model: "demo", finishReason: "stop" });
      if (calls.length === 0) return { text, called };
      for (const call of calls) {
        called.push({ name: call.name, args: call.arguments });
        const tool = tools.find((candidate) => candidate.name === call.name);
        const context = { session: { id: "s", state }, idempotencyKey: call.id } as unknown as ToolContext;
        const result: unknown = await tool?.execute(tool.input.parse(call.arguments), context);
        const told = typeof result === "string" ? result : JSON.stringify(result);
        messages.push({ ...stamp(), role: "tool", toolCallId: call.id, toolName: call.name, content: told, isError: false });
      }
    }
    throw new Error("The demo does not come to an end.");
  }
  return { ask, state, messages };
}

const sales = () => conversation([lookupCustomer, updateCrm]);
const research = () => conversation([searchNotes, readNote]);

describe("the sales assistant's script", () => {
  it("greets, and says what it can do when it did not understand", async () => {
    const { ask } = sales();
    expect((await ask("Hello there")).text).toMatch(/^Hello! .*c-1001/);
    const lost = await ask("What is the weather like?");
    expect(lost.text).toMatch(/did not find a customer.*upgrade c-1001/);
    expect(lost.called).toEqual([]);
  });

  it("looks a customer up and tells what the record says", async () => {
    const { text, called } = await sales().ask("Who is c-1001?");
    expect(called).toEqual([{ name: "lookup_customer", args: { customer_id: "c-1001" } }]);
    expect(text).toContain("Ada Okafor (c-1001) is on the free plan with 4 seats");
  });

  it("looks up, changes the plan when asked to, and names the receipt that the tool gave", async () => {
    const { ask, state } = sales();
    const { text, called } = await ask("Look up customer C-1001 and upgrade them to pro");
    expect(called.map((call) => call.name)).toEqual(["lookup_customer", "update_crm"]);
    const { receipt } = (state.crm as Record<string, { plan: string; receipt: string }>)["c-1001"]!;
    expect(receipt).toMatch(/^crm-[0-9a-f]{10}$/);
    expect(text).toBe(`Done: Ada Okafor (c-1001) went from free to pro. The receipt is ${receipt}.`);
  });

  it("remembers whom the conversation is about, and what it changed", async () => {
    const { ask } = sales();
    await ask("tell me about c-1005");
    expect((await ask("move them to pro")).called).toEqual([
      { name: "lookup_customer", args: { customer_id: "c-1005" } },
      { name: "update_crm", args: { customer_id: "c-1005", plan: "pro" } },
    ]);
    expect((await ask("which plan are they on?")).text).toContain("Emi Tanaka (c-1005) is on the pro plan");
    expect((await ask("upgrade them")).text).toBe("Emi Tanaka (c-1005) is on pro already; I changed nothing.");
    expect((await ask("put them back on free")).text).toContain("went from pro to free");
  });

  it("only proposes when the user wonders, and does it on a yes", async () => {
    const { ask } = sales();
    const wondered = await ask("Should we downgrade c-1004?");
    expect(wondered.called.map((call) => call.name)).toEqual(["lookup_customer"]);
    expect(wondered.text).toContain("Shall I put c-1004 on free?");
    expect((await ask("yes, please")).text).toContain("Daniel Nkemelu (c-1004) went from pro to free");
  });

  it("handles several customers side by side, and an id nobody has", async () => {
    const both = await sales().ask("Put c-1001, c-1002 and c-9 on pro");
    expect(both.called.map((call) => call.name)).toEqual(["lookup_customer", "lookup_customer", "lookup_customer", "update_crm"]);
    expect(both.text).toContain("Ada Okafor (c-1001) went from free to pro");
    expect(both.text).toContain("Bruno Keller (c-1002) is on pro already; I changed nothing.");
    expect(both.text).toContain('There is no customer "c-9".');
    expect((await sales().ask("who is c-9?")).text).toMatch(/^There is no customer "c-9"\. There are: c-1001 \(Ada Okafor\)/);
    expect((await sales().ask("Who is Emi?")).text).toContain("c-1005 (Emi Tanaka)");
  });

  it("says so when a change was not made", async () => {
    const { ask } = conversation([lookupCustomer, { ...updateCrm, execute: () => "The CRM is closed on Sundays." }]);
    expect((await ask("upgrade c-1001")).text).toBe("The plan was not changed: The CRM is closed on Sundays.");
  });
});

describe("update_crm", () => {
  it("answers the same call with the same receipt, and an id nobody has with those there are", async () => {
    const update = (key: string, customer_id = "c-1001") =>
      updateCrm.execute({ customer_id, plan: "pro" }, { session: { id: "s", state: {} }, idempotencyKey: key } as unknown as ToolContext);
    expect(await update("r:0:0")).toEqual(await update("r:0:0"));
    expect(await update("r:0:0")).not.toEqual(await update("r:0:1"));
    expect(await update("r:0:0", "c-7")).toContain('There is no customer "c-7"');
  });
});

describe("the researcher's script", () => {
  it("searches, reads the best notes side by side, and answers from them by id", async () => {
    const { text, called } = await research().ask("How do two trains stay off the same block?");
    expect(called.map((call) => call.name)).toEqual(["search_notes", "read_note", "read_note"]);
    expect(text).toContain("(n-1, Block working)");
  });

  it("says what the notes are about when they know nothing, and when it is greeted", async () => {
    expect((await research().ask("quantum chromodynamics?")).text).toMatch(/^No note is about that\. .*Interlocking/);
    expect((await research().ask("hello")).text).toContain("railway signalling");
  });
});
