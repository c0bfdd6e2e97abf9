// Needs nothing.

import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { AuditLogError } from "../../cli/client.ts";
import { install } from "../../cli/install/install.ts";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { runDeno } from "../helpers/run_program.ts";

type Files = Record<string, string>;

const FUNCTION = "supabase/functions/public-audit-log";
const COPIES = "supabase/schemas/public-audit-log";
const NOW = new Date("2026-12-01T10:01:30Z");

const FUNCTIONS: Files = {
  "supabase/functions/audit-log-streams/destinations/http.ts": "export {};\n",
  [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
};
const OURS: Files = {
  "supabase/migrations/20261120000001_tables.sql": "create table a ();\n",
  "supabase/migrations/20261120000002_people.sql": "create function caller();\n",
  [`${FUNCTION}/.env`]: "SECRET=x\n",
  ...FUNCTIONS,
};
const CONFIG = '[api]\nschemas = ["public"] # theirs\n';
const THEIRS: Files = {
  "supabase/config.toml": CONFIG,
  "supabase/migrations/20250101000000_theirs.sql": "create table theirs ();\n",
  "supabase/functions/theirs/index.ts": "Deno.serve();\n",
};
const TABLES = "supabase/migrations/20261201100100_audit_log_01_tables.sql";
const PEOPLE = "supabase/migrations/20261201100101_audit_log_02_people.sql";
const INSTALLED: Files = {
  ...THEIRS,
  "supabase/config.toml": patchConfig(CONFIG) ?? "",
  [TABLES]: "create table a ();\n",
  [PEOPLE]: "create function caller();\n",
  ...FUNCTIONS,
};
const DECLARED = { "supabase/schemas/cluster/theirs.sql": "create table theirs ();\n" };
const COPIED = {
  [`${COPIES}/01_tables.sql`]: "create table a ();\n",
  [`${COPIES}/02_people.sql`]: "create function caller();\n",
};
const NOTHING = "is installed already: nothing to do";

/** A project into which our files can be installed, with a folder beside it. */
class Project implements Disposable {
  readonly folder = Deno.makeTempDirSync();
  readonly path = join(this.folder, "theirs");

  constructor(files: Files = THEIRS) {
    this.write(files);
  }

  write(files: Files, folder = this.path): void {
    for (const [path, text] of Object.entries(files)) {
      Deno.mkdirSync(dirname(join(folder, path)), { recursive: true });
      Deno.writeTextFileSync(join(folder, path), text);
    }
  }

  install(ours: Files = OURS): string {
    const source = join(this.folder, crypto.randomUUID());
    this.write(ours, source);
    return install(source, this.path, NOW);
  }

  files(): Files {
    const paths = readdirSync(this.path, { recursive: true, encoding: "utf8" })
      .filter((path) => Deno.statSync(join(this.path, path)).isFile);
    return Object.fromEntries(
      paths.map((path) => [path, Deno.readTextFileSync(join(this.path, path))]),
    );
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}

describe("installing", () => {
  it("adds our migrations after theirs, the functions and lines of config.toml, and says what to do next", () => {
    using project = new Project();
    assertStringIncludes(project.install(), "db push");
    assertEquals(project.files(), INSTALLED);
  });

  it("gives our migrations the present minute as version, or what comes after their newest", () => {
    const versions = {
      "20991231235959": "20991231235960",
      "20261201100100123": "20261201100101",
      "20261201": "20261202000000",
      "0001": "20261201100100",
      "3": "40000000000000",
    };
    for (const [newest, first] of Object.entries(versions)) {
      using project = new Project({ [`supabase/migrations/${newest}_theirs.sql`]: "" });
      project.install();
      const ours = [`${first}_audit_log_01_tables.sql`, `${+first + 1}_audit_log_02_people.sql`];
      const files = readdirSync(join(project.path, "supabase/migrations")).sort();
      assertEquals(files, [`${newest}_theirs.sql`, ...ours]);
    }
  });

  it("continues after a run that was killed anywhere", () => {
    const written = Object.entries(INSTALLED).filter(([path, text]) => THEIRS[path] !== text);
    for (let done = 0; done < written.length; done++) {
      using project = new Project({ ...THEIRS, ...Object.fromEntries(written.slice(0, done)) });
      // The run was killed between writing and renaming.
      project.write({ "supabase/.audit_log_installing": "hal" });
      project.install();
      const withoutTimes = (files: Files) =>
        Object.entries(files).map(([path, text]) => [path.replace(/\d{14}/, ""), text]).sort();
      assertEquals(withoutTimes(project.files()), withoutTimes(INSTALLED));
      assertStringIncludes(project.install(), NOTHING);
    }
  });

  it("again finds nothing to do, also after Git has changed line ends, or they have changed or removed people.sql", () => {
    using project = new Project({ ...INSTALLED, ...DECLARED, ...COPIED });
    for (const [path, text] of Object.entries(project.files())) {
      if (path !== "supabase/config.toml") project.write({ [path]: text.replaceAll("\n", "\r\n") });
    }
    project.write({ [PEOPLE]: "-- theirs\n", [`${COPIES}/02_people.sql`]: "-- theirs\n" });
    const before = project.files();
    assertStringIncludes(project.install(), NOTHING);
    assertEquals(project.files(), before);
    for (const path of [PEOPLE, `${COPIES}/02_people.sql`]) {
      Deno.removeSync(join(project.path, path));
    }
    assertStringIncludes(project.install(), NOTHING);
  });
});

describe("in a project with declarative schemas", () => {
  const configOf = (path: string) => ({
    "supabase/config.toml": `[experimental.pgdelta]\ndeclarative_schema_path = "${path}"\n`,
  });
  it("our migrations are also copied into a folder beside theirs", () => {
    using project = new Project({ ...THEIRS, ...DECLARED });
    assertStringIncludes(project.install(), "declarative");
    assertEquals(project.files(), { ...INSTALLED, ...DECLARED, ...COPIED });
  });

  it("the folder is the one that config.toml names. Outside of supabase, a person copies them", () => {
    const theirs = { ...THEIRS, ...DECLARED, "schemas/a.sql": "", "supabase/database/a.sql": "" };
    using project = new Project({ ...theirs, ...configOf("./database/") });
    project.install();
    const copy = project.files()["supabase/database/public-audit-log/01_tables.sql"];
    assertEquals(copy, "create table a ();\n");
    for (const [path, said] of [["../schemas", "schemas"], ["/schemas", "/schemas"]]) {
      using other = new Project({ ...theirs, ...configOf(`${path}`) });
      assertStringIncludes(other.install(), `Your declarative schemas are in ${said}.`);
      const paths = Object.keys(other.files());
      assertEquals(paths.filter((path) => path.endsWith("/01_tables.sql")), []);
    }
  });

  it("nothing is copied where no SQL is declared: the next sync would drop all that is theirs", () => {
    for (const declared of ["supabase/schemas/README.md", "supabase/other/theirs.sql"]) {
      using project = new Project({ ...THEIRS, [declared]: "" });
      project.install();
      assertEquals(project.files(), { ...INSTALLED, [declared]: "" });
    }
  });
});

describe("installing is refused, and changes nothing,", () => {
  const index = `${FUNCTION}/index.ts`;
  const copy = `${COPIES}/01_tables.sql`;
  const { [TABLES]: _, ...squashed } = INSTALLED;
  const refusals: Record<string, [Files, string[]]> = {
    "after a version that none follows": [{ "supabase/migrations/9_a.sql": "" }, ["Rename it"]],
    "after the last day": [{ "supabase/migrations/99991231235959_a.sql": "" }, ["Rename it"]],
    "where there is no Supabase project": [{ "client.ts": "" }, ["supabase init"]],
    "where a function of that name is theirs": [{ ...THEIRS, [index]: "theirs" }, [index]],
    "where files of ours were edited": [
      { ...INSTALLED, ...DECLARED, ...COPIED, [TABLES]: "edited", [index]: "", [copy]: "edited" },
      [`${TABLES} is not`, `${index} is not`, `${copy} is not`],
    ],
    "where migrations are gone, as after a squash": [squashed, ["log_01_tables.sql is gone"]],
  };
  for (const [where, [theirs, words]] of Object.entries(refusals)) {
    it(where, () => {
      using project = new Project(theirs);
      const { message } = assertThrows(() => project.install(), AuditLogError);
      for (const word of words) assertStringIncludes(message, word);
      assertEquals(project.files(), theirs);
    });
  }

  it("with an exit code that says so, also as deno task install, which INIT_CWD tells where it was typed", async () => {
    using project = new Project({ ...THEIRS, [index]: "theirs" });
    const main = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
    const args = ["run", "--allow-all", main, "install", "."];
    const { code, stderr } = await runDeno({ args, env: { INIT_CWD: project.path } });
    assertEquals(code, 2);
    assertStringIncludes(stderr, `${index} is not as in version`);
  });
});

describe("nothing outside the folder supabase is read, written or deleted", () => {
  const folders = ["supabase", "supabase/migrations", "supabase/functions", "supabase/schemas"];
  const files = ["supabase/config.toml", `${FUNCTION}/index.ts`, TABLES, `${COPIES}/01_tables.sql`];
  for (const path of [...folders, FUNCTION, COPIES, ...files]) {
    it(`where ${path} is a link: the installation is refused`, () => {
      using project = new Project({ ...INSTALLED, ...DECLARED, ...COPIED });
      const outside = join(project.folder, "outside");
      Deno.renameSync(join(project.path, path), outside);
      Deno.symlinkSync(outside, join(project.path, path));
      const before = { ...project.files(), outside: Deno.statSync(outside).mtime };
      assertThrows(() => project.install(), AuditLogError, `${path} is a link`);
      assertEquals({ ...project.files(), outside: Deno.statSync(outside).mtime }, before);
    });
  }

  it("where a link stands at the name of the temporary file: it is removed", () => {
    using project = new Project();
    const secret = join(project.folder, "secret.txt");
    Deno.writeTextFileSync(secret, "kept");
    Deno.symlinkSync(secret, join(project.path, "supabase/.audit_log_installing"));
    project.install();
    assertEquals(Deno.readTextFileSync(secret), "kept");
    assertEquals(project.files(), INSTALLED);
  });

  it("where a folder stands in the place of a file: the installation is refused", () => {
    using project = new Project({ ...THEIRS, [`${FUNCTION}/index.ts/theirs`]: "" });
    assertThrows(() => project.install(), AuditLogError, `${FUNCTION}/index.ts is a link`);
  });
});

/** A config.toml with everything that is hard to keep. */
const HARD = `# Ours
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
  HARD.replace('"graphql_public",', '"graphql_public", "audit_log",')
}\n${SECTION}`;

describe("patchConfig()", () => {
  it("adds the schema and the section, and keeps comments, Windows line ends and a byte order mark", () => {
    const windows = (text: string) => `\uFEFF${text.replaceAll("\n", "\r\n")}`;
    assertEquals(patchConfig(HARD), PATCHED);
    assertEquals(patchConfig(windows(HARD)), windows(PATCHED));
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
