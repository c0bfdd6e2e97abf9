import process from "node:process";
import { resolve } from "node:path";
import root from "../../deno.json" with { type: "json" };
import { type Installation, planInstallation } from "./plan_installation.ts";
import { applyChanges } from "./files.ts";
import { CONFIG_BY_HAND } from "./patch_config.ts";

const PUSH = `Apply the migrations (without --remote before version 3 of the Supabase CLI):

npx supabase db push --remote`;

const DEPLOY = `Deploy the function:

npx supabase functions deploy public-audit-log --use-api`;

const CREATE = `Connect your organizations and people: section 2 of that page has the SQL to copy.
If you have none, create the first organization with an administrator, in the SQL editor:

insert into audit_log.organizations (name) values ('…') returning id;
insert into audit_log.organization_members (organization_id, user_id, role)
values ('<organization id>', '<user id>', 'admin');`;

const FIRST_STEPS = [
  PUSH,
  "Add audit_log to the exposed schemas: in the dashboard, under Project Settings › Data API.",
  DEPLOY,
  "Schedule the nightly upkeep, without which no day is sealed, and the alert:\n" +
  "docs/adopting.md of the service's repository, end of section 1.",
  CREATE,
  "Log what happens in your own tables: section 3 of that page.",
];

/** Installs from a copy of this repository, or from the package, into a project. Returns what to print. */
export function install(source: string, path: string, isDryRun: boolean): string {
  // Where the command was typed: deno task changes into the folder of deno.json.
  const target = resolve(process.env["INIT_CWD"] ?? ".", path);
  const installation = planInstallation(source, target, { version: root.version });
  if (!isDryRun) applyChanges(target, installation.changes);
  return describeInstallation(installation, isDryRun);
}

/** Says what changed, or would change, and what to do next. */
function describeInstallation(installation: Installation, isDryRun: boolean): string {
  const { version, isFirst, changes, missing, isConfigByHand } = installation;
  const verb = isDryRun ? "would " : "";
  const lines = changes.map(({ path, text }) =>
    `${verb}${text === null ? "remove" : "write"} ${path}`
  );
  if (changes.length === 0) lines.push(`Version ${version} is installed: nothing to change`);
  else if (isDryRun) lines.push("Nothing was changed, because this is a dry run");
  else lines.push(`The files of version ${version} are installed`);
  if (missing.length > 0) {
    lines.push(
      `These migrations were installed earlier, and their files are gone: ${missing.join(", ")}. ` +
        `They are not installed again. If you did not squash them, restore the files from your history`,
    );
  }
  const steps = isConfigByHand ? [CONFIG_BY_HAND] : [];
  // After a run that was killed, this one does not know what the person has seen.
  if (isFirst) steps.push(...FIRST_STEPS);
  else if (changes.length > 0) steps.push(PUSH, DEPLOY);
  if (steps.length > 0) lines.push("", "Next, in that project:");
  steps.forEach((step, index) => lines.push("", `${index + 1}. ${step}`));
  return lines.join("\n");
}
