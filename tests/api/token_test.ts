// Needs nothing.

import { assertEquals } from "@std/assert";
import { it } from "@std/testing/bdd";
import { isWellFormed } from "../../supabase/functions/public-audit-log/token.ts";

// tests/attacks/hostile_input_test.ts tests the scheme before a token.

/** Made by audit_log_private.new_token() in Postgres, which computes the checksum, too. */
const TOKEN = "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk";

it("a token from Postgres is well-formed. With any one character changed, or in another shape, it is not", async () => {
  assertEquals(await isWellFormed(TOKEN), true);
  const typos = Array.from(
    TOKEN,
    (character, n) => TOKEN.slice(0, n) + (character === "0" ? "1" : "0") + TOKEN.slice(n + 1),
  );
  const [short, accented] = [TOKEN.slice(0, -1), `${TOKEN.slice(0, -1)}é`];
  const prefixes = [TOKEN.replace("pck_", "PCK_"), TOKEN.replace("pck_", "sk__")];
  const others = ["", "pck_", short, accented, `${TOKEN}0`, `${TOKEN}\n`, ...prefixes];
  for (const token of [...typos, ...others]) {
    assertEquals(await isWellFormed(token), false, JSON.stringify(token));
  }
});
