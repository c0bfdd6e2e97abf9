import { cp, glob, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { createTarGzip } from "npm:nanotar@0.3.0";
import { build } from "npm:vite@8.3.8";
import metadata from "../../deno.json" with { type: "json" };

// Builds the package for npm: the command, and the files that install copies.

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const COPIED = [
  "LICENSE",
  "supabase/migrations/*.sql",
  "supabase/functions/**/*.*",
];
/** The same package has the same bytes, whenever it is built. npm gives its packages this time, too. */
const TIME = Date.parse("1985-10-26T08:15:00Z");

/** Makes the package from its folder, as `npm pack` does, which is not there where only Deno is. */
export async function packCli(file: string): Promise<void> {
  const folder = await Deno.makeTempDir();
  await buildPackage(folder);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries.filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name)).sort();
  const files = await Promise.all(paths.map(async (path) => ({
    name: `package/${relative(folder, path)}`,
    data: await readFile(path),
  })));
  await writeFile(file, await createTarGzip(files, { attrs: { mode: "644", mtime: TIME } }));
  await rm(folder, { recursive: true });
}

async function buildPackage(outDir: string): Promise<void> {
  await build({
    root: join(ROOT, "cli"),
    logLevel: "warn",
    // One package without dependencies.
    ssr: { noExternal: true },
    build: {
      ssr: join(ROOT, "cli/main.ts"),
      target: "node20",
      outDir: join(outDir, "dist"),
      emptyOutDir: true,
      rolldownOptions: {
        output: { entryFileNames: "main.js", banner: "#!/usr/bin/env node" },
      },
    },
  });
  for await (const path of glob(COPIED, { cwd: ROOT })) {
    await mkdir(dirname(join(outDir, path)), { recursive: true });
    await cp(join(ROOT, path), join(outDir, path));
  }
  const manifest = {
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
  await writeFile(join(outDir, "package.json"), JSON.stringify(manifest, null, 2));
  await writeFile(join(outDir, "README.md"), "Run `public-audit-log --help`.\n");
}

if (import.meta.main) {
  const [file = join(ROOT, "public-audit-log.tgz")] = Deno.args;
  await packCli(file);
  console.log(`Written: ${file}. Install it: npm install --global ${file}`);
}
