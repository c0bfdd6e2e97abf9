import { assertEquals, assertMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import type postgres from "postgres";
import { client, connect, signUp } from "./helpers.ts";

// What each client role may do, whole. A new table, function or grant trips a test here: think about
// who may reach it, then write it down. What no schema should have is in database_hygiene_test.ts.

const sql = connect();
afterAll(() => sql.end());

/** What a query finds, one line of text for each row. */
async function lines(query: Promise<postgres.Row[]>): Promise<string[]> {
  return (await query).map((row) => Object.values(row).join(" "));
}

describe("tables", () => {
  it("grant the client roles exactly this", async () => {
    const found = await lines(sql`
      select role, c.oid::regclass, string_agg(lower(privilege), ', ' order by n)
      from pg_class c
      cross join unnest(array['anon', 'authenticated', 'service_role']) as role
      cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN'])
        with ordinality as p (privilege, n)
      where c.relnamespace in ('public'::regnamespace, 'private'::regnamespace)
        and c.relkind in ('r', 'p', 'v', 'm', 'f')
        and (
          has_table_privilege(role, c.oid, privilege)
          or privilege in ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
            and has_any_column_privilege(role, c.oid, privilege)
        )
      group by role, c.oid
      order by role, c.oid::regclass::text`);
    assertEquals(found, [
      "authenticated api_key_usage select",
      "authenticated api_keys select, insert, update",
      "authenticated audit_entries select",
      "authenticated organization_members select",
      "authenticated organizations select",
      "authenticated private.api_key_hashes insert",
      "authenticated private.entry_counts select",
      "authenticated private.rate_limits select, insert",
      "service_role api_keys select",
      "service_role audit_entries select, insert",
      "service_role organization_members select, insert, update, delete",
      "service_role organizations select, insert, update, delete",
      "service_role private.api_key_hashes select",
      "service_role private.entry_counts select",
      "service_role private.rate_limits select, update",
    ]);
  });

  it("let signed-in people write these columns and no others", async () => {
    assertEquals(
      await lines(sql`
        select table_schema || '.' || table_name, lower(privilege_type),
          string_agg(column_name, ', ' order by column_name) as columns
        from information_schema.column_privileges
        where grantee in ('anon', 'authenticated') and privilege_type in ('INSERT', 'UPDATE')
          and table_schema in ('public', 'private')
        group by 1, 2 order by 1, 2`),
      [
        "private.api_key_hashes insert api_key_id, token_hash",
        "private.rate_limits insert api_key_id",
        "public.api_keys insert hint, id, name, organization_id",
        "public.api_keys update revoked_at, revoked_by",
      ],
    );
  });

  it("have policies for signed-in people only", async () => {
    assertEquals(
      await lines(sql`
        select schemaname || '.' || tablename, policyname, lower(cmd), array_to_string(roles, ',')
        from pg_policies where schemaname in ('public', 'private') order by 1, 2`),
      [
        "private.api_key_hashes insert_admin insert authenticated",
        "private.entry_counts select_admin select authenticated",
        "private.rate_limits insert_admin insert authenticated",
        "private.rate_limits select_admin select authenticated",
        "public.api_keys insert_admin insert authenticated",
        "public.api_keys revoke_admin update authenticated",
        "public.api_keys select_admin select authenticated",
        "public.audit_entries select_admin select authenticated",
        "public.organization_members select_own select authenticated",
        "public.organizations select_member select authenticated",
      ],
    );
  });

  it("are the only relations but for this view, which has its reader's rights", async () => {
    assertEquals(
      await lines(sql`
        select oid::regclass, relkind, reloptions from pg_class
        where relnamespace in ('public'::regnamespace, 'private'::regnamespace)
          and relkind not in ('r', 'p', 'i', 'I', 't')`),
      ["api_key_usage v security_invoker=true"],
    );
  });
});

describe("schemas", () => {
  it("can be used by the client roles exactly so, and nothing can be made in them", async () => {
    assertEquals(
      await lines(sql`
        select role, n.nspname, string_agg(lower(privilege), ', ' order by privilege desc)
        from pg_namespace n
        cross join unnest(array['anon', 'authenticated', 'service_role']) as role
        cross join unnest(array['USAGE', 'CREATE']) as privilege
        where n.nspname in ('public', 'private') and has_schema_privilege(role, n.oid, privilege)
        group by role, n.nspname order by role, n.nspname`),
      [
        "anon public usage",
        "authenticated private usage",
        "authenticated public usage",
        "service_role private usage",
        "service_role public usage",
      ],
    );
  });
});

describe("functions", () => {
  it("can be executed by the client roles exactly so", async () => {
    const found = await lines(sql`
      select role, p.oid::regproc
      from pg_proc p
      cross join unnest(array['anon', 'authenticated', 'service_role']) as role
      where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace)
        and has_function_privilege(role, p.oid, 'EXECUTE')
      order by role, p.oid::regproc::text`);
    assertEquals(
      found,
      [
        "authenticated private.administered_organizations",
        "authenticated private.base62",
        "authenticated private.new_token",
        "authenticated private.read_page",
        "authenticated read_audit_log",
        "authenticated create_api_key",
        "authenticated revoke_api_key",
        "service_role private.count_request",
        "service_role private.find_active_key",
        "service_role private.read_page",
        "service_role private.uuid_v7",
        "service_role public_audit_log",
      ].toSorted(),
    );
  });

  it("that run with their owner's rights are exactly these, and no client may call them", async () => {
    assertEquals(
      await lines(sql`
        select p.oid::regproc from pg_proc p
        where p.pronamespace in ('public'::regnamespace, 'private'::regnamespace) and p.prosecdef
        order by p.oid::regproc::text`),
      ["private.count_entries"],
    );
  });

  it("that read a page are stable, so that total and items are of one snapshot", async () => {
    assertEquals(
      await lines(sql`
        select provolatile from pg_proc where oid = 'private.read_page'::regproc`),
      ["s"],
    );
  });

  it("that make tokens draw from the cryptographic source", async () => {
    assertEquals(
      await lines(sql`
        select concat_ws(' ', prosrc ~ 'extensions.gen_random_bytes', prosrc ~ '[^_]random\\(')
        from pg_proc where oid = 'private.new_token'::regproc`),
      ["t f"],
    );
  });
});

describe("everything", () => {
  it("has a comment: every table and every function", async () => {
    assertEquals(
      await lines(sql`
        select oid::regclass::text from pg_class
        where relnamespace in ('public'::regnamespace, 'private'::regnamespace)
          and relkind in ('r', 'p', 'v') and obj_description(oid, 'pg_class') is null
        union all
        select oid::regproc::text from pg_proc
        where pronamespace in ('public'::regnamespace, 'private'::regnamespace)
          and obj_description(oid, 'pg_proc') is null`),
      [],
    );
  });
});

describe("the Data API", () => {
  it("does not serve the schema private to anyone", async () => {
    const person = await signUp();
    for (const caller of [client("anon"), person.client, client("service_role")]) {
      for (const table of ["rate_limits", "api_key_hashes", "entry_counts"]) {
        const { error } = await caller.schema("private" as "public").from(table as "api_keys")
          .select("*");
        assertEquals(error?.code, "PGRST106");
        // PostgREST until version 12 asks the database, later ones know that there is no such table.
        const { error: unknown } = await caller.from(table as "api_keys").select("*");
        assertMatch(unknown?.code ?? "", /^(42P01|PGRST205)$/);
      }
    }
  });

  it("calls public_audit_log for the platform alone", async () => {
    const person = await signUp();
    for (const caller of [client("anon"), person.client]) {
      const { error } = await caller.rpc("public_audit_log", { token_hash: "00".repeat(32) });
      assertEquals(error?.code, "42501");
    }
    const { data } = await client("service_role")
      .rpc("public_audit_log", { token_hash: "00".repeat(32) }).throwOnError();
    assertEquals(data, { decision: "unauthorized" });
  });

  it("shows anon nothing at all", async () => {
    for (
      const table of ["organizations", "organization_members", "api_keys", "audit_entries"] as const
    ) {
      const { error } = await client("anon").from(table).select("*");
      assertEquals(error?.code, "42501", table);
    }
  });

  it("does not let a signed-in person change the log or join an organization", async () => {
    const { client: caller, id: user_id } = await signUp();
    const organization_id = crypto.randomUUID();
    for (
      const { error } of [
        await caller.from("audit_entries").update({ agent_name: "x" }).eq("user_email", "x"),
        await caller.from("audit_entries").delete().eq("user_email", "x"),
        await caller.from("audit_entries").insert({
          organization_id,
          action: "agent_added",
          user_email: "eve@example.com",
          agent_name: "x",
        }),
        await caller.from("organizations").insert({ name: "x" }),
        await caller.from("organization_members")
          .insert({ organization_id, user_id, role: "admin" }),
        await caller.from("organization_members").update({ role: "admin" }).eq("user_id", user_id),
      ]
    ) assertEquals(error?.code, "42501");
  });
});
