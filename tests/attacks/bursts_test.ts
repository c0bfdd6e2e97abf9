// Needs a local stack. Slow.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { API_URL, entry, newLog, PUBLISHABLE_KEY, SECRET_KEY, statusOnly } from "../helpers/mod.ts";

/** Sends 200 POST requests, all at once. Returns which statuses their answers have. */
async function burst(path: string, body: unknown, headers: Record<string, string>) {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
  const sent = Array.from({ length: 200 }, () => statusOnly(fetch(API_URL + path, init)));
  return [...new Set(await Promise.all(sent))];
}

it("a burst of 200 sign-ins takes no connection of the database from 200 writes by the Data API. All are answered", async () => {
  const { id } = await newLog();
  const nobody = { email: `${crypto.randomUUID()}@example.com`, password: "wrong-password" };
  const platform = { apikey: SECRET_KEY, "Content-Profile": "audit_log" };
  const statuses = await Promise.all([
    burst("/auth/v1/token?grant_type=password", nobody, { apikey: PUBLISHABLE_KEY }),
    burst("/rest/v1/audit_entries", entry(id), platform),
  ]);
  assertEquals(statuses, [[400], [201]]);
});
