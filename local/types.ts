import { databaseTypes, TYPES_FILE } from "./database_types.ts";
import { startTestStack } from "./test_stack.ts";

await using stack = await startTestStack();
await Deno.writeTextFile(TYPES_FILE, await databaseTypes(stack.databaseUrl));
console.log("Written: supabase/functions/public-audit-log/database.types.ts");
