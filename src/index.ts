/** The public face: what an app author imports. Models are under `signalbox/models/*`, what tests need under `signalbox/testing`. */
export { type AgentDefinition, type AgentOptions, defineAgent, type Instructions, type ModelChoice, type RunContext, type ToolHook, type ToolHookCall } from "./define/agent.ts";
export type { ApprovalOptions } from "./define/approval-policy.ts";
export { askUser, getUserInput } from "./define/ask-person.ts";
export { defineTool, type ProbeResult, type ToolContext, type ToolDefinition, type ToolOptions } from "./define/tool.ts";
export type { RunStatus } from "./domain/run.ts";
export type { ToolEffect } from "./domain/tool-call.ts";
export type { PlatformEnv } from "./env.ts";
export type { GenerationOptions, Model, ModelContext, ModelFailure, ModelPart, ModelRequest, ToolChoice, ToolSpec } from "./models/model.ts";
export { type AgentOS, type AgentOSOptions, createAgentOS } from "./os.ts";
