import { describe, expect, it } from "vitest";
import { AppError, ERROR_CODES } from "../../../src/domain/errors.ts";
import { errorResponse, statusOf, unprocessable } from "../../../src/routes/errors.ts";

const told = async (error: AppError) => {
  const response = errorResponse(error);
  return { status: response.status, retryAfter: response.headers.get("retry-after"), body: await response.json() };
};

describe("refusals as answers", () => {
  it("every code has a status of its kind", () => {
    for (const code of ERROR_CODES) expect(statusOf(code), code).toBeGreaterThanOrEqual(400);
  });

  it("a busy session names the run that holds it", async () => {
    expect(await told(new AppError("session_busy", "The session is busy.", { run_id: "r1" }))).toEqual({
      status: 409,
      retryAfter: null,
      body: { detail: "The session is busy.", error_type: "session_busy", run_id: "r1" },
    });
  });

  it("wrong fields are a list in detail, as FastAPI writes it", async () => {
    const problem = { type: "missing", loc: ["body", "message"], msg: "Field required", input: null };
    expect(await told(unprocessable([problem]))).toMatchObject({ status: 422, body: { detail: [problem], error_type: "unprocessable" } });
  });

  it.each([
    { error: new AppError("unavailable", "Later."), seconds: "1" },
    { error: new AppError("queue_full", "Full."), seconds: "5" },
    { error: new AppError("unavailable", "Later.", { retry_after: 2.2 }), seconds: "3" },
    { error: new AppError("unavailable", "Later.", { retry_after: 0 }), seconds: "1" },
  ])("says when to come back: $seconds s", async ({ error, seconds }) => {
    const { retryAfter, body } = await told(error);
    expect(retryAfter).toBe(seconds);
    expect(body).not.toHaveProperty("retry_after");
  });
});
