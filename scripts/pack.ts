/**
 * `node scripts/pack.ts [folder]`: the package as it is published, compiled and with declarations, so that nobody's compiler
 * has to like our sources. Prints the tarball's path; without a folder it goes to `dist/`.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

interface Manifest {
  exports: Record<string, string>;
  [field: string]: unknown;
}

/** What only concerns whoever works on this repository. */
const OURS_ALONE = ["private", "files", "scripts", "devDependencies", "optionalDependencies", "allowScripts"];

const root = fileURLToPath(new URL("..", import.meta.url).href);
const destination = resolve(process.argv[2] ?? join(root, "dist"));
const stage = mkdtempSync(join(tmpdir(), "signalbox-pack-"));
try {
  run(join(root, "node_modules/.bin/tsc"), ["-p", join(root, "scripts/tsconfig.pack.json"), "--outDir", stage]);
  for (const name of ["migrations", "README.md", "LICENSE"]) cpSync(join(root, name), join(stage, name), { recursive: true });
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
  writeFileSync(join(stage, "package.json"), `${JSON.stringify(published(manifest), null, 2)}\n`);

  mkdirSync(destination, { recursive: true });
  const printed = run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", destination], stage);
  const [packed] = JSON.parse(printed) as { filename: string }[];
  console.log(join(destination, packed?.filename ?? ""));
} finally {
  rmSync(stage, { recursive: true, force: true });
}

/** The manifest without what is ours alone, its exports pointing at compiled files. */
function published(manifest: Manifest): Record<string, unknown> {
  const kept = Object.entries(manifest).filter(([field]) => !OURS_ALONE.includes(field));
  const exports = Object.entries(manifest.exports).map(([subpath, source]) => {
    const compiled = source.replace(/^\.\/src\/(.*)\.ts$/, "./$1");
    return [subpath, { types: `${compiled}.d.ts`, default: `${compiled}.js` }];
  });
  return { ...Object.fromEntries(kept), sideEffects: false, exports: { ...Object.fromEntries(exports), "./package.json": "./package.json" } };
}

/** Runs a program and gives back what it printed. Its complaints are shown; a failure ends the packing. */
function run(program: string, args: readonly string[], cwd = root): string {
  const { status, stdout, error } = spawnSync(program, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed. ${error?.message ?? stdout}`);
  return stdout;
}
