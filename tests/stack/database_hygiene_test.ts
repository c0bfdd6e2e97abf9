import { assert, assertEquals } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { connect } from "../helpers.ts";

// The rules of Supabase's Security and Performance Advisor (github.com/supabase/splinter), by their
// numbers and names there, as queries of our own on the catalog: simpler, because two schemas are all
// there is, and most of them stricter. Each is also tried on what it forbids. (Three new rules share
// the number 0030.)
//
// Not here:
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

const OURS = "('public'::regnamespace, 'private'::regnamespace)";
const POLICIES = "from pg_policies where schemaname in ('public', 'private')";

function exposedTable(role: string): Rule {
  return {
    query: `
      select oid::regclass from pg_class
      where relnamespace in ${OURS} and relkind in ('r', 'p', 'v', 'm', 'f')
        and has_any_column_privilege('${role}', oid, 'SELECT')`,
    breaks: `
      create table public.broken (id int primary key, name text);
      grant select (name) on public.broken to ${role}`,
  };
}

function callableByItsOwnersRights(role: string): Rule {
  return {
    query: `
      select oid::regprocedure from pg_proc
      where pronamespace = 'public'::regnamespace and prosecdef and has_function_privilege('${role}', oid, 'EXECUTE')`,
    breaks: `
      create function public.broken() returns int language sql security definer return 1;
      revoke execute on function public.broken from public, anon, authenticated;
      grant execute on function public.broken to ${role}`,
  };
}

const RULES: Record<string, Rule> = {
  "0001 unindexed_foreign_keys": {
    query: `
      select c.conrelid::regclass, c.conname from pg_constraint c
      where c.contype = 'f' and c.connamespace in ${OURS} and not exists (
        select from pg_index i
        where i.indrelid = c.conrelid and i.indpred is null
          and (i.indkey::smallint[])[0:cardinality(c.conkey) - 1] operator(pg_catalog.@>) c.conkey
      )`,
    breaks: "create table private.broken (key_id uuid references public.organizations)",
  },
  "0002 auth_users_exposed": {
    query: `
      select distinct r.ev_class::regclass from pg_depend d join pg_rewrite r on r.oid = d.objid
      join pg_class c on c.oid = r.ev_class
      where d.refobjid = 'auth.users'::regclass and c.relnamespace in ${OURS}`,
    breaks: "create view public.broken as select email from auth.users",
  },
  "0003 auth_rls_initplan": {
    query: `
      select tablename, policyname ${POLICIES}
        and regexp_replace(concat(qual, with_check), '\\mSELECT auth\\.\\w+\\(', '', 'g')
          ~ '\\m(auth\\.\\w+|current_setting)\\('`,
    breaks: `
      create policy broken on public.organizations for delete to authenticated
      using (id = (select auth.uid()) and id = auth.uid())`,
  },
  "0004 no_primary_key": {
    query: `
      select c.oid::regclass from pg_class c
      where c.relnamespace in ${OURS} and c.relkind in ('r', 'p')
        and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)`,
    breaks: "create table private.broken (id int unique)",
  },
  "0006 multiple_permissive_policies": {
    query: `
      select tablename, string_agg(policyname, ' '), role, command
      from pg_policies
      join unnest(array['anon', 'authenticated']) as role on roles && array[role, 'public']::name[]
      join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE']) as command on cmd in (command, 'ALL')
      where schemaname in ('public', 'private') and permissive = 'PERMISSIVE'
      group by schemaname, tablename, role, command having count(*) > 1`,
    breaks: `
      create policy broken on public.organizations using (name = '');
      create policy broken_too on public.organizations for select using (name = 'x')`,
  },
  "0007 policy_exists_rls_disabled": {
    query: `
      select distinct polrelid::regclass from pg_policy p join pg_class c on c.oid = p.polrelid
      where c.relnamespace in ${OURS} and not c.relrowsecurity`,
    breaks: `
      create table private.broken (id int primary key);
      create policy nobody on private.broken using (false)`,
  },
  "0009 duplicate_index": {
    query: `
      select tablename, string_agg(indexname, ' ') from pg_indexes
      where schemaname in ('public', 'private')
      group by schemaname, tablename, regexp_replace(indexdef, '^.*? USING ', '') having count(*) > 1`,
    breaks: "create index broken on public.organization_members (user_id)",
  },
  "0010 security_definer_view": {
    query: `
      select oid::regclass from pg_class
      where relnamespace in ${OURS} and relkind = 'v'
        and not coalesce('security_invoker=true' = any(reloptions), false)`,
    breaks: "create view public.broken as select id from public.organizations",
  },
  "0011 function_search_path_mutable": {
    query: `
      select oid::regprocedure from pg_proc
      where pronamespace in ${OURS} and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)`,
    breaks: `
      create function private.broken() returns int language sql set search_path = public return 1`,
  },
  "0013 rls_disabled_in_public": {
    query: `
      select oid::regclass from pg_class
      where relnamespace in ${OURS} and relkind in ('r', 'p') and not relrowsecurity`,
    breaks: "create table private.broken (id int primary key)",
  },
  "0014 extension_in_public": {
    query: `select extname from pg_extension where extnamespace in ${OURS}`,
    breaks: "create extension citext schema public",
  },
  "0015 rls_references_user_metadata": {
    query: `
      select tablename, policyname ${POLICIES} and concat(qual, with_check) ~ 'user_metadata'
      union all
      select oid::regprocedure::text, proname from pg_proc
      where pronamespace in ${OURS} and prosrc ~ 'user_metadata'`,
    breaks: `
      create policy broken on public.organizations for delete to authenticated
      using ((select auth.jwt()) -> 'user_metadata' ->> 'role' = 'admin')`,
  },
  "0016 materialized_view_in_api and 0017 foreign_table_in_api": {
    query: `
      select oid::regclass from pg_class where relnamespace in ${OURS} and relkind in ('m', 'f')`,
    breaks: "create materialized view public.broken as select id from public.organizations",
  },
  "0018 unsupported_reg_types": {
    query: `
      select a.attrelid::regclass, a.attname
      from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid
      where c.relnamespace in ${OURS} and t.typnamespace = 'pg_catalog'::regnamespace
        and t.typname ~ '^reg' and t.typname not in ('regclass', 'regrole', 'regtype')`,
    breaks: "create table private.broken (id regproc)",
  },
  "0021 fkey_to_auth_unique": {
    query: `
      select c.conrelid::regclass, c.conname
      from pg_constraint c join pg_class target on target.oid = c.confrelid
      join pg_index i on i.indexrelid = c.conindid
      where c.contype = 'f' and target.relnamespace = 'auth'::regnamespace and not i.indisprimary`,
    breaks: "create table private.broken (phone text references auth.users (phone))",
  },
  "0024 rls_policy_always_true": {
    query: `
      select tablename, policyname ${POLICIES} and (
        regexp_replace(qual, '[() ]', '', 'g') in ('true', '1=1')
        or regexp_replace(with_check, '[() ]', '', 'g') in ('true', '1=1')
        or qual is null and with_check is null
      )`,
    breaks: `
      create policy broken on public.organizations for insert to authenticated with check (1 = 1)`,
  },
  "0026 pg_graphql_anon_table_exposed": exposedTable("anon"),
  "0027 pg_graphql_authenticated_table_exposed": exposedTable("authenticated"),
  "0028 anon_security_definer_function_executable": callableByItsOwnersRights("anon"),
  "0029 authenticated_security_definer_function_executable": callableByItsOwnersRights(
    "authenticated",
  ),
  "0030 autovacuum_disabled": {
    query: `
      select oid::regclass from pg_class
      where relnamespace in ${OURS} and 'autovacuum_enabled=false' = any(reloptions)`,
    breaks: "create table private.broken (id int) with (autovacuum_enabled = false)",
  },
  "0030 invalid_index": {
    query: `
      select i.indexrelid::regclass from pg_index i join pg_class c on c.oid = i.indrelid
      where c.relnamespace in ${OURS} and not i.indisvalid`,
    // An index of no partition: the only kind that is invalid without a failure.
    breaks: `
      create table private.parent (id int) partition by range (id);
      create table private.child partition of private.parent for values from (0) to (1);
      create index broken on only private.parent (id)`,
  },
  "0030 rls_policy_null_auth_disjunct": {
    query: `
      select tablename, policyname ${POLICIES} and concat(qual, with_check) ~
          '(auth\\.\\w+|current_setting)\\([^)]*\\)( AS \\w+)?\\)* IS (NOT )?NULL'`,
    breaks: `
      create policy broken on public.organizations for delete to authenticated
      using ((select auth.uid()) is null or name = '')`,
  },
};

const sql = connect();
afterAll(() => sql.end());

/** What a query finds, one line of text for each row. */
async function find(connection: postgres.ISql, { query }: Rule): Promise<string[]> {
  const rows = await connection.unsafe(query);
  return rows.map((row) => Object.values(row).join(" "));
}

class Rollback extends Error {}

describe("nothing in the schema breaks the advisor's rule", () => {
  for (const [name, rule] of Object.entries(RULES)) {
    it(name, async () => {
      assertEquals(await find(sql, rule), []);
      await sql.begin(async (transaction) => {
        await transaction.unsafe(rule.breaks);
        assert((await find(transaction, rule)).length > 0, "does not find what it forbids");
        throw new Rollback();
      }).catch((error) => {
        if (!(error instanceof Rollback)) throw error;
      });
    });
  }
});
