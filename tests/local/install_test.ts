import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import postgres from "postgres";
import { dirname, join } from "node:path";
import { applyChanges } from "../../tasks/install_files.ts";
import { planInstallation } from "../../tasks/installation.ts";
import { supabase } from "../../local/supabase_cli.ts";
import { DATABASE_URL, sql } from "../helpers.ts";

const FUNCTION = "supabase/functions/public-audit-log";

describe("supabase db push", () => {
  it("applies an installation and an upgrade after all that a project has, without --include-all", async () => {
    const folder = await Deno.makeTempDir();
    const name = `adopter_${crypto.randomUUID().replaceAll("-", "")}`;
    await sql.unsafe(`create database ${name}`);
    const url = new URL(DATABASE_URL);
    url.pathname = `/${name}`;
    const database = postgres(url.href, { max: 1 });

    async function write(path: string, text: string): Promise<void> {
      await Deno.mkdir(dirname(join(folder, path)), { recursive: true });
      await Deno.writeTextFile(join(folder, path), text);
    }
    async function push(): Promise<string[]> {
      const workdir = join(folder, "theirs");
      await supabase("db", "push", `--workdir=${workdir}`, `--remote=${url.href}`, "--yes");
      const rows =
        await database`select name from supabase_migrations.schema_migrations order by version`;
      return rows.map(({ name }) => name);
    }
    function install(version: string): void {
      const target = join(folder, "theirs");
      applyChanges(target, planInstallation(join(folder, "ours"), target, { version }).changes);
    }

    try {
      const tomorrow = new Date(Date.now() + 86_400_000).toISOString().replaceAll("-", "").slice(
        0,
        8,
      );
      await write("theirs/supabase/config.toml", 'project_id = "theirs"\n');
      await write("theirs/supabase/migrations/0001_first.sql", "create table first ();");
      // Versions of several lengths: the CLI orders them as text.
      await write(`theirs/supabase/migrations/${tomorrow}_second.sql`, "create table second ();");
      await write(`ours/${FUNCTION}/index.ts`, "");
      await write("ours/supabase/migrations/1_tables.sql", "create schema audit_log;");
      await write("ours/supabase/migrations/2_keys.sql", "create table audit_log.keys ();");
      assertEquals(await push(), ["first", "second"]);

      install("1.2.0");
      const installed = ["first", "second", "audit_log_01_tables", "audit_log_02_keys"];
      assertEquals(await push(), installed);

      await write("ours/supabase/migrations/3_more.sql", "create table audit_log.more ();");
      install("1.3.0");
      assertEquals(await push(), [...installed, "audit_log_03_more"]);
    } finally {
      await database.end();
      await sql.unsafe(`drop database ${name}`);
      await Deno.remove(folder, { recursive: true });
    }
  });
});
