// Needs nothing.

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { AuditLogError } from "../../cli/client.ts";
import { install } from "../../cli/install/install.ts";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { runDeno } from "../helpers/run_program.ts";

type Files = Record<string, string>;

const FUNCTION = "supabase/functions/public-audit-log";
const COPIES = "supabase/schemas/public-audit-log";

const OURS: Files = {
  "supabase/migrations/20261120000001_tables.sql": "create table a ();\n",
  "supabase/migrations/20261120000002_people.sql": "create function caller();\n",
  [`${FUNCTION}/.env`]: "SECRET=x\n",
  [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
  "supabase/functions/audit-log-streams/a/b.ts": "export {};\n",
  "supabase/migrations/20261120000003_streams.sql": "create table streams ();\n",
};
const CONFIG = '[api]\nschemas = ["public"] # theirs\n';
const THEIRS: Files = {
  "supabase/config.toml": CONFIG,
  "supabase/migrations/20250101000000_theirs.sql": "create table theirs ();\n",
  "supabase/functions/theirs/index.ts": "Deno.serve();\n",
  "supabase/schemas/cluster/theirs.sql": "create table theirs ();\n",
};
const TABLES = "supabase/migrations/20261201100100_audit_log_01_tables.sql";
const PEOPLE = "supabase/migrations/20261201100101_audit_log_02_people.sql";
const STREAMS: Files = {
  "supabase/migrations/20261201100102_audit_log_03_streams.sql": "create table streams ();\n",
  [`${COPIES}/03_streams.sql`]: "create table streams ();\n",
  "supabase/functions/audit-log-streams/a/b.ts": "export {};\n",
};
const INSTALLED: Files = {
  ...THEIRS,
  "supabase/config.toml": patchConfig(CONFIG) ?? "",
  [TABLES]: "create table a ();\n",
  [PEOPLE]: "create function caller();\n",
  [`${COPIES}/01_tables.sql`]: "create table a ();\n",
  [`${COPIES}/02_people.sql`]: "create function caller();\n",
  [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
  ...STREAMS,
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

  install(withoutStreams = false, time = "2026-12-01T10:01:30Z"): string {
    const source = join(this.folder, crypto.randomUUID());
    this.write(OURS, source);
    return install(source, this.path, { withoutStreams, now: new Date(time) });
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
  it("adds our migrations after theirs, also to declarative schemas, the functions and lines of config.toml, and says what to do next", () => {
    using project = new Project();
    assertStringIncludes(project.install(), "db push");
    assertEquals(project.files(), INSTALLED);
  });

  it("copies nothing where no SQL is declared: the next sync would drop all that is theirs", () => {
    using project = new Project({ "supabase/functions/a": "", "supabase/schemas/a.md": "" });
    project.install();
    assertEquals(project.files()[`${COPIES}/01_tables.sql`], undefined);
  });

  it("gives our migrations the present minute as version, or what comes after their newest", () => {
    const versions = [["20991231235959", "20991231235960"], ["20261201", "20261202000000"]];
    for (const [newest, first] of [...versions, ["0001", "20261201100100"]]) {
      using project = new Project({ [`supabase/migrations/${newest}_theirs.sql`]: "" });
      project.install();
      const files = readdirSync(join(project.path, "supabase/migrations")).sort();
      assertEquals(files.slice(0, 2), [`${newest}_theirs.sql`, `${first}_audit_log_01_tables.sql`]);
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

  it("without streams leaves out their files and section, and nothing else; a later run adds them", () => {
    using project = new Project();
    assertStringIncludes(project.install(true), "db push");
    const left = Object.fromEntries(
      Object.entries(INSTALLED).filter(([path]) => !(path in STREAMS)),
    );
    const config = patchConfig(CONFIG, ["public-audit-log"]) ?? "";
    assertEquals(project.files(), { ...left, "supabase/config.toml": config });
    assertStringIncludes(project.install(true), NOTHING);
    project.install(false, "2026-12-02T00:00:00Z");
    const added = Object.keys(project.files()).filter((path) => !(path in left));
    const names = Object.keys(STREAMS)
      .map((path) => path.replace("20261201100102", "20261202000002"));
    assertEquals(added.sort(), names.sort());
    assertEquals(project.files()["supabase/config.toml"], patchConfig(CONFIG));
    for (const without of [true, false]) assertStringIncludes(project.install(without), NOTHING);
  });

  it("again finds nothing to do, also after they have changed or removed people.sql", () => {
    using project = new Project({ ...INSTALLED, [PEOPLE]: "-- theirs\n" });
    Deno.removeSync(join(project.path, COPIES, "02_people.sql"));
    const before = project.files();
    assertStringIncludes(project.install(), NOTHING);
    assertEquals(project.files(), before);
  });
});

describe("installing is refused, and changes nothing,", () => {
  const index = `${FUNCTION}/index.ts`;
  const copy = `${COPIES}/01_tables.sql`;
  const { [TABLES]: _, ...squashed } = INSTALLED;
  const refusals: Record<string, [Files, string[]]> = {
    "after a version that none follows": [{ "supabase/migrations/9_a.sql": "" }, ["Rename it"]],
    "where there is no Supabase project": [{ "client.ts": "" }, ["supabase init"]],
    "where a function of that name is theirs": [{ ...THEIRS, [index]: "theirs" }, [index]],
    "where files of ours were edited": [
      { ...INSTALLED, [TABLES]: "edited", [index]: "", [copy]: "edited" },
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
    const { href } = new URL("../../cli/main.ts", import.meta.url);
    const args = ["run", "--allow-all", href, "install", "."];
    const { code, stderr } = await runDeno({ args, env: { INIT_CWD: project.path } });
    assertEquals(code, 2);
    assertStringIncludes(stderr, `${index} is not as in version`);
  });
});

describe("nothing outside the folder supabase is read, written or deleted", () => {
  const names = ["", "/migrations", "/functions", "/schemas", "/config.toml"];
  const ours = [FUNCTION, COPIES, `${FUNCTION}/index.ts`, TABLES, `${COPIES}/01_tables.sql`];
  for (const path of [...names.map((name) => `supabase${name}`), ...ours]) {
    it(`where ${path} is a link: the installation is refused`, () => {
      using project = new Project(INSTALLED);
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
    project.write({ secret: "kept" }, project.folder);
    const link = join(project.path, "supabase/.audit_log_installing");
    Deno.symlinkSync(join(project.folder, "secret"), link);
    project.install();
    assertEquals(Deno.readTextFileSync(join(project.folder, "secret")), "kept");
    assertEquals(project.files(), INSTALLED);
  });

  it("where a folder stands in the place of a file: the installation is refused", () => {
    using project = new Project({ ...THEIRS, [`${FUNCTION}/index.ts/theirs`]: "" });
    assertThrows(() => project.install(), AuditLogError, `${FUNCTION}/index.ts is a link`);
  });
});

describe("patchConfig()", () => {
  it("adds the schema and the sections, and keeps all that is theirs", () => {
    const before = '[api]\nport = 1\nschemas = ["public", "x"]\t# theirs\n\n[db]\n# The end';
    const after = patchConfig(before) ?? "";
    assert(after.startsWith(`${before.replace('"x"]', '"x", "audit_log"]')}\n\n[functions.`));
    for (const name of ["public-audit-log", "audit-log-streams"]) {
      const section = /^# .+\nverify_jwt = false\n# .+\nstatic_files = \["(.+)"\]$/m;
      const [, lockfile] = after.split(`[functions.${name}]\n`)[1]?.match(section) ?? [];
      assertEquals(lockfile, `./functions/${name}/deno.lock`);
    }
    assertEquals(patchConfig(after), after);
  });

  it("changes nothing if it cannot edit the file: a person does", () => {
    const done = 'api.schemas = ["audit_log"]\n';
    assertEquals(patchConfig(done)?.startsWith(done), true);
    const unusual = [
      "[api\n",
      `${done}# \uFFFD\n`,
      `${done}[functions.public-audit-log]\nverify_jwt = false\n`,
      `${done}functions = {}\n`,
      "[api]\nport = 1\n",
      "[api]\nschemas = []\n",
      'api.schemas = ["public"]\n',
      '[other]\nschemas = ["x"]\n\n[api]\nschemas = ["public"]\n',
      '[api]\nschemas = [\n  "public"\n]\n',
      '[api]\nschemas = ["public"] # ["x"]\n',
    ];
    for (const text of unusual) assertEquals(patchConfig(text), null, text);
  });
});
