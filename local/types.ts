import { databaseTypes, TYPES_FILE } from "./database_types.ts";
import { startTestStack } from "./test_stack.ts";
import { writeFile } from "./write_file.ts";

await using stack = await startTestStack();
await writeFile(TYPES_FILE, await databaseTypes(stack.databaseUrl));
console.log("Written: supabase/functions/public-audit-log/database.types.ts");
