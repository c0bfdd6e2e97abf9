import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { glob } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../../", import.meta.url);

// What the pages promise, and what fails if it is not so: a test of a file in tests/, or a bench. If you change a claim
// or a test's name, correct the row. A new claim needs a row, and a test that you have seen fail. SECURITY.md itself
// names the tests of its tables, and of most sentences.

/** By page: words of the claim | the file | words of the test's name, or of the line that holds it. Without backquotes. */
const CLAIMS: Record<string, string> = {
  "README.md": `
    each customer creates its own API keys in an admin console | browser/keys_test | shows the token until a person has stored it
    and can read only its own entries | stack/api_test | gives each key exactly its organization's entries
    it prints the addresses of the console and the API, a sign-in, and a key | local/start_test | prints an example that works
    Ctrl-C stops the service | local/start_test | stops on Ctrl-C
    and keeps the data | local/start_test | keeps its data when it is killed
    start says which option to give | local/start_test | says which option to give where a port is taken
    Without signing in, they get | browser/docs_test | have this installation's addresses
    openapi.json, and the command | browser/docs_test | is that of the service, with this installation's server alone
    (npm install --global https://console.example.com | clients/docs_commands_test | the command comes from the console
    the first line sets AUDIT_LOG_URL | local/start_test | status prints addresses and keys for the request in README.md
    total is exact, even while entries are written and deleted | stack/entry_counts_test | counts stay exact
    every entry exactly once, even if it is committed late | stack/feed_schedules_test | gives each committed entry exactly once
    can tell whether these days or an export were changed | pure/seal_cases_test | a verifier judges
    not even whether it exists | attacks/tenants_test | cannot tell from an answer or its time whether
    and none is refused early | stack/rate_limit_test | if and only if fewer than 60 were counted in 60 seconds
    In a log of 1,000,000 entries, the two compare like this | bench/plain | of a year, one action of four
    page is slower by 0.1 ms for each 1,000 entries of its hour | bench/reads | an hour of 200,000, 190,000 deep
    the function on Deno 2.1.4, as on Supabase | stack/one_file_test | runs on the Deno of Supabase's runtime
  `,
  "docs/api.md": `
    describes the same for programs | stack/api_test | answers 200 to the contract's examples
    Each installation serves it with its own address, without a key | pure/handler_test | gives the contract to everybody
    the quick start passes it through standard input | clients/docs_commands_test | a first request that needs nothing but
    from 0001 to 9999 | pure/parse_query_test | the years 0 and 10000
    both inclusive | stack/feed_test | gives, as pages do, the entries between two midnights
    start must not be after end | pure/parse_query_test | a start after the end
    all days with since, until or after | pure/parse_query_test | takes all days with after
    times with a zone (RFC 3339), to the microsecond | pure/parse_query_test | times finer than a microsecond
    since is included, until is not | stack/api_test | for random days, times, actions, persons and objects
    Write + as %2B | pure/parse_query_test | a zone whose plus sign was not encoded
    or up to 20 joined by commas | pure/parse_query_test | more than 20 actions
    are one person (the case of A to Z is ignored) | stack/api_test | const PERSONS
    a text of 1 to 1000 characters | pure/parse_query_test | a long object
    entries in a page: 1 to 1000 | pure/parse_query_test | a limit above 1000
    offset and order must have their defaults | pure/parse_query_test | an offset and an order beside after
    An unknown or repeated parameter is an error | pure/parse_query_test | repeated parameters, also with one value
    A query string of more than 12,288 characters is refused | pure/parse_query_test | refuses a query string of more than
    the platform's own id for it, which can be any text | stack/api_test | names an organization by its external_id
    as in the request; only there if they were given | stack/api_test | gives a page its seven fields
    taken at the same moment as items | stack/entry_counts_test | assertExactNow
    empty if offset is beyond the last entry | stack/api_test | none beyond the end, and the exact total
    id and created_at together identify an entry | stack/audit_entries_test | also if a call is repeated or has an entry twice
    UTC, with milliseconds | stack/audit_entries_test | is rounded to the millisecond
    an object of at most 32 levels | stack/audit_entries_test | up to 32 levels deep
    For message_created it has | stack/audit_entries_test | data_has_required
    Entries are ordered by created_at, then id | stack/api_test | sort(byTime)
    offsets stay stable while entries are appended | stack/api_test | keeps offsets while entries are appended
    in the header Link (RFC 8288) | pure/headers_test | link to pages that neither overlap nor leave anything out
    not read whole within 60 seconds is cut off | pure/handler_test | is not read whole within 60 seconds is cut off
    the largest has 7.5 MB | attacks/slow_readers_test | whole < 7_500_000
    more than 1,000,000 entries in the time | stack/api_test | counts a person's entries up to a bound
    at its top level and under any name | stack/api_test | const VALUES
    more than 25,000, a page is refused with 400 | stack/api_test | looks through 25,000 entries for an object
    each answer searches 10,000 entries | stack/api_test | the feed, which reads 10,000 a page
    with the same bytes as in a page | stack/api_test | gives one entry with the bytes of a page
    The console copies it as _address in the API_ | browser/entry_test | and its address in the API
    the answer is 404 with entry_not_found | stack/api_test | answers 404 about an entry of another organization
    The platform may add an action at any time | stack/actions_test | asked for as soon as it is added
    A new installation has this list | clients/docs_commands_test | docs/api.md has commands that all run
    required names the fields | stack/actions_test | demands each of its fields as a string
    has stopped writing an action | stack/actions_test | stays readable when it is deprecated
    what administrators do with keys | stack/actions_test | the acts of administrators are logged
    and what happens to streams | stack/streams_test | are recorded in a log of key events
    caller says who acted and from where | stack/logging/log_table_test | the address and the user agent of the request
    on_behalf_of has the person's email and id | stack/logging/log_table_test | for whom the secret key says that it writes
    booleans, numbers, null, and text for everything else | stack/logging/logged_writes_test | with each value of changes as JSON has it
    user_email is unknown@invalid if | stack/logging/log_table_test | with nobody else's address for
    one entry on each line and nothing else | stack/api_test | gives NDJSON the bytes and the headers that JSON has
    Seals, actions and one entry are JSON only | stack/actions_test | and is JSON whatever Accept says
    count towards the same rate limit | stack/seals_test | is paged and rate-limited like entries
    has several seals; the last one counts | stack/seals_test | declares entries whose writer commits later
    altered lists days whose sealed entries were changed | stack/seals_test | is found, and not sealed
    which every answer has as X-Request-Id | contract | a status, media type, headers and body
    type is the address of the code's row | browser/docs_test | to the row of its code, to the page, and to the contract
    you get the first one in this table | stack/api_test | answers with the first error that applies
    HEAD and OPTIONS are refused, too | stack/api_test | is not reached by other paths and methods
    on a server, not in a browser | pure/handler_test | sends no CORS header
    the body does not say which | stack/api_test | answers everything but an active key with the same 401
    lists every bad parameter (of unknown ones, the first 20) | pure/parse_query_test | names at most twenty unknown parameters
    or another number that an operator has set | stack/rate_limit_test | another quota that an operator sets
    Refused requests (429) are not counted | stack/rate_limit_test | in 60 seconds, refuses all others
    those answered with 400 are | stack/key_usage_test | the counted requests, the invalid ones among them
    A 429 also has Retry-After | pure/handler_test | takes the quota in the rate limit's headers
    Nothing that is described here will be removed | pure/openapi_changes_test | changes only by additions since the last release
    An entry itself never gains a field | stack/seals_test | format 1 of entries and seals is frozen
  `,
  "SECURITY.md": `
    Every request that comes from then on gets 401 | stack/api_keys_test | a request of the key, which is then refused
    During the overlap, the thief can still read | stack/api_keys_test | the old key works for the overlap
    on each of the last 400 UTC days | stack/key_usage_test | is kept for 400 days
    from which address the day's last request came | stack/key_usage_test | keeps the caller's address
    for the key's id (api_key_id) | pure/handler_test | has one line for each request: id, key
    Removing an administrator revokes none | stack/api_keys_test | marks the person's active keys
    Look through all administrators | clients/docs_commands_test | SECURITY.md has SQL
    export --raw-csv leaves it out | clients/export_test | puts a ' before
    They can find the word of the bell | faults/streams_test | rings for its word alone
    its log has hashes of tokens, never tokens | attacks/secrets_test | when it logs every statement and its plan
    This table is complete | stack/permissions_test | may do exactly what the table in SECURITY.md says
    at least once in 30 nights | stack/seals_test | checks each sealed day again within 30 nights
    after two minutes, it gets a 500 | pure/turns_test | is an error if it does not come within two minutes
    Smaller pages never wait for large ones | pure/turns_test | never waits for large pages if it is for a small page
    it listens on loopback only | local/start_test | listens on loopback only
  `,
};

async function read(path: string): Promise<string> {
  return (await Deno.readTextFile(new URL(path, ROOT))).replaceAll("`", "").replaceAll(/\s+/g, " ");
}

describe("what the page promises has a test or a bench, as this file lists it:", () => {
  for (const [page, rows] of Object.entries(CLAIMS)) {
    it(page, async () => {
      const text = await read(page);
      const wrong: string[] = [];
      for (const row of rows.trim().split("\n")) {
        const [claim = "", file = "", name = ""] = row.trim().split(" | ");
        const path = `${file.startsWith("bench/") ? "" : "tests/"}${file}.ts`;
        if (!text.includes(claim)) wrong.push(`the page does not say: ${claim}`);
        const isHeld = name !== "" && (await read(path)).includes(name);
        if (!isHeld) wrong.push(`${path} does not have: ${name}`);
      }
      assertEquals(wrong, []);
    });
  }
});

it("each row of the tables in SECURITY.md names its test files", async () => {
  const files = await Array.fromAsync(
    glob("**/*_test.ts", { cwd: fileURLToPath(new URL("tests", ROOT)) }),
  );
  const page = await Deno.readTextFile(new URL("SECURITY.md", ROOT));
  const rows = Array.from(page.matchAll(/\| They cannot .*\n\|[- |]*\n((?:\|.*\n)+)/g))
    .flatMap(([, table = ""]) => table.trimEnd().split("\n"));
  const wrong = rows.filter((row) => {
    const cell = row.split("|").at(-2)?.trim() ?? "";
    return !cell.split(", ").every((name) =>
      ["", "pure/", "stack/"].some((folder) => files.includes(`${folder}${name.slice(1, -1)}.ts`))
    );
  });
  assertEquals([rows.length > 20, wrong], [true, []]);
});
