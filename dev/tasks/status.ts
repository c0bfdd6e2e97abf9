import { demoApiKey } from "./demo.ts";
import { DATA_DIR, lockData, STATUS_FILE, taskCommand } from "./options.ts";
import type { StackInfo } from "../local/stack.ts";

using lock = await lockData();
if (lock) {
  console.error(
    `Nothing runs here. Start it: ${taskCommand("start")}\n` +
      "If you started it with --data-dir, give the same --data-dir here.",
  );
  Deno.exit(1);
}
const text = await Deno.readTextFile(STATUS_FILE).catch(() => "");
if (!text) {
  console.error("Starting or stopping: try again in a few seconds.");
  Deno.exit(1);
}
const stack: StackInfo = JSON.parse(text);
const status = {
  API_URL: stack.apiUrl,
  DB_URL: stack.databaseUrl,
  PUBLISHABLE_KEY: stack.publishableKey,
  SECRET_KEY: stack.secretKey,
  AUDIT_LOG_URL: `${stack.apiUrl}/functions/v1/public-audit-log`,
};
for (const [name, value] of Object.entries(status)) console.log(`${name}="${value}"`);
try {
  console.log(`AUDIT_LOG_API_KEY="${await demoApiKey(stack, DATA_DIR)}"`);
} catch (error) {
  console.error(`The demonstration's key cannot be made: ${Object(error).message}`);
}
