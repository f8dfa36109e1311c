/** The package's version: what `/info` and the OpenAPI document say. */
export const VERSION = "0.1.0";

/** The AgentOS whose HTTP contract this is. */
export const AGENT_OS_CONTRACT = "3.0.0a3";
