import { cp, glob, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isolatedDeclarationSync } from "npm:rolldown@1.2.19/experimental";
import { build } from "npm:vite@8.3.8";
import metadata from "../deno.json" with { type: "json" };

// Builds the package for npm: the command, the library with its types, and the files that install copies.

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const [outDir = join(ROOT, "cli/dist")] = Deno.args;
const COPIED = [
  "LICENSE",
  "supabase/migrations/*.sql",
  "supabase/schemas/*.sql",
  "supabase/functions/public-audit-log/*",
];

await rm(outDir, { recursive: true, force: true });
await build({
  root: join(ROOT, "cli"),
  logLevel: "warn",
  // One package without dependencies.
  ssr: { noExternal: true },
  build: {
    ssr: true,
    target: "node20",
    outDir: join(outDir, "dist"),
    rolldownOptions: {
      input: { main: join(ROOT, "cli/main.ts"), follow: join(ROOT, "cli/follow.ts") },
      output: {
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        banner: ({ name }) => name === "main" ? "#!/usr/bin/env node" : "",
      },
    },
  },
});
// The types of follow.ts name some of client.ts.
for (const name of ["follow", "client"]) {
  const code = await readFile(join(ROOT, `cli/${name}.ts`), "utf8");
  const types = isolatedDeclarationSync(`${name}.ts`, code, {});
  await writeFile(join(outDir, `dist/${name}.d.ts`), types.code.replaceAll('.ts"', '.js"'));
}
for await (const path of glob(COPIED, { cwd: ROOT })) {
  await mkdir(dirname(join(outDir, path)), { recursive: true });
  await cp(join(ROOT, path), join(outDir, path));
}
await writeFile(join(outDir, "README.md"), "Run `npx public-audit-log --help`.\n");
await writeFile(
  join(outDir, "package.json"),
  JSON.stringify(
    {
      name: "public-audit-log",
      version: metadata.version,
      description: "Reads, forwards and verifies the audit log of an organization",
      license: metadata.license,
      type: "module",
      engines: { node: ">=20.4" },
      bin: "dist/main.js",
      exports: { types: "./dist/follow.d.ts", default: "./dist/follow.js" },
    },
    null,
    2,
  ),
);
console.log(
  `Written: ${outDir}. Install it: npm install --global "$(npm pack --silent ${outDir})"`,
);
