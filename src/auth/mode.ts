/** The settings that decide who may come in. */
export interface AuthSettings {
  OS_SECURITY_KEY?: string;
  SIGNALBOX_AUTH?: string;
}

export type AuthMode =
  /** Open to anyone, because someone said so. */
  | { kind: "none" }
  | { kind: "security_key"; key: string }
  /** Nobody comes in: nothing was configured, or what was configured contradicts itself. */
  | { kind: "not_configured"; reason: string };

const closed = (reason: string): AuthMode => ({ kind: "not_configured", reason });

/**
 * How this deployment tells who is asking. A deployment never opens by accident: only the one word `none` opens it, and
 * a word that is misspelt or contradicts the other settings closes it with the reason.
 */
export function authMode(settings: AuthSettings): AuthMode {
  const key = settings.OS_SECURITY_KEY ?? "";
  const word = settings.SIGNALBOX_AUTH ?? "";
  switch (word) {
    case "":
      return key === ""
        ? closed("No authentication is configured. Set the secret OS_SECURITY_KEY, or SIGNALBOX_AUTH=none to open this deployment to anyone.")
        : { kind: "security_key", key };
    case "security_key":
      return key === "" ? closed("SIGNALBOX_AUTH is security_key, but the secret OS_SECURITY_KEY is not set.") : { kind: "security_key", key };
    case "none":
      return key === "" ? { kind: "none" } : closed("SIGNALBOX_AUTH is none, but OS_SECURITY_KEY is set. Remove one of them.");
    default:
      return closed(`SIGNALBOX_AUTH must be "none" or "security_key".`);
  }
}
