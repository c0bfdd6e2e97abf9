import postgres from "postgres";
import type { Auth } from "./auth.ts";

/**
 * Makes a database look like a hosted project before any migration, if it does not yet.
 * `adminUrl` is the superuser's; the password is what the Data API connects with, as `authenticator`.
 */
export async function createBaseline(
  adminUrl: string,
  { auth, authenticatorPassword }: { auth: Auth; authenticatorPassword: string },
): Promise<void> {
  const sql = postgres(adminUrl, { max: 1, onnotice: () => {} });
  const [done] = await sql`select from pg_roles where rolname = 'authenticator'`;
  if (!done) {
    // To which Auth grants something.
    await sql.unsafe(`do $$ begin
      create role postgres login createrole createdb replication bypassrls password 'postgres';
    exception when duplicate_object then null; end $$`);
    await auth.createSchema();
    const baseline = await Deno.readTextFile(new URL("baseline.sql", import.meta.url));
    // All statements at once are one transaction.
    await sql.unsafe(`${baseline}
      alter role authenticator password '${authenticatorPassword}';`);
  }
  await sql.end();
}
