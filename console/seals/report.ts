import type { DayState } from "../../seals/judge.ts";
import { count } from "../shared/days.ts";
import { CONSOLE_URL } from "../shared/transport.ts";
import { keptSeal, type Named, type Proof } from "./pack.ts";

/** How many entries of each action a day has. */
export type Actions = Map<string, number>;

export interface Report extends Proof {
  organization: Named;
  actions: Map<string, Actions>;
}

export interface Headline {
  title:
    | "Proven"
    | "Proven in part"
    | "Intact inside, not yet proven"
    | "Nothing verified"
    | "Not as it was sealed";
  text: string;
  colour: "green" | "yellow" | "red";
  /** The page that says what each problem can mean. */
  page?: string;
}

const STATES: Record<DayState, string> = {
  proven: "proven",
  sealed: "as it was sealed",
  open: "not sealed yet",
  differs: "differs",
  missing: "not here",
};

/** Says in a line what a proof amounts to. */
export function headlineOf({ verdict, kept }: Proof): Headline {
  const states = [...verdict.days.values()];
  const proven = states.filter((state) => state === "proven").length;
  const problems = verdict.problems.length;
  if (verdict.problems.every(({ code }) => code === "nothing_verified") && problems > 0) {
    const text = "There is no entry of a sealed day to compare, so nothing is proven.";
    return { title: "Nothing verified", text, colour: "yellow" };
  }
  if (problems > 0) {
    const page = `${CONSOLE_URL}docs/verifying.html#when-something-was-changed`;
    const text = `${count(problems, "problem")}.`;
    return { title: "Not as it was sealed", text, colour: "red", page };
  }
  if (kept && proven === states.length) {
    const text = `Since somebody kept the seal ${kept.sequence}, no entry of these ${
      count(proven, "day")
    } was changed, inserted or deleted, except as later seals declare.`;
    return { title: "Proven", text, colour: "green" };
  }
  if (kept && proven > 0) {
    const text = `${proven} of ${count(states.length, "day")} were sealed up to the seal ` +
      `${kept.sequence}, which somebody kept: these are proven. The others are intact inside, not yet proven.`;
    return { title: "Proven in part", text, colour: "yellow" };
  }
  const next = kept
    ? `The seal ${kept.sequence} was made before these days were: compare a later one.`
    : "To prove it, compare a seal that you kept elsewhere.";
  const text = "The entries fit the seals, and the seals fit each other. But whoever owns the " +
    `database could have made all of it anew. ${next}`;
  return { title: "Intact inside, not yet proven", text, colour: "yellow" };
}

/** The report of a pack: a page to print, without scripts. */
export function reportOf(report: Report): string {
  const { organization, start, end, verdict, kept, entries, actions } = report;
  const { title, text, page } = headlineOf(report);
  const name = escape(organization.name);
  const total = [...entries.values()].reduce((sum, number) => sum + number, 0);
  const sums: Actions = new Map();
  for (const [action, number] of [...actions.values()].flatMap((found) => [...found])) {
    sums.set(action, (sums.get(action) ?? 0) + number);
  }
  const findings = [...verdict.problems, ...verdict.notes];
  // Also a day that lost entries openly is as it was sealed the last time.
  const named = new Set(findings.map(({ day }) => day));
  const days = [...entries].map(([day, number]) => [
    day,
    `${STATES[verdict.days.get(day) ?? "open"]}${named.has(day) ? ", see above" : ""}`,
    number,
    [...actions.get(day) ?? []].sort().map(([action, number]) => `${action} ${number}`).join(", "),
  ]);
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Evidence of ${name}, ${start} to ${end}</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em }
  table { border-collapse: collapse; width: 100% }
  tr { break-inside: avoid }
  th, td { border-bottom: 1px solid #ccc; padding: 3px 8px; text-align: left; vertical-align: top }
  td:first-child { white-space: nowrap }
  code { overflow-wrap: anywhere }
</style>
<h1>Evidence: audit log of <bdi>${name}</bdi></h1>
<p>${start} to ${end} (UTC): ${count(total, "entry", "entries")}. Organization
<code>${escape(organization.id)}</code>. Made at ${new Date().toISOString()}.</p>
<h2>${title}</h2>
<p>${text}${page ? ` What each can mean: ${linked(page)}` : ""}</p>
${list(findings.map(({ text }) => text))}
<p>The seal that was kept: <code>${kept ? keptSeal(kept) : "none"}</code></p>
<p>The latest seal of the chain: <code>${
    verdict.last ? keptSeal(verdict.last) : "none"
  }</code>. Keep
it where nobody who can write to the database can change it.</p>
<h2>What this proves</h2>
<p>To somebody who has kept a seal: since it was made, no entry of the days that were sealed up to
it was changed, inserted or deleted, except as a later seal of the day declares. They need to trust
neither the service nor its owner, only SHA-256 and their copy.</p>
<h2>What it does not prove</h2>
${
    list([
      "Anything about days that were sealed after the seal that was kept, or to somebody who has kept none: the owner of the database could have made these seals anew.",
      "What happened before a day was sealed, in the night after it, or that what was logged is true.",
      "That added entries are genuine, or that what retention removed had to be removed.",
      "When a seal was made: the date of your copy is the proof.",
      "Anything by this page alone: anybody can write one. Check the files.",
    ])
  }
<h2>How to check it again</h2>
${
    list([
      `In a browser, without signing in: open ${location.origin}${location.pathname}?pack and ` +
      "choose the ZIP. It stays on your machine. The page comes from the platform: if you do not " +
      "trust it, use one of the next two ways.",
      "Without network: unzip it, and run public-audit-log verify days --seals=seals.json " +
      `--start=${start} --end=${end} --kept=YOUR_SEAL`,
      `By hand, with sha256sum and jq: ${CONSOLE_URL}docs/verifying.html#by-hand`,
      "Compare with your own copy of a seal. kept.txt is what whoever made this pack had.",
    ])
  }
<h2>Entries by action</h2>
${table(["Action", "Entries"], [...sums].sort())}
<h2>Entries by day</h2>
${table(["Day (UTC)", "State", "Entries", "Actions"], days)}
</html>
`;
}

function list(items: string[]): string {
  return `<ul>${items.map((item) => `<li>${linked(item)}</li>`).join("\n")}</ul>`;
}

function table(heads: string[], rows: (string | number)[][]): string {
  const line = (cells: (string | number)[], tag: "th" | "td") =>
    `<tr>${cells.map((cell) => `<${tag}>${escape(String(cell))}</${tag}>`).join("")}</tr>`;
  return `<table>${line(heads, "th")}\n${rows.map((row) => line(row, "td")).join("\n")}</table>`;
}

/** A text as HTML, with its addresses as links. */
function linked(text: string): string {
  return escape(text).replaceAll(/https?:\S+/g, (address) => `<a href="${address}">${address}</a>`);
}

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
