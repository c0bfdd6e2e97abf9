import { supabase } from "./supabase_cli.ts";

/** The types of the database's public schema, as generated. */
export const TYPES_FILE = new URL(
  "../supabase/functions/public-audit-log/database.types.ts",
  import.meta.url,
);

/** Generates the types from a database with the Supabase CLI, and formats them. */
export async function databaseTypes(databaseUrl: string): Promise<string> {
  const types = await supabase(
    "gen",
    "types",
    "--lang=typescript",
    "--schema=public",
    `--remote=${databaseUrl}`,
  );
  const format = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--line-width=100", "--ext=ts", "-"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const formatted = new Response(format.stdout).text();
  await new Response(types).body?.pipeTo(format.stdin);
  return await formatted;
}
