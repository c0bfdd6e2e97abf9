import { createHash } from "node:crypto";
import { glob } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import root from "../deno.json" with { type: "json" };

// Lists this version's migrations with their checksums, for `sha256sum --check` in the root.

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const LIST = `docs/releases/${root.version}.migrations.sha256`;

const paths = await Array.fromAsync(glob("supabase/migrations/*.sql", { cwd: ROOT }));
let lines = "";
for (const path of paths.sort()) {
  const hash = createHash("sha256").update(await Deno.readFile(join(ROOT, path)));
  lines += `${hash.digest("hex")}  ${path}\n`;
}
// Never overwrites a list: others have applied its migrations.
await Deno.writeTextFile(join(ROOT, LIST), lines, { createNew: true });
console.log(`Written: ${LIST}`);
