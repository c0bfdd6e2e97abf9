// Needs a local stack. Slow.

import { assertEquals, assertRejects } from "@std/assert";
import { it } from "@std/testing/bdd";
import { actAs, API_URL, newOrganization, PUBLISHABLE_KEY, signUp, sql } from "../helpers/mod.ts";
import { valueOf, writeEntries } from "../helpers/mod.ts";
import { DAY, json, jsonValue, servedFunctions, values } from "./data_api_attacks.ts";

// An administrator tries to read without leaving a record: an error undoes it. So none may show what was read, or
// depend on it.

const SECRET = "8b1f2e6c";
const admin = await signUp();
const { id, apiKeyId } = await newOrganization(admin, SECRET);
const [email, entryId] = [`${SECRET}@example.com`, crypto.randomUUID()];
const GUESS = { email, organizationId: id, apiKeyId, entryId };
await writeEntries(id, [{ id: GUESS.entryId, created_at: DAY, user_email: GUESS.email }]);
const { data: { session } } = await admin.client.auth.getSession();

/** Calls a function, and says whether the answer shows what it is about, and how many reads were recorded. */
async function ask(name: string, form: string, headers: Record<string, string> = {}) {
  const found = FUNCTIONS.find((each) => each.name === name);
  const init = json(values(found?.parameters ?? [], GUESS, jsonValue));
  const reads = () =>
    valueOf<number>(sql`
      select coalesce(sum(requests), 0)::int from audit_log_private.log_reads where organization_id = ${id}`);
  const before = await reads();
  const caller = { apikey: PUBLISHABLE_KEY, Authorization: `Bearer ${session?.access_token}` };
  const response = await fetch(`${API_URL}/rest/v1/rpc/${name}?${form}`, {
    ...init,
    headers: { ...init.headers, "Content-Profile": "audit_log", ...caller, ...headers },
  });
  const body = await response.text();
  return { status: response.status, body, recorded: await reads() - before };
}

const FUNCTIONS = await servedFunctions(sql);
const FIELDS = [
  "pgrst_scalar",
  ...["0", "items", "token", "name", "0->>name", "0->>day"].map((path) => `pgrst_scalar->>${path}`),
];
const CONDITIONS = FIELDS.flatMap((field) => [
  `select=pgrst_scalar:${field}::int`,
  `select=pgrst_scalar:${field}::xml`,
  `select=count:pgrst_scalar::text&${field}=like.*${SECRET}*`,
  // Raises an error only if the text before the backslash matches.
  `${field}=like.*${SECRET}\\`,
  `${field}=match.${SECRET}`,
  `not.and=(${field}.is.null)`,
]);

it("a function for people refuses casts of its answer and conditions on it. No error shows the answer", async () => {
  for (const { name, isForPeople } of FUNCTIONS) {
    if (!isForPeople) continue;
    for (const condition of CONDITIONS) {
      const { status, body, recorded } = await ask(name, condition);
      const what = `${name}?${condition}: ${body}`;
      assertEquals([status >= 400, recorded, body.includes(SECRET)], [true, 0, false], what);
    }
  }
});

it("a function for people refuses them in any request of the Data API, whatever the statement calls its parts", async () => {
  const cast = sql.begin(async (transaction) => {
    await actAs(transaction, { sub: admin.id });
    await transaction`select set_config('request.method', 'POST', true)`;
    const call = `with a as (select audit_log.list_api_keys('${id}') as b) select`;
    await transaction.unsafe(`${call} b from a`);
    await transaction.unsafe(`${call} CAST( b AS text ) from a`);
  });
  await assertRejects(() => cast, Error, "cannot cast or filter");
});

it("a function for people records each read whose answer it gives, whatever form the answer is to have", async () => {
  const forms: [string, Record<string, string>?][] = [
    [""],
    ["select=pgrst_scalar"],
    ["order=pgrst_scalar"],
    ["limit=0"],
    ["offset=1", { Prefer: "count=exact" }],
    ["", { Range: "1-2", Prefer: "count=exact" }],
    ["", { Prefer: "tx=rollback" }],
    ["", { Prefer: "return=minimal" }],
    ["", { Accept: "text/csv" }],
    ["", { Accept: "application/vnd.pgrst.object+json" }],
    ["", { Accept: "application/vnd.pgrst.plan+text; options=analyze|verbose" }],
  ];
  const answers = {
    read_entry: SECRET,
    read_audit_log: SECRET,
    find_persons: SECRET,
    // Of the person with the secret address. Asked of milliseconds, it tells when each entry was.
    daily_entry_counts: 'entries":1',
  };
  for (const [name, answer] of Object.entries(answers)) {
    let shown = 0;
    for (const [form, headers] of forms) {
      const { body, recorded } = await ask(name, form, headers);
      if (!body.replaceAll('""', '"').includes(answer)) continue;
      assertEquals(recorded, 1, `${name}?${form} ${JSON.stringify(headers)}: ${body}`);
      shown++;
    }
    assertEquals(shown > 5, true, `only ${shown} forms show anything`);
  }
});
