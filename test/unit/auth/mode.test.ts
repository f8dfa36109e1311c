import { describe, expect, it } from "vitest";
import { authMode } from "../../../src/auth/mode.ts";

describe("how a deployment tells who is asking", () => {
  it.each([
    { settings: { SIGNALBOX_AUTH: "none" }, kind: "none" },
    { settings: { OS_SECURITY_KEY: "k" }, kind: "security_key" },
    { settings: { OS_SECURITY_KEY: "k", SIGNALBOX_AUTH: "security_key" }, kind: "security_key" },
    { settings: { OS_SECURITY_KEY: "k", SIGNALBOX_AUTH: "" }, kind: "security_key" },
  ])("$settings is $kind", ({ settings, kind }) => {
    expect(authMode(settings).kind).toBe(kind);
  });

  it.each([
    { settings: {}, says: "No authentication is configured" },
    { settings: { OS_SECURITY_KEY: "" }, says: "No authentication is configured" },
    { settings: { SIGNALBOX_AUTH: "security_key" }, says: "OS_SECURITY_KEY is not set" },
    { settings: { SIGNALBOX_AUTH: "none", OS_SECURITY_KEY: "k" }, says: "Remove one of them" },
    { settings: { SIGNALBOX_AUTH: "None" }, says: "must be" },
    { settings: { SIGNALBOX_AUTH: "off", OS_SECURITY_KEY: "k" }, says: "must be" },
  ])("$settings opens to nobody and says why", ({ settings, says }) => {
    expect(authMode(settings)).toEqual({ kind: "not_configured", reason: expect.stringContaining(says) });
  });
});
