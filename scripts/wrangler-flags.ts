/**
 * The few of wrangler's flags that the scripts must know of; all others go through unread. Flags are written as `--name value`,
 * `--name=value` or `-n value`, and wrangler takes several values after one `--var`.
 */
export interface WranglerFlags {
  /** All of them, as they go on to wrangler. */
  given: readonly string[];
  config?: string;
  env?: string;
  ip?: string;
  port?: number;
  persistTo?: string;
  protocol?: string;
  /** Names of the variables given with `--var`, and their values. */
  vars: ReadonlyMap<string, string>;
  has(name: string): boolean;
  /** All flags but this one, which takes one value. */
  without(name: string): readonly string[];
}

export function readWranglerFlags(given: readonly string[]): WranglerFlags {
  const values = (name: string, short?: string) => valuesOf(given, name, short);
  const last = (name: string, short?: string) => values(name, short).at(-1);
  const port = last("port");
  return {
    given,
    config: last("config", "c"),
    env: last("env", "e"),
    ip: last("ip"),
    port: port === undefined ? undefined : Number(port),
    persistTo: last("persist-to") ?? last("persistTo"),
    protocol: last("local-protocol"),
    vars: new Map(values("var").map((pair) => splitOnce(pair, ":"))),
    has: (name) => given.some((flag) => flag === `--${name}` || flag.startsWith(`--${name}=`) || flag === `--no-${name}`),
    without: (name) => given.filter((flag, index) => flag !== `--${name}` && !flag.startsWith(`--${name}=`) && given[index - 1] !== `--${name}`),
  };
}

function valuesOf(given: readonly string[], name: string, short?: string): string[] {
  const found: string[] = [];
  for (const [index, flag] of given.entries()) {
    if (flag.startsWith(`--${name}=`)) found.push(flag.slice(name.length + 3));
    if (flag !== `--${name}` && flag !== `-${short}`) continue;
    for (const value of given.slice(index + 1)) {
      if (value.startsWith("-")) break;
      found.push(value);
    }
  }
  return found;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at === -1 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)];
}
