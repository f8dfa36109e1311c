/** Where to send requests and with which key. */
export interface Endpoint {
  /** Absent: the provider's own address. */
  baseUrl?: string;
  apiKey: string;
}

/** What every real provider lets an author choose. */
export interface EndpointOptions {
  /** Address of a gateway or compatible server, instead of the one in the environment. */
  baseUrl?: string;
  /** Name of the variable that holds the key, for an app that talks to several compatible servers. */
  apiKeyVariable?: string;
  /** Sent with every request; their values are never shown in errors. */
  headers?: Record<string, string>;
}

/** Gateways that check no key still want to see the header. */
const NO_KEY = "placeholder";

/**
 * Reads base URL and key from the Worker's bindings, at the moment of the call: definitions are made in global scope, where
 * there is no environment yet. Gives back a sentence where something is missing.
 */
export function readEndpoint(
  env: Record<string, unknown>,
  variables: { apiKey: string; baseUrl: string },
  options: EndpointOptions,
): { ok: true; endpoint: Endpoint } | { ok: false; problem: string } {
  const keyVariable = options.apiKeyVariable ?? variables.apiKey;
  const apiKey = variable(env, keyVariable);
  const baseUrl = options.baseUrl ?? variable(env, variables.baseUrl);
  if (baseUrl !== undefined && !URL.canParse(baseUrl)) {
    return { ok: false, problem: `${options.baseUrl === undefined ? variables.baseUrl : "baseUrl"} is not a URL.` };
  }
  if (apiKey === undefined && baseUrl === undefined) {
    return { ok: false, problem: `Set ${keyVariable}, or ${variables.baseUrl} for a gateway that needs no key.` };
  }
  return { ok: true, endpoint: { ...(baseUrl === undefined ? {} : { baseUrl }), apiKey: apiKey ?? NO_KEY } };
}

function variable(env: Record<string, unknown>, name: string): string | undefined {
  const value = env[name];
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}
