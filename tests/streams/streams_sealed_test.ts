// Needs nothing.

import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { dirname } from "node:path";
import {
  open,
  purposeOf,
  readKeys,
  seal,
} from "../../supabase/functions/audit-log-streams/sealed.ts";
import { findRuntime } from "../../dev/local/edge_function.ts";
import { newPrivateKey } from "../helpers/certificate.ts";
import { runProgram } from "../helpers/run_program.ts";

const [FIRST, SECOND] = await Promise.all([newPrivateKey(), newPrivateKey()]);
const keys = await readKeys(FIRST);
const ORGANIZATION = "00000000-0000-4000-8000-000000000001";
const SPLUNK = { kind: "splunk", url: "https://splunk.example.net:8088/a" };
const purpose = purposeOf(ORGANIZATION, SPLUNK);

describe("a sealed secret", () => {
  it("opens as it was: a token, nothing, line breaks, 10 kB, and characters of all kinds", async () => {
    const secrets = ["whsec_token", "", "a\nb\r\n", "é€😀\u0000", "x".repeat(10_000)];
    for (const secret of secrets) {
      const sealed = await seal(secret, keys.publicKey, purpose);
      assertEquals(await open(sealed, keys, purpose), secret);
      assert(/^[\w.-]{1,20000}$/.test(sealed), "the database takes no other text");
      assert(secret.length < 5 || !sealed.includes(secret));
    }
    const again = await seal("x", keys.publicKey, purpose);
    assertNotEquals(again, await seal("x", keys.publicKey, purpose));
  });

  it("opens for another path of its host, and for no other organization, kind, host or port", async () => {
    const sealed = await seal("secret", keys.publicKey, purpose);
    const sameHost = { ...SPLUNK, url: "https://SPLUNK.example.net:8088/b?c" };
    assertEquals(await open(sealed, keys, purposeOf(ORGANIZATION, sameHost)), "secret");
    const others = [
      purposeOf("00000000-0000-4000-8000-000000000002", SPLUNK),
      purposeOf(ORGANIZATION, { ...SPLUNK, kind: "webhook" }),
      purposeOf(ORGANIZATION, { ...SPLUNK, url: "https://evil.example.net:8088/a" }),
      purposeOf(ORGANIZATION, { ...SPLUNK, url: "https://splunk.example.net/a" }),
    ];
    for (const other of others) {
      await assertRejects(() => open(sealed, keys, other), Error, "enter it again", other);
    }
  });

  it("does not open when any part of it was changed", async () => {
    const parts = (await seal("secret", keys.publicKey, purpose)).split(".");
    for (const n of parts.keys()) {
      for (const other of ["", "AAAA", "!", `${parts[n]}A`]) {
        const changed = parts.with(n, other).join(".");
        await assertRejects(() => open(changed, keys, purpose), Error, "the secret");
      }
    }
  });

  it("opens after a new key came, and not where the function has only another one, or no key that is one", async () => {
    const sealed = await seal("secret", keys.publicKey, purpose);
    const [both, other] = [await readKeys(`${FIRST} ${SECOND}\n`), await readKeys(SECOND)];
    assertEquals(await open(sealed, both, purpose), "secret");
    assertEquals(both.publicKey, other.publicKey);
    assertEquals(await open(await seal("new", both.publicKey, purpose), other, purpose), "new");
    await assertRejects(() => open(sealed, other, purpose), Error, "does not have");
    for (const text of ["", "x", btoa("x"), `${FIRST} x`]) {
      await assertRejects(() => readKeys(text));
    }
  });

  it("is made as docs/keys.md says, in the Deno of Supabase's runtime, and in Node if it runs TypeScript", async () => {
    const cwd = await Deno.makeTempDir();
    const secret = "a token, é€😀";
    const page = await Deno.readTextFile(new URL("../../docs/keys.md", import.meta.url));
    const [, imported = "", path = ""] = page.match(/^(import .* from "\.\/(.*)";)$/m) ?? [];
    const [, call = ""] = page.match(/^const sealed = (.*);$/m) ?? [];
    await Deno.mkdir(`${cwd}/${dirname(path)}`, { recursive: true });
    await Deno.copyFile(new URL(`../../${path}`, import.meta.url), `${cwd}/${path}`);
    const given = [secret, keys.publicKey, ORGANIZATION, SPLUNK].map((each) =>
      JSON.stringify(each)
    );
    const main = `${imported}
const [splunkToken, public_key, uuid, destination] = [${given}];
console.log(${call});`;
    await Deno.writeTextFile(`${cwd}/main.mjs`, main);
    const programs = [[await findRuntime(), "run", "--no-prompt", "--no-config", "main.mjs"]];
    const { stdout } = await runProgram("node", { args: ["-p", "process.features.typescript"] });
    if (stdout.startsWith("strip")) programs.push(["node", "main.mjs"]);
    for (const [program = "", ...args] of programs) {
      const { stdout, stderr } = await runProgram(program, { args, cwd });
      assertEquals(await open(stdout.trim(), keys, purpose), secret, stderr);
    }
    await Deno.remove(cwd, { recursive: true });
  });
});
