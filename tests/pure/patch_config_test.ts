import { assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { patchConfig } from "../../cli/install/patch_config.ts";

/** A config.toml with everything that is hard to keep. */
const CONFIG = `# Ours
project_id = "theirs" # do not rename

[api]
port = 54321
# Served by the Data API.
schemas = [
  "public", # the app's
  "graphql_public",
]   # end

[functions.theirs]
verify_jwt = true
# The end, without a line end`;

const SECTION = `
[functions.public-audit-log]
# Its callers hold API keys (pck_…), not the JWTs of signed-in people.
verify_jwt = false
# Uploaded with it, so that Supabase runs the versions that were tested.
static_files = ["./functions/public-audit-log/deno.lock"]
`;

const PATCHED = `${
  CONFIG.replace(`"graphql_public",\n`, `"graphql_public",\n  "audit_log",\n`)
}\n${SECTION}`;

describe("patchConfig()", () => {
  it("adds the schema and the section, and keeps comments, Windows line ends and a byte order mark", () => {
    const windows = (text: string) => `\uFEFF${text.replaceAll("\n", "\r\n")}`;
    assertEquals(patchConfig(CONFIG), { text: PATCHED, byHand: [] });
    assertEquals(patchConfig(windows(CONFIG)), { text: windows(PATCHED), byHand: [] });
  });

  it("adds the schema to their list, however it is written", () => {
    const pairs = {
      '[api]\nschemas = ["public"]   # c\n': '[api]\nschemas = ["public", "audit_log"]   # c\n',
      'api.schemas = ["public",]\n': 'api.schemas = ["public", "audit_log",]\n',
      "[api]\nschemas = []\n": '[api]\nschemas = ["audit_log"]\n',
      'api = { schemas = ["public"] }\n': 'api = { schemas = ["public", "audit_log"] }\n',
      "[api]\nport = 1\n\n# DB\n[db]\nport = 2\n":
        '[api]\nschemas = ["public", "graphql_public", "audit_log"]\nport = 1\n\n# DB\n[db]\nport = 2\n',
      'project_id = "x"\n':
        'project_id = "x"\n\n[api]\nschemas = ["public", "graphql_public", "audit_log"]\n',
      '[api]\nschemas = ["audit_log"]\n': '[api]\nschemas = ["audit_log"]\n',
    };
    for (const [before, after] of Object.entries(pairs)) {
      assertEquals(patchConfig(before), { text: after + SECTION, byHand: [] });
    }
  });

  it("changes nothing if nothing is missing", () => {
    const text =
      `api.schemas = ["audit_log"]\n[functions]\n"public-audit-log" = { verify_jwt = false, ` +
      `static_files = ["./functions/public-audit-log/deno.lock", "./x"], enabled = true }\n`;
    assertEquals(patchConfig(text), { text, byHand: [] });
  });

  it("says which lines to add by hand if it cannot edit the file", () => {
    const schemas = '[api]\nschemas = ["public", "graphql_public", "audit_log"]';
    const section = SECTION.split("\n").filter((line) => line && !line.startsWith("#")).join("\n");
    const done = 'api.schemas = ["audit_log"]\n';
    const cases: [text: string, lines: string[]][] = [
      ["[api\n", [schemas, section, "not valid TOML: Error parsing TOML (1, 5): Expected"]],
      [`${done}[functions.public-audit-log]\nverify_jwt = true\n`, [section]],
      [`${done}[functions.public-audit-log]\nverify_jwt = false\n`, [section]],
      [`${done}functions = {}\n`, [section]],
      // The library would change line ends of two kinds to one kind.
      [`[api]\r\nschemas = []\n${section}\n`, [schemas]],
      [`[api]\nschemas = "public"\n${section}\n`, [schemas]],
      // The library would turn the tab into a space.
      [`[api]\nschemas = ["public"]\t# c\n${section}\n`, [schemas]],
      [`api = 1\n${section}\n`, [schemas]],
    ];
    for (const [before, lines] of cases) {
      const { text, byHand } = patchConfig(before);
      assertEquals(text, before);
      for (const line of lines) assertStringIncludes(byHand.join("\n\n"), line);
    }
  });
});
