import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { rolledBack, sql } from "../helpers.ts";

// The rules of Supabase's Security and Performance Advisor (github.com/supabase/splinter), by their
// numbers and names there, as queries of our own on the catalog: simpler, because two schemas are all
// there is, and most of them stricter. Each is also tried on what it forbids. (Three new rules share
// the number 0030.)
//
// Not here:
// 0003, 0006, 0007, 0024, 0030 rls_policy_null_auth_disjunct: about policies; permissions_test.ts allows none.
// 0026 to 0029, of tables and functions exposed to people: permissions_test.ts has the list of both.
// 0008 rls_enabled_no_policy: an INFO. Here it is the intention: people reach functions only.
// 0005 unused_index, 0020 table_bloat: statistics of a database in use, of which a test has none. The
// migrations say what each index is for.
// 0012 auth_allow_anonymous_sign_ins: about policies, and there are none.
// 0019 insecure_queue_exposed_in_api, 0025 public_bucket_allows_listing: there are no queues and no buckets.
// 0022 extension_versions_outdated, 0031 unused_replication_slot: the server's, not the schema's.
// 0023 sensitive_columns_exposed: of tables without row level security, and 0013 allows none.

interface Rule {
  /** What must not be there. */
  query: string;
  /** Makes it. */
  breaks: string;
}

const OURS = "('audit_log'::regnamespace, 'audit_log_private'::regnamespace)";

const RULES: Record<string, Rule> = {
  "0001 unindexed_foreign_keys": {
    query: `
      select c.conrelid::regclass, c.conname from pg_constraint c
      where c.contype = 'f' and c.connamespace in ${OURS} and not exists (
        select from pg_index i
        where i.indrelid = c.conrelid and i.indpred is null
          and (i.indkey::smallint[])[0:cardinality(c.conkey) - 1] operator(pg_catalog.@>) c.conkey
      )`,
    breaks:
      "create table audit_log_private.broken (key_id uuid references audit_log.organizations)",
  },
  "0004 no_primary_key": {
    query: `
      select c.oid::regclass from pg_class c
      where c.relnamespace in ${OURS} and c.relkind in ('r', 'p')
        and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`,
    breaks: "create table audit_log_private.broken (id int unique)",
  },
  "0009 duplicate_index": {
    query: `
      select tablename, string_agg(indexname, ' ') from pg_indexes
      where schemaname in ('audit_log', 'audit_log_private')
      group by schemaname, tablename, regexp_replace(indexdef, '^.*? USING ', '') having count(*) > 1`,
    breaks: "create index broken on audit_log.organization_members (user_id)",
  },
  // pg_temp at the end: where it is not named, it comes first, and a caller's temporary type "date" would
  // run the caller's code with the rights of the function's owner.
  // A body that was parsed when the function was created (prosqlbody) resolves no name later, and can be inlined.
  // These two are called for each entry, where a setting costs more than the function. All their names are qualified.
  "0011 function_search_path_mutable": {
    query: `
      select oid::regprocedure from pg_proc
      where pronamespace in ${OURS} and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)
        and prosqlbody is null
        and oid not in ('audit_log_private.log_epoch'::regproc, 'audit_log_private.entry_number'::regproc)`,
    breaks: `
      create function audit_log_private.broken() returns int language sql set search_path = pg_catalog as 'select 1'`,
  },
  "0013 rls_disabled_in_public": {
    query: `
      select oid::regclass from pg_class
      where relnamespace in ${OURS} and relkind in ('r', 'p') and not relrowsecurity`,
    breaks: "create table audit_log_private.broken (id int primary key)",
  },
  "0014 extension_in_public": {
    query: `select extname from pg_extension where extnamespace in ${OURS}`,
    breaks: "create extension citext schema audit_log",
  },
  "0015 rls_references_user_metadata": {
    query: `
      select oid::regprocedure from pg_proc
      where pronamespace in ${OURS} and prosrc ~ 'user_metadata'`,
    breaks: `
      create function audit_log_private.broken() returns boolean language sql
        as $$ select auth.jwt() -> 'user_metadata' ->> 'role' = 'admin' $$`,
  },
  "0002 auth_users_exposed, 0010 security_definer_view, 0016 materialized_view_in_api, 0017 foreign_table_in_api":
    {
      query: `
      select oid::regclass from pg_class where relnamespace in ${OURS} and relkind in ('v', 'm', 'f')`,
      breaks: "create view audit_log.broken as select id from audit_log.organizations",
    },
  "0018 unsupported_reg_types": {
    query: `
      select a.attrelid::regclass, a.attname
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid
      where c.relnamespace in ${OURS} and t.typnamespace = 'pg_catalog'::regnamespace
        and t.typname ~ '^reg' and t.typname not in ('regclass', 'regrole', 'regtype')`,
    breaks: "create table audit_log_private.broken (id regproc)",
  },
  "0021 fkey_to_auth_unique": {
    query: `
      select c.conrelid::regclass, c.conname
      from pg_constraint c join pg_class target on target.oid = c.confrelid
      join pg_index i on i.indexrelid = c.conindid
      where c.contype = 'f' and target.relnamespace = 'auth'::regnamespace and not i.indisprimary`,
    breaks: "create table audit_log_private.broken (phone text references auth.users (phone))",
  },
  "0030 autovacuum_disabled": {
    query: `
      select oid::regclass from pg_class
      where relnamespace in ${OURS} and 'autovacuum_enabled=false' = any(reloptions)`,
    breaks: "create table audit_log_private.broken (id int) with (autovacuum_enabled = false)",
  },
  "0030 invalid_index": {
    query: `
      select i.indexrelid::regclass from pg_index i join pg_class c on c.oid = i.indrelid
      where c.relnamespace in ${OURS} and not i.indisvalid`,
    // An index of no partition: the only kind that is invalid without a failure.
    breaks: `
      create table audit_log_private.parent (id int) partition by range (id);
      create table audit_log_private.child partition of audit_log_private.parent for values from (0) to (1);
      create index broken on only audit_log_private.parent (id)`,
  },
};

/** What a query finds, one line of text for each row. */
async function find(connection: postgres.ISql, { query }: Rule): Promise<string[]> {
  const rows = await connection.unsafe(query);
  return rows.map((row) => Object.values(row).join(" "));
}

describe("nothing in the schema breaks the advisor's rule", () => {
  for (const [name, rule] of Object.entries(RULES)) {
    it(name, async () => {
      assertEquals(await find(sql, rule), []);
      await rolledBack(sql, async (transaction) => {
        await transaction.unsafe(rule.breaks);
        assert((await find(transaction, rule)).length > 0, "does not find what it forbids");
      });
    });
  }
});

describe("a generic plan", () => {
  it("is never compiled (jit), however high its estimates are", async () => {
    const compiled = await sql`
      select oid::regprocedure from pg_proc
      where 'plan_cache_mode=force_generic_plan' = any (proconfig) and not 'jit=off' = any (proconfig)`;
    assertEquals([...compiled], []);
  });
});
