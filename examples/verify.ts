// Checks exported days of an audit log against its seals, and the seals against one that was kept.
//
// Everything here can be done by hand: docs/verifying.md.

import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const USAGE = `Checks exported days of an audit log against its seals.

  deno run --allow-net=HOST --allow-env=AUDIT_LOG_API_KEY --allow-read=FOLDER \\
    examples/verify.ts --folder=FOLDER --url=URL --kept=N:SEAL

FOLDER has the days as YYYY-MM-DD.ndjson: pages of Accept: application/x-ndjson, one after another.
The API key is read from the environment variable AUDIT_LOG_API_KEY.

  --folder=FOLDER  the exported days
  --url=URL        fetch the seals from the API: https://…/functions/v1/public-audit-log
  --seals=FILE     or read them from saved answers of …/seals; once for each page, from offset 0
  --kept=N:SEAL    a seal that you have kept, and its sequence: what came before cannot be rewritten
                   unnoticed. Without it, this shows only that the log agrees with itself
  --help           this text

Prints a line for each problem, then what to keep. Exit codes: 0 all is as it was sealed; 1 something
differs; 2 wrong arguments, or files that cannot be read; 3 the API did not give the seals.`;

const DIFFERS = 1;
const WRONG_ARGUMENTS = 2;
const NO_SEALS = 3;

const BLOCK = 1000;
const NO_SEAL = "0".repeat(64);
const LONGEST_WAIT_S = 120;
const LINE_BREAK = 0x0a;

/** Why the program ends early; the message says what to do. */
class Stop extends Error {
  constructor(readonly exitCode: number, message: string) {
    super(message);
  }
}

/** As in docs/openapi.d.ts; here again, so that this file can be copied alone. */
interface Seal {
  format: number;
  sequence: number;
  day: string;
  entries: number;
  added: number;
  removed: number;
  sha256: string;
  sealed_at: string;
  previous: string;
  seal: string;
}

interface SealsPage {
  total: number;
  altered: string[];
  items: Seal[];
}

type Options = ReturnType<typeof readOptions>;

/** The whole chain of an organization, and the days that the service itself found altered. */
interface Chain {
  seals: Seal[];
  altered: string[];
}

/** What was found: problems, and what is no problem but good to know. */
interface Findings {
  problems: string[];
  notes: string[];
}

async function main(): Promise<number> {
  if (Deno.args.includes("--help")) {
    console.log(USAGE);
    return 0;
  }
  try {
    const options = readOptions();
    const chain = options.url ? await fetchChain(options.url) : readChain(options.files);
    const found: Findings = { problems: [], notes: [] };
    checkChain(chain.seals, found);
    if (options.kept) checkKept(chain.seals, options.kept, found);
    checkAltered(chain, found);
    await checkFolder(options.folder, chain.seals, found);
    for (const line of [...found.problems, ...found.notes]) console.log(line);
    console.log(summary(chain.seals, options, found.problems.length));
    return found.problems.length > 0 ? DIFFERS : 0;
  } catch (error) {
    const isExpected = error instanceof Stop;
    console.error(isExpected ? error.message : `${error}. Try --help.`);
    return isExpected ? error.exitCode : WRONG_ARGUMENTS;
  }
}

function readOptions() {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      folder: { type: "string" },
      url: { type: "string" },
      seals: { type: "string", multiple: true },
      kept: { type: "string" },
    },
  });
  const { folder, url, seals = [], kept } = values;
  if (!folder) throw new Stop(WRONG_ARGUMENTS, "--folder is missing. Try --help.");
  if (!url === (seals.length === 0)) {
    throw new Stop(WRONG_ARGUMENTS, "Give --url or --seals, and not both. Try --help.");
  }
  const address = URL.parse(url ?? "");
  const isLocal = ["127.0.0.1", "[::1]", "localhost"].includes(address?.hostname ?? "");
  if (url && address?.protocol !== "https:" && !isLocal) {
    throw new Stop(
      WRONG_ARGUMENTS,
      "--url: an https address, or others could read the key. Try --help.",
    );
  }
  const [, sequence, seal] = kept?.match(/^(\d+):([0-9a-f]{64})$/) ?? [];
  if (kept !== undefined && !seal) {
    const right = "must be a sequence, a colon and a seal of 64 digits";
    throw new Stop(WRONG_ARGUMENTS, `--kept=${kept}: ${right}`);
  }
  return { folder, url, files: seals, kept: seal && { sequence: Number(sequence), seal } };
}

function readChain(files: string[]): Chain {
  const pages = files.map((file) => JSON.parse(Deno.readTextFileSync(file)) as SealsPage);
  return {
    seals: pages.flatMap(({ items }) => items),
    altered: Array.from(new Set(pages.flatMap(({ altered }) => altered))),
  };
}

async function fetchChain(url: string): Promise<Chain> {
  const seals: Seal[] = [];
  for (;;) {
    const query = `start=0001-01-01&end=9999-12-31&limit=1000&offset=${seals.length}`;
    const { items, altered, total } = await fetchPage(`${url}/seals?${query}`);
    seals.push(...items);
    if (items.length === 0 || seals.length >= total) return { seals, altered };
  }
}

async function fetchPage(address: string): Promise<SealsPage> {
  const headers = { Authorization: `Bearer ${Deno.env.get("AUDIT_LOG_API_KEY") ?? ""}` };
  while (true) {
    const response = await fetch(address, { headers, redirect: "manual" })
      .catch((error) => {
        throw new Stop(NO_SEALS, `The API does not answer: ${error.message}`);
      });
    const wait = Number(response.headers.get("Retry-After"));
    if (response.status === 429 && wait > 0 && wait <= LONGEST_WAIT_S) {
      await response.body?.cancel();
      await sleep(wait * 1000);
      continue;
    }
    if (response.status === 200) return await response.json() as SealsPage;
    throw new Stop(NO_SEALS, `The API refuses the seals: ${await response.text()}`);
  }
}

/** Each seal must be the hash of its own fields, and of the seal before. */
function checkChain(seals: Seal[], { problems }: Findings): void {
  let before: Seal | undefined;
  for (const seal of seals) {
    if (seal.sequence !== (before?.sequence ?? 0) + 1) {
      problems.push(`${nameOf(seal)} follows ${before?.sequence ?? "nothing"}: seals are missing`);
    }
    if (seal.previous !== (before?.seal ?? NO_SEAL)) {
      problems.push(`${nameOf(seal)} does not continue the seal before: the chain was rewritten`);
    }
    if (seal.seal !== sealOf(seal)) {
      problems.push(`${nameOf(seal)} is not the hash of what it says: it was changed`);
    }
    before = seal;
  }
}

function checkKept(
  seals: Seal[],
  kept: { sequence: number; seal: string },
  { problems }: Findings,
): void {
  const found = seals.find(({ sequence }) => sequence === kept.sequence);
  const last = seals.at(-1);
  if (!found) {
    const from = last ? ` of ${last.sealed_at} or soon after` : "";
    problems.push(
      `The seal ${kept.sequence} that you kept is not there, the last is ${
        last?.sequence ?? "none"
      }: ` +
        `the log was restored from a backup${from}`,
    );
  } else if (found.seal !== kept.seal) {
    problems.push(
      `${nameOf(found)} is not the one that you kept: the log was rewritten, or restored from a ` +
        "backup older than that, and nothing since is proven",
    );
  }
}

function checkAltered({ seals, altered }: Chain, { problems }: Findings): void {
  for (const day of altered) {
    const last = seals.findLast((seal) => seal.day === day);
    problems.push(
      `${day} is altered, says the service: entries were changed silently since ` +
        `${last?.sealed_at ?? "it was sealed"}`,
    );
  }
}

async function checkFolder(folder: string, seals: Seal[], found: Findings): Promise<void> {
  const days = Array.from(Deno.readDirSync(folder), ({ name }) => name.match(DAY_FILE)?.[1] ?? "")
    .filter(Boolean).sort();
  if (days.length === 0) {
    throw new Stop(WRONG_ARGUMENTS, `${folder} has no file like 2026-11-20.ndjson`);
  }
  for (const day of days) {
    const file = await hashOf(`${folder}/${day}.ndjson`);
    checkDay(day, file, seals.filter((seal) => seal.day === day), found);
  }
  const missing = new Set(seals.map(({ day }) => day)).difference(new Set(days)).size;
  if (missing > 0) found.notes.push(`Sealed days that have no file here: ${missing}`);
}

const DAY_FILE = /^(\d{4}-\d\d-\d\d)\.ndjson$/;

/** Compares a file with the seals of its day. */
function checkDay(
  day: string,
  file: { sha256: string; entries: number },
  seals: Seal[],
  { problems, notes }: Findings,
): void {
  const last = seals.at(-1);
  if (!last) {
    if (file.entries > 0) notes.push(`${day} is not sealed yet: nothing is proven of it`);
    return;
  }
  if (file.sha256 === last.sha256) return;
  const same = seals.findLast(({ sha256 }) => sha256 === file.sha256);
  if (!same) {
    problems.push(
      `${day} differs from seal ${last.sequence}: ${last.entries} entries were sealed, the file has ` +
        `${file.entries}; changed since ${last.sealed_at}, or not exported whole`,
    );
    return;
  }
  const later = seals.slice(seals.indexOf(same) + 1);
  const sum = (name: "added" | "removed") => later.reduce((sum, each) => sum + each[name], 0);
  notes.push(
    `${day} is as it was sealed at ${same.sealed_at}; since then ${sum("added")} entries were ` +
      `added and ${sum("removed")} removed, and that was declared`,
  );
}

/** The hash of a day's file: of the list of the hashes of each 1000 lines. */
async function hashOf(path: string): Promise<{ sha256: string; entries: number }> {
  const list = createHash("sha256");
  let block = createHash("sha256");
  let entries = 0;
  // A last line without its line break.
  let isLineOpen = false;
  using file = await Deno.open(path);
  for await (const chunk of file.readable) {
    let start = 0;
    for (let i = chunk.indexOf(LINE_BREAK); i >= 0; i = chunk.indexOf(LINE_BREAK, i + 1)) {
      if (++entries % BLOCK > 0) continue;
      list.update(`${block.update(chunk.subarray(start, i + 1)).digest("hex")}\n`);
      block = createHash("sha256");
      start = i + 1;
    }
    block.update(chunk.subarray(start));
    isLineOpen = chunk.at(-1) !== LINE_BREAK;
  }
  if (isLineOpen) entries++;
  if (isLineOpen || entries % BLOCK > 0) list.update(`${block.digest("hex")}\n`);
  return { sha256: list.digest("hex"), entries };
}

function sealOf(seal: Seal): string {
  const { format, previous, sequence, day, entries, added, removed, sha256, sealed_at } = seal;
  const line = [format, previous, sequence, day, entries, added, removed, sha256, sealed_at].join(
    " ",
  );
  return createHash("sha256").update(line).digest("hex");
}

function nameOf({ sequence, day, sealed_at }: Seal): string {
  return `Seal ${sequence} of ${day} (made ${sealed_at})`;
}

function summary(seals: Seal[], { kept }: Options, problems: number): string {
  const last = seals.at(-1);
  if (!last) return "There are no seals yet.";
  if (problems > 0) return `${problems} ${problems === 1 ? "problem" : "problems"}.`;
  const proof = kept
    ? `The chain has the seal that you kept`
    : "The log agrees with itself; without --kept that is all this shows";
  return `All is as it was sealed. ${proof}. Keep this: ${last.sequence}:${last.seal}`;
}

Deno.exit(await main());
