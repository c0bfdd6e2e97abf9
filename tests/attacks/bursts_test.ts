// Needs a local stack. Slow.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { API_URL, newLog, PUBLISHABLE_KEY, SECRET_KEY, statusOnly } from "../helpers/mod.ts";

/** Sends POST requests, all at once. Returns which statuses their answers have. */
async function burst(
  path: string,
  count: number,
  body: unknown,
  headers: Record<string, string>,
): Promise<number[]> {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
  const sent = Array.from({ length: count }, () => statusOnly(fetch(API_URL + path, init)));
  return [...new Set(await Promise.all(sent))];
}

it("a burst of 200 sign-ins takes no connection of the database from 200 writes by the Data API. All are answered", async () => {
  const { id } = await newLog();
  const nobody = { email: `${crypto.randomUUID()}@example.com`, password: "wrong-password" };
  const entry = { organization_id: id, action: "agent_added", user_email: "ada@example.com" };
  const statuses = await Promise.all([
    burst("/auth/v1/token?grant_type=password", 200, nobody, { apikey: PUBLISHABLE_KEY }),
    burst("/rest/v1/audit_entries", 200, { ...entry, agent_name: "A", data: {} }, {
      apikey: SECRET_KEY,
      "Content-Profile": "audit_log",
    }),
  ]);
  assertEquals(statuses, [[400], [201]]);
});
