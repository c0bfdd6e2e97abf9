import { assertEquals } from "@std/assert";
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

[functions.audit-log-streams]
# The database calls it with a secret word, not with a JWT.
verify_jwt = false
# Uploaded with it, so that Supabase runs the versions that were tested.
static_files = ["./functions/audit-log-streams/deno.lock"]
`;

const PATCHED = `${
  CONFIG.replace('"graphql_public",', '"graphql_public", "audit_log",')
}\n${SECTION}`;

describe("patchConfig()", () => {
  it("adds the schema and the section, and keeps comments, Windows line ends and a byte order mark", () => {
    const windows = (text: string) => `\uFEFF${text.replaceAll("\n", "\r\n")}`;
    assertEquals(patchConfig(CONFIG), PATCHED);
    assertEquals(patchConfig(windows(CONFIG)), windows(PATCHED));
    assertEquals(patchConfig(PATCHED), PATCHED);
  });

  it("adds the schema to their list, however it is written", () => {
    const pairs = {
      '[api]\nschemas = ["public"]\t# c\n': '[api]\nschemas = ["public", "audit_log"]\t# c\n',
      'api.schemas = ["public",]\n': 'api.schemas = ["public", "audit_log",]\n',
      "[api]\nschemas = []\n": '[api]\nschemas = ["audit_log"]\n',
      "[api]\nport = 1\n\n# DB\n[db]\nport = 2\n":
        '[api]\nschemas = ["public", "graphql_public", "audit_log"]\nport = 1\n\n# DB\n[db]\nport = 2\n',
      'project_id = "x"\n':
        'project_id = "x"\n\n[api]\nschemas = ["public", "graphql_public", "audit_log"]\n',
      '[api]\nschemas = ["audit_log"]\n': '[api]\nschemas = ["audit_log"]\n',
    };
    for (const [before, after] of Object.entries(pairs)) {
      assertEquals(patchConfig(before), after + SECTION);
    }
  });

  it("changes nothing if it cannot edit the file: a person does", () => {
    const done = 'api.schemas = ["audit_log"]\n';
    const unusual = [
      "[api\n",
      "# \uFFFD\n",
      `${done}[functions.public-audit-log]\nverify_jwt = true\n`,
      `${done}[functions.public-audit-log]\nverify_jwt = false\n`,
      `${done}functions = {}\n`,
      '[api]\nschemas = "public"\n',
      'api = { schemas = ["public"] }\n',
      '[other]\nschemas = ["x"]\n\n[api]\nschemas = ["public"]\n',
      '[api]\nschemas = [\n  "public" # c\n]\n',
      "api = 1\n",
    ];
    for (const text of unusual) assertEquals(patchConfig(text), null, text);
  });
});
