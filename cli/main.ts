import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import metadata from "../deno.json" with { type: "json" };
import { visible } from "../common/visible.ts";
import { install } from "./install/install.ts";
import {
  type ApiOptions,
  AuditLogError,
  EXIT,
  KEY,
  messageOf,
  refuse,
  secureUrl,
  type Selection,
} from "./client.ts";
import { exportLog } from "./export.ts";
import { exportDays } from "./export_days.ts";
import { codeOf } from "./files.ts";
import { forward } from "./forward.ts";
import { sinkFor } from "./sinks.ts";
import { summaryOf, verify, type VerifyOptions } from "./verify.ts";

const SELECTION_HELP =
  `  --start=DAY --end=DAY  first and last day, YYYY-MM-DD, UTC (default: all days, even future ones)
  --since=TIME --until=TIME  from a moment on, and before one, such as 2026-11-20T08:00:00Z or …+01:00
  --action=ACTION        only entries with this action; repeat it for more actions
  --user-email=ADDRESS   only entries of this person
  --object=TEXT          only entries about this: with exactly this text as a value in their data`;

const ENVIRONMENT =
  `AUDIT_LOG_URL is the API, https://…/functions/v1/public-audit-log. AUDIT_LOG_API_KEY is the key, or
AUDIT_LOG_API_KEY_FILE a file that holds it. An administrator of your organization can create one.`;

const USAGE = `Reads the audit log of an organization. COMMAND --help has options and examples.

  public-audit-log export   writes it to a file, every entry once
  public-audit-log follow   prints entries as they are written
  public-audit-log forward  delivers them to a collector or a bucket
  public-audit-log verify   checks exported entries against the seals
  public-audit-log install  installs the service into a Supabase project
  public-audit-log --version

Exit codes: 0 done; 1 gave up, run the same command again; 2 wrong arguments or refused, correct what it says;
3 the key is refused, set an active one; 4 verify found that something differs, or nothing to compare.`;

const USAGES: Record<string, string> = {
  export: `Writes the audit log to a file, every entry once.

  public-audit-log export --out=audit.ndjson
  public-audit-log export --out=audit.csv --start=2026-11-01 --action=feedback_given --follow
  public-audit-log export --days=days --start=2026-01-01

  --out=FILE             CSV if it ends in .csv, else NDJSON; FILE.progress beside it keeps the cursor
  --days=FOLDER          instead: each sealed day in a file of its own, YYYY-MM-DD.ndjson, for verify. Takes
                         --start and --end only, and reads about 60 days a minute
${SELECTION_HELP}
  --raw-csv              for .csv: values as they are. Without it, a ' is put before what a spreadsheet would run
                         as a formula: it begins with = + - @, a tab or a line break. NDJSON is always exact
  --follow               keep running, and add entries as they are written
  --verify               at the end, check the file against the seals, as verify does

After an interruption, or for new and late entries, run the same command again: it continues where
FILE ends.`,

  follow: `Prints entries as they are written, one JSON object a line, until it is ended.

  public-audit-log follow --start=2026-11-20 | jq .user_email

${SELECTION_HELP}
  --state=FILE           continue from the place in FILE, and save the place there after each page
  --once                 end when caught up`,

  forward: `Delivers entries to another system, each at least once.

  public-audit-log forward --state=audit.state --to=https://collector.example/audit
  public-audit-log forward --state=audit.state --to=https://logs.example/v2 --headers=headers --body=array
  public-audit-log forward --state=audit.state --to=splunk:https://splunk.example:8088
  public-audit-log forward --state=audit.state --to=elasticsearch:https://elastic.example/audit-log
  public-audit-log forward --state=audit.state --to=datadog:https://http-intake.logs.datadoghq.eu
  public-audit-log forward --state=audit.state --to=otlp:https://collector.example/v1/logs
  public-audit-log forward --state=audit.state --to=slack:https://hooks.slack.com/services --action=api_key_revoked
  public-audit-log forward --state=audit.state --to=s3://bucket/folder --once

  --to=SINK              where to, as above
  --state=FILE           continue from the place in FILE, and save it there when a page is confirmed
${SELECTION_HELP}
  --once                 end when caught up, for a scheduled job
  --headers=FILE         headers to send, NAME: VALUE on each line: for otlp, and for https instead of a signature
  --body=array           for https: JSON arrays instead of NDJSON
  --refused=FILE         for elasticsearch and otlp: entries that they refuse go to FILE, with the reason, and the
                         rest is delivered

Set FORWARD_TOKEN, or FORWARD_TOKEN_FILE to the name of a file that holds it. For https, it is the signing secret
(whsec_…, Standard Webhooks); for splunk, the token; for datadog, the API key; for elasticsearch, the API key, or the
whole value of Authorization; for otlp, one header, NAME: VALUE; for slack, what follows services/ in the webhook's
address. For s3, set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and AWS_ENDPOINT_URL_S3 for other stores.
After a kill, the last page may be delivered again: drop repeats by id and created_at.`,

  verify: `Checks exported entries of an audit log against its seals.

  public-audit-log verify audit-log.ndjson
  public-audit-log verify days --kept=312:70221de3… --seals=seals.json
  public-audit-log verify bucket

  FILE …                 files with one entry a line (NDJSON, or .gz of it), in any order, also repeated: what export,
                         the console, a bucket or a webhook has. A folder means its .ndjson files, and those in its
                         folder seals. Seals that arrived with the entries prove them: then no seal need be kept
  --start=DAY --end=DAY  each sealed day between them must be here (default: the first and the last day
                         that is here)
  --kept=N:SEAL          the sequence and the text of a seal that you kept. Shows whether anything up to that
                         seal was rewritten. Without it, this shows only that the log agrees with itself
  --seals=FILE           a saved answer of …/seals, given once for each page. Without it, the API is asked; without
                         AUDIT_LOG_URL, the seals that arrived are the chain
  --json                 for a program: print one JSON object, whose findings have codes (see the page Verifying an export)`,

  install:
    `Installs the service into an existing Supabase project. It changes nothing if that has other files in
the places of ours.

  public-audit-log install FOLDER

  FOLDER                 where the project has its folder supabase`,
};

const TEXT = { type: "string" } as const;
const FLAG = { type: "boolean" } as const;
const DAYS = { start: TEXT, end: TEXT };
const SELECTION = {
  ...DAYS,
  since: TEXT,
  until: TEXT,
  action: { ...TEXT, multiple: true },
  "user-email": TEXT,
  object: TEXT,
} as const;
const SEALED = { ...DAYS, kept: TEXT, seals: { ...TEXT, multiple: true }, json: FLAG } as const;

process.exitCode = await main(process.argv[2] ?? "", process.argv.slice(3));

async function main(command: string, args: string[]): Promise<number> {
  // A reader such as head may end before it has read everything: that is no failure.
  process.stdout.on("error", (error) => {
    if (codeOf(error) === "EPIPE") process.exit(0);
    say(`The output cannot be written: ${error.message}`);
    process.exit(EXIT.gaveUp);
  });
  try {
    if (command === "--version") return print(metadata.version);
    if ([command, ...args].includes("--help")) return print(usageOf(command));
    return await run(command, args);
  } catch (error) {
    say(messageOf(error));
    return error instanceof AuditLogError ? error.exitCode : EXIT.refused;
  }
}

function usageOf(command: string): string {
  const usage = USAGES[command] ?? USAGE;
  return command === "install" ? usage : `${usage}\n\n${ENVIRONMENT}`;
}

async function run(command: string, args: string[]): Promise<number> {
  const parse = <T extends ParseArgsOptionsConfig>(options: T) =>
    parseArgs({ args, options }).values;
  switch (command) {
    case "export": {
      const files = { out: TEXT, days: TEXT, follow: FLAG, verify: FLAG, "raw-csv": FLAG };
      const given = parse({ ...SELECTION, ...files });
      const { out, days, follow, verify: isVerified, "raw-csv": rawCsv = false, ...selection } =
        given;
      const { start, end, ...filter } = selection;
      if (days) {
        const other = Object.keys(given).find((name) => !["days", "start", "end"].includes(name));
        if (other) refuse(`--${other} cannot be given with --days. Try --help.`);
        return print(await exportDays(days, { ...api(), start, end }));
      }
      if (!out) refuse("--out: name the file to write to. Try --help.");
      if (isVerified && (Object.keys(filter).length > 0 || follow || !out.endsWith(".ndjson"))) {
        refuse(
          "--verify needs a whole log in a .ndjson file, without filters and --follow: a seal is of a whole day. " +
            "For some days, take --days.",
        );
      }
      print(await exportLog(out, { ...api(follow), ...selectionFrom(selection), rawCsv }));
      if (!isVerified) return 0;
      // All sealed days must be in a whole log.
      const whole = { start: start ?? "0001-01-01", end: end ?? "9999-12-31" };
      return await printVerdict({ files: [out], ...whole, seals: api() });
    }
    case "follow": {
      const { once, state, ...selection } = parse({ ...SELECTION, state: TEXT, once: FLAG });
      await forward(printed, { ...api(!once), ...selectionFrom(selection), state });
      return 0;
    }
    case "forward": {
      const place = { to: TEXT, state: TEXT, once: FLAG };
      const given = parse({ ...SELECTION, ...place, headers: TEXT, body: TEXT, refused: TEXT });
      const { to = "", state, once, headers, body, refused, ...selection } = given;
      if (!state) refuse("--state: name the file for the cursor. Try --help.");
      const sink = sinkFor(to, secret("FORWARD_TOKEN"), { headers, body, refused });
      const options = { ...api(!once), ...selectionFrom(selection), state, to };
      const delivered = `${await forward(sink, options)} entries were delivered to ${to}`;
      return print(refused ? `${delivered}, or are in ${refused}` : delivered);
    }
    case "verify": {
      const { values, positionals } = parseArgs({ args, options: SEALED, allowPositionals: true });
      const { json, ...given } = values;
      const hasApi = Boolean(process.env["AUDIT_LOG_URL"]);
      return await printVerdict(
        { ...given, files: positionals, seals: given.seals ?? (hasApi ? api() : undefined) },
        json,
      );
    }
    case "install": {
      const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
      const [folder, ...rest] = positionals;
      if (folder === undefined || rest.length > 0) refuse("install takes one folder. Try --help.");
      const source = fileURLToPath(new URL("..", import.meta.url));
      return print(install(source, folder));
    }
    default:
      refuse(`${command ? `No such command: ${command}\n\n` : ""}${usageOf("")}`);
  }
}

async function printVerdict(options: VerifyOptions, isForProgram = false): Promise<number> {
  const verification = await verify(options);
  const findings = [...verification.problems, ...verification.notes].map(({ text }) => text);
  const lines = [...findings, summaryOf(verification, options.kept)];
  print(isForProgram ? JSON.stringify(verification) : lines.join("\n"));
  return verification.right ? 0 : EXIT.differs;
}

type Given = ReturnType<typeof parseArgs<{ options: typeof SELECTION }>>["values"];

function selectionFrom({ action, "user-email": user_email, ...given }: Given): Selection {
  return { ...given, action: action?.join(","), user_email };
}

function api(goesOn = false): ApiOptions {
  const text = process.env["AUDIT_LOG_URL"] ?? "";
  if (text === "") refuse("AUDIT_LOG_URL is not set: it is the URL of the API. Try --help.");
  const { pathname, search } = secureUrl("AUDIT_LOG_URL", text);
  if (!/\/public-audit-log\/?$/.test(pathname) || search !== "") {
    refuse(
      "AUDIT_LOG_URL must end in /public-audit-log, as https://…/functions/v1/public-audit-log does. Say what " +
        "to read with options: try --help.",
    );
  }
  const key = secret("AUDIT_LOG_API_KEY");
  if (!KEY.test(key)) refuse("AUDIT_LOG_API_KEY must be an API key, pck_… Try --help.");
  const keyFile = process.env["AUDIT_LOG_API_KEY_FILE"];
  return { url: text, key, keyFile, say, goesOn };
}

/** Reads a secret from a variable, or from the file that NAME_FILE names. Other users can read arguments. */
function secret(name: string): string {
  const file = process.env[`${name}_FILE`];
  if (file && !existsSync(file)) refuse(`${name}_FILE: there is no file ${file}.`);
  const value = file ? readFileSync(file, "utf8").trim() : process.env[name] ?? "";
  // Fetch would quote it in its error.
  if (/[^ -~]/.test(value)) refuse(`${name} must be one line of ASCII characters.`);
  return value;
}

function print(text: string): number {
  console.log(text);
  return 0;
}

/** Prints lines, on a terminal as they can be seen. Resolves when the reader has taken them, however slow it is. */
function printed({ lines: given }: { lines: string[] }): Promise<void> {
  const lines = process.stdout.isTTY ? given.map(visible) : given;
  return new Promise((resolve, reject) =>
    process.stdout.write(`${lines.join("\n")}\n`, (error) => error ? reject(error) : resolve())
  );
}

/** Prints a message without keys: an answer that it quotes may repeat one. */
function say(text: string): void {
  console.error(text.replace(/pck_\w+/g, "pck_…"));
}
