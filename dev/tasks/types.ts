import { supabase } from "../local/supabase_cli.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { formatted } from "./formatted.ts";

const FILE = "supabase/functions/public-audit-log/database.types.ts";

await using stack = await startTemporaryStack();
const options = ["--lang=typescript", "--schema=audit_log", `--remote=${stack.databaseUrl}`];
const types = await formatted("ts", await supabase("gen", "types", ...options));
if (!Deno.args.includes("--check")) {
  await Deno.writeTextFile(FILE, types);
  console.log(`Written: ${FILE}`);
} else if (await Deno.readTextFile(FILE) !== types) {
  console.error(`${FILE} is out of step with the migrations: deno task types`);
  Deno.exitCode = 1;
}
