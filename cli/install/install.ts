import process from "node:process";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import root from "../../deno.json" with { type: "json" };
import { type Installation, planInstallation } from "./installation.ts";
import { applyChanges, InstallError } from "./files.ts";

const USAGE = `public-audit-log install PATH [--dry-run]

Installs the service into an existing Supabase project, or upgrades it there.
  PATH        the folder that has the project's folder supabase
  --dry-run   print what would change, and change nothing`;

const PUSH = `Apply the migrations (without --remote before version 3 of the Supabase CLI):

npx supabase db push --remote`;

const EXPOSE =
  `Let the Data API serve the schema: in the dashboard, open Project Settings › Data API \
and add
audit_log to the exposed schemas.`;

const DEPLOY = `Deploy the function:

npx supabase functions deploy public-audit-log --use-api`;

const CREATE =
  `Connect your organizations and people: docs/adopting.md, section 2, has the SQL to copy. If you have
none, create the first organization with an administrator, in the SQL editor:

insert into audit_log.organizations (name) values ('…') returning id;
insert into audit_log.organization_members (organization_id, user_id, role)
values ('<organization id>', '<user id>', 'admin');`;

const READ =
  `Read on in docs/adopting.md of the service's repository, from its second section: your organizations and
people, and entries from your own tables.`;

/** `public-audit-log install`, from a copy of this repository or from the package; the exit code. */
export function install(source: string, args: string[]): number {
  const { path, isDryRun } = readArguments(args);
  if (path === undefined) {
    console.error(USAGE);
    return 2;
  }
  // Where the command was typed: deno task changes into the folder of deno.json.
  const target = resolve(process.env["INIT_CWD"] ?? ".", path);
  try {
    const installation = planInstallation(source, target, { version: root.version });
    if (!isDryRun) applyChanges(target, installation.changes);
    console.log(describeInstallation(installation, isDryRun));
    return 0;
  } catch (error) {
    if (!(error instanceof InstallError)) throw error;
    console.error(error.message);
    return 1;
  }
}

function readArguments(args: string[]): { path?: string | undefined; isDryRun: boolean } {
  try {
    const { positionals, values } = parseArgs({
      args,
      allowPositionals: true,
      options: { "dry-run": { type: "boolean", default: false } },
    });
    const isOne = positionals.length === 1;
    return { path: isOne ? positionals[0] : undefined, isDryRun: values["dry-run"] };
  } catch {
    return { isDryRun: false };
  }
}

/** Says what changed, or would, and what to do next. */
export function describeInstallation(installation: Installation, isDryRun: boolean): string {
  const { version, isFirst, changes, missing, byHand } = installation;
  const verb = isDryRun ? "would " : "";
  const lines = changes.map(({ path, text, added }) =>
    [
      `${verb}${text === null ? "remove" : "write"} ${path}${added ? ", with these lines:" : ""}`,
      ...(added ?? []).map((line) => `  ${line.trim()}`),
    ].join("\n")
  );
  if (changes.length === 0) lines.push(`Version ${version} is installed: nothing to change`);
  else if (isDryRun) lines.push("Nothing was changed, because this is a dry run");
  else lines.push(`The files of version ${version} are installed`);
  if (missing.length > 0) {
    lines.push(
      `Installed earlier and gone, so not installed again: ${missing.join(", ")}. If you did not ` +
        `squash your migrations, restore these files from your history`,
    );
  }
  const steps = [...byHand];
  // After a run that was killed, this one does not know what the person has seen.
  if (isFirst) steps.push(PUSH, EXPOSE, DEPLOY, CREATE, READ);
  else if (changes.length > 0) steps.push(PUSH, DEPLOY);
  if (steps.length > 0) lines.push("", "Next, in that project:");
  steps.forEach((step, index) => lines.push("", `${index + 1}. ${step}`));
  return lines.join("\n");
}
