import process from "node:process";
import { resolve } from "node:path";
import root from "../../deno.json" with { type: "json" };
import { type Installation, planInstallation } from "./plan_installation.ts";
import { applyChanges } from "./files.ts";
import { SCHEMAS_BY_HAND, SCHEMAS_TOO } from "./find_schemas.ts";
import { CONFIG_BY_HAND } from "./patch_config.ts";

const COMMANDS = `npx supabase db push --remote
npx supabase functions deploy public-audit-log --use-api`;
const NEXT = `Next, in that project (without --remote before version 3 of the Supabase CLI):

${COMMANDS}

After the first installation, continue in section 1 of docs/adopting.md, in the service's repository: expose the
schema, schedule the nightly upkeep, and connect your organizations and people.`;

/** Installs from a copy of this repository, or from the package, into a project. Returns what to print. */
export function install(source: string, path: string, isDryRun: boolean): string {
  // Where the command was typed: deno task changes into the folder of deno.json.
  const target = resolve(process.env["INIT_CWD"] ?? ".", path);
  const installation = planInstallation(source, target);
  if (!isDryRun) applyChanges(target, installation.changes);
  return describeInstallation(installation, isDryRun);
}

export function describeInstallation(installation: Installation, isDryRun: boolean): string {
  const { changes, missing, isConfigByHand, schemas, isSchemasByHand } = installation;
  const verb = isDryRun ? "would " : "";
  const lines = changes.map(({ path, text }) =>
    `${verb}${text === null ? "remove" : "write"} ${path}`
  );
  if (changes.length === 0) lines.push(`Version ${root.version} is installed: nothing to change`);
  else if (isDryRun) lines.push("Nothing was changed, because this is a dry run");
  else lines.push(`The files of version ${root.version} are installed`);
  if (missing.length > 0) {
    lines.push(
      `These migrations were installed earlier, and their files are gone: ${missing.join(", ")}. ` +
        `They are not installed again. If you did not squash them, restore the files from your history`,
    );
  }
  if (isConfigByHand) lines.push("", CONFIG_BY_HAND);
  if (schemas !== null) lines.push("", isSchemasByHand ? SCHEMAS_BY_HAND : SCHEMAS_TOO);
  lines.push(
    "",
    changes.some(({ path }) => path.startsWith("supabase/migrations/"))
      ? NEXT
      : nothingToPush(changes),
  );
  return lines.join("\n");
}

/** Says what to do where no migration is new. An earlier run may have been killed before it said what to do. */
function nothingToPush(changes: Installation["changes"]): string {
  const rest = changes.length > 0 ? "push: deploy the function" : "push or deploy";
  return `No migration is new. If you have pushed the last ones, there is nothing to ${rest}. If not:

${COMMANDS}`;
}
