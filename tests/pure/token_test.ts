import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { bearerToken, isWellFormed } from "../../supabase/functions/public-audit-log/token.ts";
import { tokenHash } from "../../supabase/functions/public-audit-log/token.ts";

/** Made by audit_log_private.new_token() in Postgres, which computes the checksum, too. */
const TOKENS = [
  "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk",
  "pck_5zgQj7yk1m1xkVDJfMaITQiGfJ3DvyFu48O33h",
  "pck_8w59D9S0VndTdyzb7XT9qoUvI3WTV1OE3b1Zfr",
];
const [TOKEN = ""] = TOKENS;

describe("bearerToken()", () => {
  it("takes the scheme in any case and any number of spaces after it, and nothing else", () => {
    const headers = ["Bearer x", "bearer x", "BEARER   x"];
    const others = [null, "", "Bearer", "Bearerx", "Basic x", "x", " Bearer x"];
    assertEquals(headers.map(bearerToken), ["x", "x", "x"]);
    assertEquals(others.map(bearerToken), others.map(() => null));
  });
});

describe("isWellFormed()", () => {
  it("accepts the tokens that Postgres makes", async () => {
    for (const token of TOKENS) assertEquals(await isWellFormed(token), true, token);
  });

  it("refuses a token with any one character changed, and every other shape", async () => {
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
});

describe("tokenHash()", () => {
  it("is SHA-256 in hexadecimal", async () => {
    const hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assertEquals(await tokenHash("abc"), hash);
  });
});
