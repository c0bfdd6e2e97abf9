import { supabase } from "../local/supabase_cli.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { formatted } from "./formatted.ts";

export const TYPES_FILE = new URL(
  "../../supabase/functions/public-audit-log/database.types.ts",
  import.meta.url,
);

if (import.meta.main) {
  await using stack = await startTemporaryStack();
  await Deno.writeTextFile(TYPES_FILE, await databaseTypes(stack.databaseUrl));
  console.log("Written: supabase/functions/public-audit-log/database.types.ts");
}

/**
 * Generates the types from a database with the Supabase CLI, and formats them.
 *
 * @throws {Error} with what the CLI or the formatter said, if it fails.
 */
export async function databaseTypes(databaseUrl: string): Promise<string> {
  const options = ["--lang=typescript", "--schema=audit_log", `--remote=${databaseUrl}`];
  return await formatted("ts", await supabase("gen", "types", ...options));
}
