import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import root from "../../deno.json" with { type: "json" };
import adminConsole from "../../console/deno.json" with { type: "json" };
import edgeFunction from "../../supabase/functions/public-audit-log/deno.json" with {
  type: "json",
};
import streams from "../../supabase/functions/audit-log-streams/deno.json" with { type: "json" };

const IMPORT_MAP = fileURLToPath(new URL("../local/data/offline_import_map.json", import.meta.url));
const OFFLINE: Record<string, string> = {
  "@std/assert": "npm:deno-std@1.4.0/assert/mod.js",
  "@std/testing/bdd": new URL("../../tests/helpers/bdd_offline.ts", import.meta.url).href,
};

/**
 * Returns the flags of Deno for commands that load the tests. @std comes from JSR, which many company networks
 * block. There, a map leads the same names to packages of the npm registry.
 */
export async function stdFlags(): Promise<string[]> {
  // Sets node_modules to auto. Only Deno's own resolution accepts deno-std, which has no types.
  const flags = ["--node-modules-dir=auto", "--lock=dev.lock"];
  if (await jsrAnswers()) return flags;
  console.log("JSR cannot be reached: taking @std/assert from npm and a stand-in for bdd");
  const pinned = [root, edgeFunction, streams, adminConsole]
    .flatMap(({ imports }) => Object.entries<string>(imports));
  const imports: Record<string, string> = Object.fromEntries(pinned.flatMap(([name, target]) => [
    [name, target],
    [`${name}/`, `${target.replace("npm:", "npm:/")}/`],
  ]));
  await Deno.mkdir(dirname(IMPORT_MAP), { recursive: true });
  // Another run may be reading it.
  const written = await Deno.makeTempFile({ dir: dirname(IMPORT_MAP) });
  await Deno.writeTextFile(written, JSON.stringify({ imports: { ...imports, ...OFFLINE } }));
  await Deno.rename(written, IMPORT_MAP);
  return [...flags, `--import-map=${IMPORT_MAP}`];
}

async function jsrAnswers(): Promise<boolean> {
  const url = "https://jsr.io/@std/assert/meta.json";
  const response = await fetch(url, { signal: AbortSignal.timeout(3_000) }).catch(() => null);
  await response?.body?.cancel();
  return response?.ok === true;
}
