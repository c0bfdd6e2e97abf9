import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  bearerToken,
  isWellFormed,
  tokenHash,
} from "../../supabase/functions/public-audit-log/token.ts";

/** Made by audit_log_private.new_token() in Postgres, so that both sides of the checksum are compared. */
const TOKENS = [
  "pck_kA4945O5tfG3F6CKCB17uVtUP5v5Qp203PkdLk",
  "pck_5zgQj7yk1m1xkVDJfMaITQiGfJ3DvyFu48O33h",
  "pck_8w59D9S0VndTdyzb7XT9qoUvI3WTV1OE3b1Zfr",
];
const [TOKEN = ""] = TOKENS;

describe("bearerToken()", () => {
  it("takes the scheme in any case and any number of spaces after it", () => {
    for (const header of ["Bearer x", "bearer x", "BEARER   x"]) {
      assertEquals(bearerToken(header), "x");
    }
  });

  it("is null without a header or with another scheme", () => {
    for (const header of [null, "", "Bearer", "Bearerx", "Basic x", "x", " Bearer x"]) {
      assertEquals(bearerToken(header), null, JSON.stringify(header));
    }
  });
});

describe("isWellFormed()", () => {
  it("accepts the tokens that Postgres makes", async () => {
    for (const token of TOKENS) assertEquals(await isWellFormed(token), true, token);
  });

  it("refuses a token with any one character changed", async () => {
    for (let i = 0; i < TOKEN.length; i++) {
      const typo = TOKEN.slice(0, i) + (TOKEN[i] === "0" ? "1" : "0") + TOKEN.slice(i + 1);
      assertEquals(await isWellFormed(typo), false, typo);
    }
  });

  it("refuses every other shape", async () => {
    const [short, typo] = [TOKEN.slice(0, -1), `${TOKEN.slice(0, -1)}é`];
    const prefixes = [TOKEN.replace("pck_", "PCK_"), TOKEN.replace("pck_", "sk__")];
    for (const token of ["", "pck_", short, typo, `${TOKEN}0`, `${TOKEN}\n`, ...prefixes]) {
      assertEquals(await isWellFormed(token), false, JSON.stringify(token));
    }
  });
});

describe("tokenHash()", () => {
  it("is SHA-256 in hexadecimal", async () => {
    assertEquals(
      await tokenHash("abc"),
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
  });
});
