import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import metadata from "../deno.json" with { type: "json" };
import { visible } from "../supabase/functions/_shared/visible.ts";
import { install } from "./install/install.ts";
import {
  type ApiOptions,
  AuditLogError,
  EXIT,
  KEY,
  messageOf,
  refuse,
  secureUrl,
} from "./client.ts";
import { exportLog } from "./export.ts";
import { exportDays } from "./export_days.ts";
import { codeOf } from "./files.ts";
import { forward, poster } from "./forward.ts";
import { textOf, verify } from "./verify.ts";

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
  public-audit-log forward  posts them to a collector
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
                         --start and --end only
${SELECTION_HELP}
  --raw-csv              for .csv: values as they are. Without it, a ' is put before what a spreadsheet would run
                         as a formula: it begins with = + - @, a tab or a line break. NDJSON is always exact
  --follow               keep running, and add entries as they are written

After an interruption, or for new and late entries, run the same command again: it continues where
FILE ends.`,

  follow: `Prints entries as they are written, one JSON object a line, until it is ended.

  public-audit-log follow --start=2026-11-20 | jq .user_email

${SELECTION_HELP}
  --state=FILE           continue from the place in FILE, and save the place there after each page
  --once                 end when caught up`,

  forward: `Posts entries to a collector as NDJSON, each at least once.

  public-audit-log forward --state=audit.state --to=http://127.0.0.1:8080/audit-log
  public-audit-log forward --state=audit.state --to=https://collector.example/audit --headers=headers --once

  --to=URL               where to: https, or http on this machine
  --state=FILE           continue from the place in FILE, and save it there when a page is confirmed with a 2xx
${SELECTION_HELP}
  --headers=FILE         headers to send, NAME: VALUE on each line, such as a token
  --once                 end when caught up, for a scheduled job

A page has up to 1,000 entries and 7.5 MB. After a kill, the last page may come again: drop repeats by id and
created_at. After a 400, 413 or 422, the page is halved, down to the entries that are rejected: they are named and
left out, unless ten in a row and then the last of the page are. Then the command ends with code 2 and the place is
before them. So it does after any other answer but a 2xx, or a failure that may pass; nothing is skipped.`,

  verify: `Checks exported entries of an audit log against its seals.

  public-audit-log verify audit-log.ndjson
  public-audit-log verify days --saved=312:70221de3… --seals=seals.json
  public-audit-log verify bucket

  FILE …                 files with one entry a line (NDJSON, or .gz of it), in any order, also repeated: what export,
                         the console, a bucket or a webhook has. A folder means its .ndjson files, and those in its
                         folder seals. Seals that arrived with the entries prove them if the API is asked
  --start=DAY --end=DAY  each sealed day between them must be here (default: the first and the last day
                         that is here)
  --saved=N:SEAL         the sequence and the text of a seal that you saved. Shows whether anything up to that
                         seal was rewritten. Without it, this shows only that entries and seals agree
  --seals=FILE           a saved answer of …/seals, given once for each page. Without it, the API is asked; without
                         AUDIT_LOG_URL, the seals that arrived are the chain
  --json                 for a program: print one JSON object, whose findings have codes (see the page Verifying an export)`,

  install:
    `Installs the service into an existing Supabase project. It changes nothing if that has other files in
the places of ours.

  public-audit-log install [--without-streams] FOLDER

  FOLDER                 where the project has its folder supabase
  --without-streams      leaves out what sends the log to destinations; without this, a later run adds it`,
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
const SEALED = { ...DAYS, saved: TEXT, seals: { ...TEXT, multiple: true }, json: FLAG } as const;

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
      const files = { out: TEXT, days: TEXT, follow: FLAG, "raw-csv": FLAG };
      const given = parse({ ...SELECTION, ...files });
      const { out, days, follow, "raw-csv": rawCsv = false, ...chosen } = given;
      if (days) {
        const other = Object.keys(given).find((name) => !["days", "start", "end"].includes(name));
        if (other) refuse(`--${other} cannot be given with --days. Try --help.`);
        const { start, end } = chosen;
        return print(await exportDays(days, { ...api(), start, end }));
      }
      if (!out) refuse("--out: name the file to write to. Try --help.");
      const selection = selectionOf(chosen);
      const isSearching = chosen.object !== undefined;
      return print(await exportLog(out, { ...api(follow), selection, isSearching, rawCsv }));
    }
    case "follow": {
      const { once, state, ...chosen } = parse({ ...SELECTION, state: TEXT, once: FLAG });
      await forward(printed, { ...api(!once), selection: selectionOf(chosen), state });
      return 0;
    }
    case "forward": {
      const place = { to: TEXT, state: TEXT, once: FLAG, headers: TEXT };
      const { to = "", state, once, headers, ...chosen } = parse({ ...SELECTION, ...place });
      if (!state) refuse("--state: name the file for the cursor. Try --help.");
      const options = { ...api(!once), selection: selectionOf(chosen), state, to };
      const entries = await forward(poster(to, headers), options);
      return print(`${entries} entries were delivered to ${to}`);
    }
    case "verify": {
      const { values, positionals } = parseArgs({ args, options: SEALED, allowPositionals: true });
      const { json, ...given } = values;
      const hasApi = Boolean(process.env["AUDIT_LOG_URL"]);
      const seals = given.seals ?? (hasApi ? api() : undefined);
      const verification = await verify({ ...given, files: positionals, seals });
      print(json ? JSON.stringify(verification) : textOf(verification, given.saved));
      return verification.right ? 0 : EXIT.differs;
    }
    case "install": {
      const options = { "without-streams": FLAG };
      const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
      const [folder, ...rest] = positionals;
      if (folder === undefined || rest.length > 0) refuse("install takes one folder. Try --help.");
      const source = fileURLToPath(new URL("..", import.meta.url));
      return print(install(source, folder, { withoutStreams: values["without-streams"] }));
    }
    default:
      refuse(`${command ? `No such command: ${command}\n\n` : ""}${usageOf("")}`);
  }
}

/** Each option that selects is the parameter of the API with its name. */
function selectionOf(chosen: Record<string, string | string[]>): Record<string, string> {
  const pairs = Object.entries(chosen).map(([name, value]) => [name.replace("-", "_"), `${value}`]);
  return Object.fromEntries(pairs);
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
  // Not from an argument: other users can read those.
  const keyFile = process.env["AUDIT_LOG_API_KEY_FILE"];
  if (keyFile && !existsSync(keyFile)) {
    refuse(`AUDIT_LOG_API_KEY_FILE: there is no file ${keyFile}.`);
  }
  const key = keyFile
    ? readFileSync(keyFile, "utf8").trim()
    : process.env["AUDIT_LOG_API_KEY"] ?? "";
  if (!KEY.test(key)) refuse("AUDIT_LOG_API_KEY must be an API key, pck_… Try --help.");
  return { url: text, key, keyFile, say, goesOn };
}

function print(text: string): number {
  console.log(text);
  return 0;
}

/** Prints lines, on a terminal as they can be seen. Resolves when the reader has taken them, however slow it is. */
function printed(given: string[]): Promise<void> {
  const lines = process.stdout.isTTY ? given.map(visible) : given;
  return new Promise((resolve, reject) =>
    process.stdout.write(`${lines.join("\n")}\n`, (error) => error ? reject(error) : resolve())
  );
}

/** Prints a message without keys: an answer that it quotes may repeat one. */
function say(text: string): void {
  console.error(text.replace(/pck_\w+/g, "pck_…"));
}
