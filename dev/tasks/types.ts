import { supabase } from "../local/supabase_cli.ts";
import { startTemporaryStack } from "../local/temporary_stack.ts";
import { formatted, writeOrCheck } from "./generated.ts";

await using stack = await startTemporaryStack();
const options = ["--lang=typescript", "--schema=audit_log", `--remote=${stack.databaseUrl}`];
await writeOrCheck("types", {
  "supabase/functions/public-audit-log/database.types.ts": await formatted(
    "ts",
    await supabase("gen", "types", ...options),
  ),
});
