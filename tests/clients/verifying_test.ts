import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import {
  AUDIT_LOG_URL,
  letChecksGrowOld,
  newOrganization,
  type Organization,
  runUpkeep,
  send,
  signUp,
  silently,
  sql,
  writeEntries,
} from "../helpers.ts";
import { runProgram } from "../run_program.ts";
import { commandsOf, installCli } from "./installed_cli.ts";
import { runRecipes } from "./recipes.ts";
import { startTimeStamping } from "./time_stamping.ts";

const INSTALLED = await installCli();
const [PROGRAM = "", ...ARGS] = commandsOf(INSTALLED).Node;
const admin = await signUp();

const DAYS = ["2026-11-18", "2026-11-19", "2026-11-20"];

/** An organization with a few sealed days, the last of more than one block. */
async function newSealedLog(): Promise<Organization> {
  const organization = await newOrganization(admin);
  for (const [n, day] of DAYS.entries()) {
    const entry = { created_at: `${day}T12:00:00Z`, user_email: "ada@analytical.example" };
    await writeEntries(organization.id, Array([2, 1, 1201][n] ?? 0).fill(entry));
  }
  await runUpkeep(sql);
  return organization;
}

/** A folder with an organization's days, and the check of it. */
class Export {
  readonly #folder = Deno.makeTempDirSync();
  readonly #organization: Organization;

  constructor(organization: Organization) {
    this.#organization = organization;
  }

  /** Fetches a day again. */
  async fetch(...days: string[]): Promise<void> {
    for (const day of days) {
      let lines = "";
      for (let offset = 0, page = ""; offset === 0 || page !== ""; offset += 1000) {
        page = await this.#get(`?start=${day}&end=${day}&limit=1000&offset=${offset}`);
        lines += page;
      }
      await Deno.writeTextFile(`${this.#folder}/${day}.ndjson`, lines);
    }
  }

  /** Saves the seals as they are now, and changes them. */
  async saveSeals(change: (items: Record<string, unknown>[]) => void = () => {}): Promise<void> {
    const page = JSON.parse(await this.#get("/seals?start=0001-01-01&end=9999-12-31&limit=1000"));
    change(page.items);
    await Deno.writeTextFile(`${this.#folder}/seals.json`, JSON.stringify(page));
  }

  async edit(day: string, change: (text: string) => string): Promise<void> {
    const file = `${this.#folder}/${day}.ndjson`;
    await Deno.writeTextFile(file, change(await Deno.readTextFile(file)));
  }

  /** What the command says, and its exit code. */
  async verify(...args: string[]): Promise<{ code: number; lines: string[] }> {
    const isOffline = args.includes("--seals");
    const { code, stdout, stderr } = await runProgram(PROGRAM, {
      args: [
        ...ARGS,
        "verify",
        `--folder=${this.#folder}`,
        ...args.map((each) => each === "--seals" ? `--seals=${this.#folder}/seals.json` : each),
      ],
      env: {
        AUDIT_LOG_URL: isOffline ? "" : AUDIT_LOG_URL,
        AUDIT_LOG_API_KEY: this.#organization.token,
        NO_COLOR: "1",
      },
      signal: AbortSignal.timeout(30_000),
    });
    return { code, lines: `${stdout}${stderr}`.trimEnd().split("\n") };
  }

  /** What to keep, as the last line says. */
  async keep(): Promise<string> {
    const { code, lines } = await this.verify();
    assertEquals(code, 0, lines.join("\n"));
    return lines.at(-1)?.match(/Keep this: (\d+:[0-9a-f]{64})$/)?.[1] ?? "";
  }

  async #get(address: string): Promise<string> {
    const response = await send(address, {
      headers: {
        Authorization: `Bearer ${this.#organization.token}`,
        Accept: address.startsWith("/seals") ? "application/json" : "application/x-ndjson",
      },
    });
    return await response.text();
  }
}

async function newExport() {
  const organization = await newSealedLog();
  const exported = new Export(organization);
  await exported.fetch(...DAYS);
  return { ...organization, exported };
}

describe("docs/verifying.md", () => {
  it("has commands that all run, find what was changed, and agree with the command", async () => {
    const { token } = await newSealedLog();
    await using authority = await startTimeStamping();
    const { outputs, outputOf } = await runRecipes(
      {
        PATH: `${INSTALLED}/node_modules/.bin:${Deno.env.get("PATH")}`,
        AUDIT_LOG_URL,
        AUDIT_LOG_API_KEY: token,
        TSA_URL: authority.url,
        NO_COLOR: "1",
      },
      "verifying.md",
      { "tsa.pem": authority.certificate },
    );
    assertMatch(outputOf("wc -l days"), /\b1201 days\/2026-11-20/);
    const [ofFile, ofSeal] = outputOf("--filter=sha256sum").split("\n");
    assertEquals(ofFile, ofSeal);
    assertMatch(outputOf("seals.json > chain"), /^3\nhas the seal that was kept: 3$/);
    const expected = [
      /^Sealed days that have no file here: 1\nAll is as it was sealed/,
      /^The seal that you kept existed at 20\S+Z\n[^]*All is as it was sealed/,
      /^2026-11-20 differs from seal 3: [^]*exit code 4$/,
    ];
    const verified = outputs.filter((text) => /Keep this|problem/.test(text));
    assertEquals(verified.length, expected.length, verified.join("\n"));
    for (const [n, output] of verified.entries()) assertMatch(output, expected[n] ?? /^$/);
  });
});

describe("the seals that the pages show", () => {
  for (const page of ["docs/verifying.md", "docs/api.md", "docs/openapi.json"]) {
    it(`are seals: ${page}`, async () => {
      const text = await Deno.readTextFile(new URL(`../../${page}`, import.meta.url));
      const shown = text.match(/\{\s*"format":[^{}]*?"seal": ?"[^{}]*\}/g) ?? [];
      assert(shown.length > 0);
      for (const each of shown) {
        const { seal, ...fields } = JSON.parse(each);
        const { format, previous, sequence, ...rest } = fields;
        const line = [format, previous, sequence, ...Object.values(rest)].join(" ");
        assertEquals(seal, createHash("sha256").update(line).digest("hex"));
      }
    });
  }
});

describe("public-audit-log verify", () => {
  it("finds a log as it was sealed, from the API or from a saved answer", async () => {
    const { exported } = await newExport();
    const kept = await exported.keep();
    await exported.saveSeals();
    for (const source of [[], ["--seals"]]) {
      const { code, lines } = await exported.verify(`--kept=${kept}`, ...source);
      assertEquals(code, 0);
      assertEquals(lines, [
        `All is as it was sealed. The chain has the seal that you kept. Keep this: ${kept}`,
      ]);
    }
  });

  it("names the day of which one byte was changed, one line is missing or one too many", async () => {
    const changes: ((text: string) => string)[] = [
      (text) => text.replace("ada@", "eve@"),
      (text) => text.replace(/\n.*\n/, "\n"),
      (text) => text + text.slice(0, text.indexOf("\n") + 1),
      () => "",
    ];
    for (const change of changes) {
      const { exported } = await newExport();
      await exported.edit("2026-11-20", change);
      const { code, lines } = await exported.verify();
      assertEquals([code, lines.length], [4, 2]);
      assertMatch(
        lines[0] ?? "",
        /^2026-11-20 differs from seal 3: 1201 entries were sealed, .*changed since 20/,
      );
    }
  });

  it("sees a line that has no line break, also right after a whole block", async () => {
    const organization = await newOrganization(admin);
    const entry = { created_at: "2026-11-20T12:00:00Z" };
    await writeEntries(organization.id, Array(1000).fill(entry));
    await runUpkeep(sql);
    const exported = new Export(organization);
    await exported.fetch("2026-11-20");
    await exported.edit("2026-11-20", (text) => `${text}{}`);
    const { code, lines } = await exported.verify();
    assertEquals(code, 4);
    assertMatch(lines[0] ?? "", /^2026-11-20 differs from seal 1: 1000 .*, the file has 1001;/);
  });

  it("passes over declared changes, and says so", async () => {
    const { id, exported } = await newExport();
    const kept = await exported.keep();
    await writeEntries(id, [{ created_at: "2026-11-19T23:00:00Z" }]);
    await sql`
      delete from audit_log.audit_entries where organization_id = ${id} and created_at < '2026-11-19'`;
    await runUpkeep(sql);
    const { code, lines } = await exported.verify(`--kept=${kept}`);
    assertEquals(code, 0);
    assertMatch(lines[0] ?? "", /^2026-11-18 is as it was sealed at .*; since then 0 .* 2 removed/);
    assertMatch(lines[1] ?? "", /^2026-11-19 is as it was sealed at .*; since then 1 .* 0 removed/);
    assertEquals(lines.length, 3);
  });

  it("says which day the service has found altered, and when it was sealed", async () => {
    const { id, exported } = await newExport();
    await silently((transaction) =>
      transaction`
        update audit_log.audit_entries set user_email = 'eve@example.com'
        where organization_id = ${id} and created_at < '2026-11-19'`
    );
    await letChecksGrowOld(id);
    await runUpkeep(sql);
    const { code, lines } = await exported.verify();
    assertEquals(code, 4);
    assertMatch(lines[0] ?? "", /^2026-11-18 is altered, says the service: .* since 20/);
    // And the export of now is not what was sealed.
    await exported.fetch("2026-11-18");
    assertMatch((await exported.verify()).lines[1] ?? "", /^2026-11-18 differs from seal 1/);
  });

  it("finds seals that were edited, left out or put in another order", async () => {
    const changes: [(items: Record<string, unknown>[]) => void, RegExp][] = [
      [(items) => Object.assign(items[1] ?? {}, { added: 1 }), /^Seal 2 .* not the hash/],
      [(items) => items.splice(1, 1), /^Seal 3 .* follows 1: seals are missing/],
      [(items) => items.shift(), /^Seal 2 .* follows nothing/],
      [(items) => items.reverse(), /^Seal 3 .* follows nothing/],
    ];
    const { exported } = await newExport();
    for (const [change, problem] of changes) {
      await exported.saveSeals(change);
      const { code, lines } = await exported.verify("--seals");
      assertEquals(code, 4);
      assertMatch(lines[0] ?? "", problem);
    }
  });

  it("tells from a kept seal that the database was restored from an older backup", async () => {
    const { id, exported } = await newExport();
    const kept = await exported.keep();
    await silently((transaction) =>
      transaction.unsafe(`
        delete from audit_log_private.seals where organization_id = '${id}' and sequence = 3;
        delete from audit_log_private.sealed_days where organization_id = '${id}' and day = '2026-11-20';
        delete from audit_log.audit_entries where organization_id = '${id}' and created_at >= '2026-11-20'`)
    );
    const shorter = await exported.verify(`--kept=${kept}`);
    assertEquals(shorter.code, 4);
    assertMatch(shorter.lines[0] ?? "", /^The seal 3 that you kept is not there, the last is 2: /);

    // Sealed on, with another history.
    await writeEntries(id, [{ created_at: "2026-11-20T12:00:00Z" }]);
    await runUpkeep(sql);
    const other = await exported.verify(`--kept=${kept}`);
    assertEquals(other.code, 4);
    assertMatch(other.lines[0] ?? "", /^Seal 3 .* is not the one that you kept/);
    assert(other.lines.some((line) => line.startsWith("2026-11-20 differs")));
  });

  it("proves with a time stamp when a seal was kept, and finds one that is of another seal", async () => {
    const { exported } = await newExport();
    const kept = await exported.keep();
    await using authority = await startTimeStamping();
    const stamp = async (text: string) => {
      const query = await runProgram("sh", {
        args: [
          "-c",
          'printf %s "$1" | openssl ts -query -data /dev/stdin -sha256 -cert | base64 -w 0',
          "sh",
          text,
        ],
      });
      const body = Uint8Array.from(atob(query.stdout), (character) => character.charCodeAt(0));
      const response = await fetch(authority.url, { method: "POST", body });
      const file = await Deno.makeTempFile();
      await Deno.writeFile(file, await response.bytes());
      return `--timestamp=${file}`;
    };
    const certificates = await Deno.makeTempFile();
    await Deno.writeTextFile(certificates, authority.certificate);
    const args = [`--kept=${kept}`, `--authorities=${certificates}`];
    const { code, lines } = await exported.verify(...args, await stamp(kept));
    assertEquals(code, 0);
    assertMatch(lines[0] ?? "", /^The seal that you kept existed at 20\d\d-.*Z$/);
    const other = await exported.verify(...args, await stamp(`1${kept}`));
    assertEquals(other.code, 4);
    assertMatch(other.lines[0] ?? "", /is no token of the seal that you kept/);
    assertEquals((await exported.verify(...args.slice(1), await stamp(kept))).code, 2);
  });

  it("without --kept says how little that shows; a day without a seal is not proven", async () => {
    const { exported } = await newExport();
    await exported.fetch("2026-11-17");
    await exported.edit("2026-11-17", () => "{}\n");
    const { code, lines } = await exported.verify();
    assertEquals([code, lines[0]], [0, "2026-11-17 is not sealed yet: nothing is proven of it"]);
    assertStringIncludes(lines[1] ?? "", "without --kept that is all this shows");
  });

  it("has exit codes for wrong arguments and for an API that gives no seals", async () => {
    const { exported, id, apiKeyId } = await newExport();
    assertEquals((await exported.verify("--kept=1")).code, 2);
    assertEquals((await exported.verify("--keep=1")).code, 2);
    await admin.client.rpc("revoke_api_key", { organization_id: id, api_key_id: apiKeyId })
      .throwOnError();
    assertEquals((await exported.verify()).code, 3);
  });
});
