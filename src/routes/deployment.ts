/** What a deployment says about itself. */
export interface Deployment {
  id: string;
  name: string;
  description?: string;
  /** The author's, not the package's. */
  version: string;
  /** Origins that browsers may call from, beside AgentOS's own and those of `CORS_ORIGINS`. */
  corsOrigins: readonly string[];
  /** Questions to begin with, by component id. */
  quickPrompts: Readonly<Record<string, readonly string[]>>;
}
