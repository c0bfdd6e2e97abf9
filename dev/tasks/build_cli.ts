import { glob, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTarGzip } from "npm:nanotar@0.3.0";
import { build } from "npm:vite@8.3.8";
import metadata from "../../deno.json" with { type: "json" };

// Builds the package for npm: the command, and the files that install copies.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = ["LICENSE", "supabase/migrations/*.sql", "supabase/functions/**/*.*"];
/** The same package has the same bytes, whenever it is built. npm gives its packages this time, too. */
const TIME = Date.parse("1985-10-26T08:15:00Z");
const MANIFEST = {
  // Nobody can take a new name with capitals in npm's registry, which npm update --global asks for it.
  name: "Public-Audit-Log",
  version: metadata.version,
  description: "Reads, forwards and verifies the audit log of an organization",
  license: metadata.license,
  private: true,
  type: "module",
  engines: { node: ">=20.4" },
  bin: { "public-audit-log": "dist/main.js" },
};

/** Makes the package as `npm pack` does, which is not there where only Deno is. */
export async function packCli(path: string): Promise<void> {
  const files = new Map<string, string | Uint8Array>([
    ["package.json", JSON.stringify(MANIFEST, null, 2)],
    ["README.md", "Run `public-audit-log --help`.\n"],
  ]);
  const built = await build({
    root: join(ROOT, "cli"),
    logLevel: "warn",
    // One package without dependencies.
    ssr: { noExternal: true },
    build: {
      ssr: join(ROOT, "cli/main.ts"),
      target: "node20",
      write: false,
      rolldownOptions: { output: { entryFileNames: "main.js", banner: "#!/usr/bin/env node" } },
    },
  });
  if (!("output" in built)) throw new TypeError("Vite has built more than one package");
  for (const file of built.output) {
    files.set(`dist/${file.fileName}`, file.type === "chunk" ? file.code : file.source);
  }
  for await (const name of glob(COPIED, { cwd: ROOT })) {
    files.set(name, await readFile(join(ROOT, name)));
  }
  const packed = Array.from(files, ([name, data]) => ({ name: `package/${name}`, data }))
    .sort((one, other) => one.name < other.name ? -1 : 1);
  await writeFile(path, await createTarGzip(packed, { attrs: { mode: "644", mtime: TIME } }));
}

if (import.meta.main) {
  const [file = join(ROOT, "public-audit-log.tgz")] = Deno.args;
  await packCli(file);
  console.log(`Written: ${file}. Install it: npm install --global ${file}`);
}
