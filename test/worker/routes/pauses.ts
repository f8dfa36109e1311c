import { call, finish, form, json } from "../http.ts";

/** Answers are read as whatever the test says they are: what is not there fails it. */
export type Answer = any;

/** Starts a run that pauses; see `pausing-agents.ts` for how the message is read. */
export const start = async (message: string, fields: Record<string, string> = {}): Promise<Answer> => finish("clerk", { message, ...fields });

export async function ask(method: string, path: string, body?: unknown): Promise<{ status: number; body: Answer; headers: Headers }> {
  const response = await call(path, body === undefined ? { method } : json(body, method));
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
}

export const continuePath = (run: Answer, agent = "clerk") => `/agents/${agent}/runs/${run.run_id}/continue`;

/** Continues a run and waits for its next end or pause. */
export async function go(run: Answer, fields: Record<string, string> = {}): Promise<{ status: number; body: Answer }> {
  const response = await call(continuePath(run), form({ session_id: run.session_id, stream: "false", ...fields }));
  return { status: response.status, body: await response.json() };
}

/** All of a run's calls as it shows them, with answers in some of them: what a client of AgentOS sends back. */
export const echo = (run: Answer, answers: Record<string, object> = {}): string =>
  JSON.stringify(run.tools.map((tool: Answer) => ({ ...tool, ...answers[tool.tool_call_id] })));

export const read = async (run: Answer): Promise<Answer> => (await ask("GET", `/agents/clerk/runs/${run.run_id}?session_id=${encodeURIComponent(run.session_id)}`)).body;

export const approvalsOf = async (run: Answer): Promise<Answer[]> => (await ask("GET", `/approvals?run_id=${run.run_id}`)).body.data;

export const approvalOf = async (run: Answer): Promise<Answer> => (await approvalsOf(run))[0];

export const resolve = (approval: Answer, body: object) => ask("POST", `/approvals/${approval.id}/resolve`, body);
