import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { applyChanges, InstallError } from "../../tasks/install_files.ts";
import { type Installation, planInstallation } from "../../tasks/installation.ts";
import { runDeno } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FUNCTION = "supabase/functions/public-audit-log";
const NOW = new Date("2026-12-01T10:00:58Z");

/** Texts by path. */
type Files = Record<string, string>;

/** A version of ours, in small. */
const OURS: Files = {
  "supabase/migrations/20261120000001_tables.sql": "create table a ();\n",
  "supabase/migrations/20261120000002_people.sql": "create function caller();\n",
  "supabase/migrations/20261120000003_keys.sql": "create table keys ();\n",
  [`${FUNCTION}/deno.json`]: "{}\n",
  [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
  [`${FUNCTION}/old.ts`]: "export {};\n",
};

/** The next version: a migration and a file are new, a file has changed and one is gone. */
const NEXT: Files = {
  ...OURS,
  "supabase/migrations/20270101000000_more.sql": "create table more ();\n",
  [`${FUNCTION}/index.ts`]: "Deno.serve(handler);\n",
  [`${FUNCTION}/handler.ts`]: "export function handler() {}\n",
};
delete NEXT[`${FUNCTION}/old.ts`];

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

const THEIRS: Files = {
  "supabase/config.toml": CONFIG,
  "supabase/migrations/20250101000000_theirs.sql": "create table theirs ();\n",
  "supabase/functions/theirs/index.ts": "Deno.serve();\n",
};

const SECTION = `
[functions.public-audit-log]
# Its callers hold API keys (pck_…), not the JWTs of signed-in people.
verify_jwt = false
# Uploaded with it, so that the platform runs the versions that were tested.
static_files = ["./functions/public-audit-log/deno.lock"]
`;

const PATCHED = CONFIG.replace(
  `"graphql_public",\n`,
  `"graphql_public",\n  "audit_log",\n`,
) + `\n${SECTION}`;

/** A project of somebody's, and a version of ours to install into it. */
class Project implements AsyncDisposable {
  readonly #folder = Deno.makeTempDirSync();
  readonly path = join(this.#folder, "theirs");

  constructor(files: Files = THEIRS) {
    this.write(files);
  }

  write(files: Files): void {
    for (const [path, text] of Object.entries(files)) writeFile(join(this.path, path), text);
  }

  plan(ours: Files = OURS, now: Date = NOW): Installation {
    const source = join(this.#folder, crypto.randomUUID());
    for (const [path, text] of Object.entries(ours)) writeFile(join(source, path), text);
    return planInstallation(source, this.path, { version: "1.2.0", now });
  }

  install(ours?: Files, now?: Date): Installation {
    const installation = this.plan(ours, now);
    applyChanges(this.path, installation.changes);
    return installation;
  }

  /** Installing must fail, change nothing and say these words. */
  refuses(words: string[], ours?: Files): void {
    const before = this.files();
    const { message } = assertThrows(() => this.install(ours), InstallError);
    for (const word of words) assertStringIncludes(message, word);
    assertEquals(this.files(), before);
  }

  files(): Files {
    return readFolder(this.path);
  }

  migrations(): string[] {
    return Array.from(Deno.readDirSync(join(this.path, "supabase/migrations")), ({ name }) => name)
      .sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#folder, { recursive: true });
  }
}

function writeFile(path: string, text: string): void {
  Deno.mkdirSync(dirname(path), { recursive: true });
  Deno.writeTextFileSync(path, text);
}

function readFolder(folder: string, prefix = ""): Files {
  const files: Files = {};
  for (const { name, isDirectory } of Deno.readDirSync(folder)) {
    const path = join(folder, name);
    if (isDirectory) Object.assign(files, readFolder(path, `${prefix}${name}/`));
    // Not as text, which would drop a byte order mark.
    else {files[prefix + name] = Array.from(Deno.readFileSync(path), (byte) =>
        String.fromCharCode(byte)).join("");}
  }
  return files;
}

function bytesOf(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

describe("installing", () => {
  it("adds our migrations after theirs and the function, and leaves their files as they are", async () => {
    await using project = new Project();
    const { isFirst, byHand } = project.install();
    assertEquals([isFirst, byHand], [true, []]);
    const files = project.files();
    const manifest = JSON.parse(files[`${FUNCTION}/installed.json`] ?? "");
    assertEquals(manifest.version, "1.2.0");
    assertEquals(files, {
      ...THEIRS,
      "supabase/config.toml": bytesOf(PATCHED),
      "supabase/migrations/20261201100058_audit_log_01_tables.sql": "create table a ();\n",
      "supabase/migrations/20261201100059_audit_log_02_people.sql": "create function caller();\n",
      "supabase/migrations/20261201100100_audit_log_03_keys.sql": "create table keys ();\n",
      [`${FUNCTION}/deno.json`]: "{}\n",
      [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
      [`${FUNCTION}/old.ts`]: "export {};\n",
      [`${FUNCTION}/installed.json`]: files[`${FUNCTION}/installed.json`],
    });
  });

  it("names our migrations after their newest, also if that lies in the future", async () => {
    for (
      const [newest, first] of [
        ["20991231235959", "21000101000000"],
        ["20261201100058", "20261201100059"],
        ["20261201100058123", "20261201100059"],
        ["20270101", "20270102000000"],
        ["20261201", "20261202000000"],
        ["20261130", "20261201100058"],
        ["0001", "20261201100058"],
        ["3", "40000101000000"],
      ]
    ) {
      await using project = new Project({ [`supabase/migrations/${newest}_theirs.sql`]: "" });
      project.install();
      const names = project.migrations();
      assertEquals(names[1], `${first}_audit_log_01_tables.sql`);
      assertEquals(names.map((name) => name.replace(/^\d+_/, "")), [
        "theirs.sql",
        "audit_log_01_tables.sql",
        "audit_log_02_people.sql",
        "audit_log_03_keys.sql",
      ]);
    }
  });

  it("stops at a migration that nothing can come after", async () => {
    for (const newest of ["9", "99991231235959", "99999999999999"]) {
      await using project = new Project({ [`supabase/migrations/${newest}_theirs.sql`]: "" });
      project.refuses([newest, "rename it"]);
    }
  });

  it("works with a folder that has no migrations, no functions or no config.toml", async () => {
    for (const [path, text] of Object.entries({ ...THEIRS, "supabase/config.json": "{}" })) {
      await using project = new Project({ [path]: text });
      project.install();
      assertEquals(project.install().changes, []);
    }
  });

  it("stops where there is no Supabase project, and in this repository", async () => {
    await using project = new Project({ "supabase/client.ts": "" });
    project.refuses(["has no folder supabase", "npx supabase init"]);
    const install = () => planInstallation(ROOT, ROOT, { version: "1.2.0" });
    assertThrows(install, InstallError, "is this repository");
  });

  it("stops before it changes anything where it cannot write, and names the place", async () => {
    for (const path of ["supabase/migrations", "supabase/functions", FUNCTION]) {
      await using project = new Project({ "supabase/config.toml": CONFIG, [path]: "a file" });
      project.refuses([path]);
    }
  });

  it("stops at a function of that name which is not ours", async () => {
    await using project = new Project({ ...THEIRS, [`${FUNCTION}/index.ts`]: "// theirs\n" });
    project.refuses([`${FUNCTION}/index.ts`]);
  });

  it("goes on where a run was killed, and ends as if it had not been", async () => {
    await using whole = new Project();
    const { changes } = whole.install();
    for (let done = 0; done <= changes.length; done++) {
      await using project = new Project();
      applyChanges(project.path, project.plan().changes.slice(0, done));
      // Killed between writing and renaming.
      const path = changes[done]?.path;
      if (path) project.write({ [join(dirname(path), ".audit_log_installing")]: "hal" });
      project.install();
      assertEquals(project.files(), whole.files());
    }
  });

  it("names the file at which it fails, and later goes on from there", async () => {
    await using whole = new Project();
    whole.install();
    await using project = new Project();
    const obstacle = join(project.path, FUNCTION, ".audit_log_installing");
    Deno.mkdirSync(obstacle, { recursive: true });
    assertThrows(() => project.install(), InstallError, `Stopped at ${FUNCTION}/deno.json`);
    assertEquals(project.migrations().length, 4);
    Deno.removeSync(obstacle);
    project.install();
    assertEquals(project.files(), whole.files());
  });
});

describe("installing again", () => {
  it("changes nothing", async () => {
    await using project = new Project();
    project.install();
    const before = project.files();
    const { isFirst, changes } = project.install(OURS, new Date());
    assertEquals([isFirst, changes], [false, []]);
    assertEquals(project.files(), before);
  });

  it("adds what is new, and replaces and removes files of the function", async () => {
    await using project = new Project();
    project.install();
    project.write({
      "supabase/migrations/20270601000000_theirs.sql": "create table later ();\n",
      [`${FUNCTION}/theirs.ts`]: "export {};\n",
    });
    const before = project.files();
    const { changes } = project.install(NEXT);
    const added = "supabase/migrations/20270601000001_audit_log_04_more.sql";
    assertEquals(changes.map(({ path, text }) => [path, text === null]), [
      [added, false],
      [`${FUNCTION}/handler.ts`, false],
      [`${FUNCTION}/index.ts`, false],
      [`${FUNCTION}/old.ts`, true],
      [`${FUNCTION}/installed.json`, false],
    ]);
    const expected: Files = {
      ...before,
      [added]: "create table more ();\n",
      [`${FUNCTION}/handler.ts`]: "export function handler() {}\n",
      [`${FUNCTION}/index.ts`]: "Deno.serve(handler);\n",
    };
    delete expected[`${FUNCTION}/old.ts`];
    const after = project.files();
    const manifest = `${FUNCTION}/installed.json`;
    assertEquals({ ...after, [manifest]: "" }, { ...expected, [manifest]: "" });
    assertEquals(project.install(NEXT).changes, []);
  });

  it("stops at files of ours that were changed, names them, and changes nothing", async () => {
    const migration = "supabase/migrations/20261201100100_audit_log_03_keys.sql";
    const edited = [migration, `${FUNCTION}/index.ts`, `${FUNCTION}/old.ts`];
    await using project = new Project();
    project.install();
    for (const path of edited) project.write({ [path]: "-- edited\n" });
    project.refuses(edited, NEXT);
    // Also when nothing is new.
    project.refuses([migration, `${FUNCTION}/index.ts`]);
  });

  it("never touches the seam again: changed, or taken away", async () => {
    const seam = "supabase/migrations/20261201100059_audit_log_02_people.sql";
    await using project = new Project();
    project.install();
    project.write({ [seam]: "create function caller() -- of theirs\n" });
    project.install(NEXT);
    assertEquals(project.files()[seam], "create function caller() -- of theirs\n");
    Deno.removeSync(join(project.path, seam));
    const { changes, missing } = project.install(NEXT);
    assertEquals([changes, missing], [[], ["02_people.sql"]]);
  });

  it("does not bring back migrations that were squashed", async () => {
    await using project = new Project();
    project.install();
    const folder = join(project.path, "supabase/migrations");
    for (const name of project.migrations()) Deno.removeSync(join(folder, name));
    project.write({ "supabase/migrations/20261201100100_squashed.sql": "" });
    const { missing } = project.install(NEXT);
    assertEquals(missing, ["01_tables.sql", "02_people.sql", "03_keys.sql"]);
    assertEquals(project.migrations(), [
      "20261201100100_squashed.sql",
      "20261201100101_audit_log_04_more.sql",
    ]);
  });

  it("takes files whose line ends Git has changed as unchanged", async () => {
    await using project = new Project();
    project.install();
    for (const [path, text] of Object.entries(project.files())) {
      if (path !== "supabase/config.toml") project.write({ [path]: text.replaceAll("\n", "\r\n") });
    }
    assertEquals(project.install().changes, []);
    assertEquals(project.install(NEXT).changes.length, 5);
  });

  it("stops at an older version than the one installed", async () => {
    await using project = new Project();
    project.install(NEXT);
    project.refuses(["04_more.sql", "newer version"], OURS);
  });

  it("stops at a migration that two branches have installed", async () => {
    const twice = "supabase/migrations/20261205000000_audit_log_01_tables.sql";
    await using project = new Project();
    project.install();
    project.write({ [twice]: "create table a ();\n" });
    project.refuses(["20261201100058_audit_log_01_tables.sql", "20261205000000_audit_log_01"]);
  });

  it("stops where a later migration has dropped the schemas, until the old files have other names", async () => {
    const leave = "supabase/migrations/20261205000000_audit_log_leave.sql";
    await using project = new Project();
    project.install();
    project.write({ [leave]: Deno.readTextFileSync(join(ROOT, "examples/adopting/leave.sql")) });
    project.refuses([leave, "docs/adopting.md"]);
    project.refuses([leave], NEXT);
    const folder = join(project.path, "supabase/migrations");
    for (const name of project.migrations().filter((name) => /^\d+_audit_log_\d\d_/.test(name))) {
      Deno.renameSync(
        join(folder, name),
        join(folder, name.replace("_audit_log_", "_former_audit_log_")),
      );
    }
    project.refuses([leave, `delete ${FUNCTION}`]);
    Deno.removeSync(join(project.path, FUNCTION), { recursive: true });
    project.install(OURS, new Date("2026-12-06Z"));
    const ours = project.migrations().filter((name) => /^\d+_audit_log_\d\d_/.test(name));
    assertEquals(ours.length, 3);
    assertEquals(project.install(OURS).changes, []);
  });

  it("stops at a damaged record of what is installed", async () => {
    await using project = new Project();
    project.install();
    for (const text of ["<<<<<<< HEAD\n", "{}", "null"]) {
      project.write({ [`${FUNCTION}/installed.json`]: text });
      project.refuses([`${FUNCTION}/installed.json is damaged`]);
    }
  });
});

describe("config.toml", () => {
  /** What becomes of a config.toml. */
  async function patched(text: string) {
    await using project = new Project({ "supabase/config.toml": text });
    const { byHand } = project.install();
    return { text: project.files()["supabase/config.toml"], byHand: byHand.join("\n\n") };
  }

  it("keeps its byte order mark, its Windows line ends and its comments", async () => {
    const windows = (text: string) => `\uFEFF${text.replaceAll("\n", "\r\n")}`;
    assertEquals(await patched(windows(CONFIG)), {
      text: bytesOf(windows(PATCHED)),
      byHand: "",
    });
  });

  it("gets the schema beside theirs, in all ways of writing it", async () => {
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
      assertEquals(await patched(before), { text: bytesOf(after + SECTION), byHand: "" });
    }
  });

  it("stays as it is where it has all that is needed", async () => {
    const text =
      `api.schemas = ["audit_log"]\n[functions]\n"public-audit-log" = { verify_jwt = false, ` +
      `static_files = ["./functions/public-audit-log/deno.lock", "./x"], enabled = true }\n`;
    assertEquals(await patched(text), { text: bytesOf(text), byHand: "" });
  });

  it("stays as it is where it cannot be edited, and the lines to add are printed", async () => {
    const schemas = '[api]\nschemas = ["public", "graphql_public", "audit_log"]';
    const section = SECTION.split("\n").filter((line) => line && !line.startsWith("#")).join("\n");
    const done = 'api.schemas = ["audit_log"]\n';
    const cases: [text: string, lines: string[]][] = [
      ["[api\n", [schemas, section, "not valid TOML"]],
      ["a = 1\na = 2\n", [schemas, section, "not valid TOML"]],
      [`${done}[functions.public-audit-log]\nverify_jwt = true\n`, [section]],
      [`${done}[functions.public-audit-log]\nverify_jwt = false\n`, [section]],
      [`${done}functions = {}\n`, [section]],
      [`[api]\r\nschemas = []\n${section}\n`, [schemas]],
      [`[api]\nschemas = "public"\n${section}\n`, [schemas]],
      // The library would turn the tab into a space.
      [`[api]\nschemas = ["public"]\t# c\n${section}\n`, [schemas]],
      [`api = 1\n${section}\n`, [schemas]],
    ];
    for (const [before, lines] of cases) {
      const { text, byHand } = await patched(before);
      assertEquals(text, bytesOf(before));
      for (const line of lines) assertStringIncludes(byHand, line);
    }
  });

  it("stays a link, and keeps its permissions", async () => {
    await using project = new Project({ "shared.toml": CONFIG, "supabase/migrations/1_a.sql": "" });
    const shared = join(project.path, "shared.toml");
    const link = join(project.path, "supabase/config.toml");
    Deno.chmodSync(shared, 0o600);
    Deno.symlinkSync("../shared.toml", link);
    project.install();
    assertEquals(project.files()["shared.toml"], bytesOf(PATCHED));
    assertEquals(Deno.lstatSync(link).isSymlink, true);
    assertEquals((Deno.statSync(shared).mode ?? 0) & 0o777, 0o600);
  });

  it("need not be there, nor be UTF-8: the lines to add are printed", async () => {
    await using project = new Project({ "supabase/migrations/1_a.sql": "" });
    assertEquals(project.install().byHand.length, 2);
    const place = join(project.path, "supabase/config.toml");
    Deno.writeFileSync(place, new Uint8Array([0x23, 0x20, 0xe9, 0x0a]));
    assertEquals(project.install().byHand.length, 2);
    assertEquals(Deno.readFileSync(place).length, 4);
  });
});

describe("deno task install", () => {
  /** Runs the command in a folder, as `deno task` does. */
  async function install(folder: string, ...args: string[]) {
    return await runDeno({
      args: ["run", "--allow-all", join(ROOT, "cli/main.ts"), "install", ...args],
      env: { INIT_CWD: folder },
    });
  }

  it("changes nothing with --dry-run, and prints what it would change", async () => {
    await using project = new Project();
    const { code, stdout } = await install(project.path, ".", "--dry-run");
    assertEquals(code, 0);
    assertMatch(stdout, /^would write supabase\/migrations\/\d{14}_audit_log_01_/m);
    const lines = ['"audit_log",', ...SECTION.trim().split("\n")].map((line) => `\n  ${line}`);
    assertStringIncludes(
      stdout,
      `would write supabase/config.toml, with these lines:${lines.join("")}\nwould write `,
    );
    assertEquals(project.files(), THEIRS);
  });

  it("installs this version, and prints what to do next", async () => {
    await using project = new Project();
    const { code, stdout } = await install(dirname(project.path), "theirs");
    assertEquals(code, 0);
    for (
      const words of [
        "npx supabase db push",
        "audit_log to the exposed schemas",
        "npx supabase functions deploy public-audit-log",
        "insert into audit_log.organizations",
        "docs/adopting.md",
      ]
    ) assertStringIncludes(stdout, words);

    const files = project.files();
    delete files[`${FUNCTION}/installed.json`];
    const ours = Object.entries(readFolder(join(ROOT, FUNCTION), `${FUNCTION}/`));
    for (const [path, text] of ours) assertEquals(files[path], text, path);
    const migrations = Object.entries(readFolder(join(ROOT, "supabase/migrations"))).sort()
      .map(([, text]) => text);
    const installed = project.migrations().filter((name) => name.includes("_audit_log_"))
      .map((name) => files[`supabase/migrations/${name}`]);
    assertEquals(installed, migrations);

    const again = await install(project.path, ".");
    assertMatch(again.stdout, /^Version \S+ is installed: nothing to change\n$/);
  });

  it("prints its own words only, also of a config.toml with line ends of two kinds", async () => {
    await using project = new Project({ "supabase/config.toml": "[api]\r\nschemas = []\n" });
    const { stdout, stderr } = await install(project.path, ".");
    assertEquals(stderr, "");
    assertStringIncludes(stdout, 'the schemas of [api] must have "audit_log"');
  });

  it("exits with 1 and a sentence where it cannot install, and with 2 on a wrong command", async () => {
    await using project = new Project({ "readme.md": "" });
    const refused = await install(project.path, ".");
    assertEquals([refused.code, refused.stdout], [1, ""]);
    assertMatch(refused.stderr, /^\S+ has no folder supabase [^\n]*\n$/);
    for (const args of [[], [".", "."], [".", "--force"]]) {
      const { code, stderr } = await install(project.path, ...args);
      assertEquals(code, 2);
      assertStringIncludes(stderr, "public-audit-log install PATH");
    }
  });
});
