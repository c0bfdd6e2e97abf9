import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import root from "../../deno.json" with { type: "json" };
import { AuditLogError } from "../../cli/client.ts";
import { applyChanges } from "../../cli/install/files.ts";
import { describeInstallation } from "../../cli/install/install.ts";
import { type Installation, planInstallation } from "../../cli/install/plan_installation.ts";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { runDeno } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FUNCTION = "supabase/functions/public-audit-log";
const MANIFEST = `${FUNCTION}/installed.json`;

const NOW = new Date("2026-12-01T10:01:00Z");

type Files = Record<string, string>;

/** The files that two versions of ours share. */
const KEPT: Files = {
  "supabase/migrations/20261120000001_tables.sql": "create table a ();\n",
  "supabase/migrations/20261120000002_people.sql": "create function caller();\n",
  "supabase/migrations/20261120000003_keys.sql": "create table keys ();\n",
  [`${FUNCTION}/deno.json`]: "{}\n",
};
const OURS: Files = {
  ...KEPT,
  [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
  [`${FUNCTION}/old.ts`]: "export {};\n",
  "supabase/functions/audit-log-streams/destinations/old.ts": "export {};\n",
};
const NEXT: Files = {
  ...KEPT,
  "supabase/migrations/20270101000000_more.sql": "create table more ();\n",
  [`${FUNCTION}/index.ts`]: "Deno.serve(handler);\n",
  [`${FUNCTION}/handler.ts`]: "export function handler() {}\n",
};

const SCHEMAS = "supabase/schemas/public-audit-log";
/** Our schema files of two versions. The later one has one more, so that the numbers differ. */
const OUR_SCHEMAS: Files = {
  "supabase/schemas/01_people.sql": "create function caller();\n",
  "supabase/schemas/02_keys.sql": "create table keys ();\n",
};
const NEXT_SCHEMAS: Files = {
  "supabase/schemas/01_more.sql": "create table more ();\n",
  "supabase/schemas/02_people.sql": "create function caller();\n",
  "supabase/schemas/03_keys.sql": "create table keys (id integer);\n",
};

const CONFIG = '[api]\nschemas = ["public"] # theirs\n';
const PATCHED = patchConfig(CONFIG) ?? "";
const THEIRS: Files = {
  "supabase/config.toml": CONFIG,
  "supabase/migrations/20250101000000_theirs.sql": "create table theirs ();\n",
  "supabase/functions/theirs/index.ts": "Deno.serve();\n",
};

/** Beside the project, in the same folder. */
const SECRET = "secret.txt";

/** A project that has other things, into which a version of ours is installed or can be. */
class Project implements Disposable {
  readonly #folder = Deno.makeTempDirSync();
  readonly path = join(this.#folder, "theirs");

  constructor(files: Files = THEIRS, installed: Files | null = null) {
    this.write(files);
    if (installed) this.install(installed);
  }

  write(files: Files, folder = this.path): void {
    for (const [path, text] of Object.entries(files)) {
      Deno.mkdirSync(dirname(join(folder, path)), { recursive: true });
      Deno.writeTextFileSync(join(folder, path), text);
    }
  }

  plan(ours: Files = OURS, now: Date = NOW): Installation {
    const source = join(this.#folder, crypto.randomUUID());
    this.write(ours, source);
    return planInstallation(source, this.path, now);
  }

  install(ours?: Files, now?: Date): Installation {
    const installation = this.plan(ours, now);
    applyChanges(this.path, installation.changes);
    return installation;
  }

  files(): Files {
    const paths = readdirSync(this.path, { recursive: true, encoding: "utf8" })
      .filter((path) => Deno.statSync(join(this.path, path)).isFile);
    return Object.fromEntries(
      paths.map((path) => [path, Deno.readTextFileSync(join(this.path, path))]),
    );
  }

  /** Puts a link in the place of a file or folder, which it moves out of the project. Returns where that is then. */
  moveOut(path: string): string {
    const outside = join(this.#folder, "outside");
    Deno.renameSync(join(this.path, path), outside);
    Deno.symlinkSync(outside, join(this.path, path));
    return outside;
  }

  migrations(): string[] {
    return readdirSync(join(this.path, "supabase/migrations")).sort();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

describe("installing", () => {
  it("adds our migrations after theirs and the function, and leaves their files as they are", () => {
    using project = new Project();
    assertEquals(project.install().isConfigByHand, false);
    const { [MANIFEST]: manifest = "", ...files } = project.files();
    assertEquals(JSON.parse(manifest).version, root.version);
    assertEquals(files, {
      ...THEIRS,
      "supabase/config.toml": PATCHED,
      "supabase/migrations/20261201100058_audit_log_01_tables.sql": "create table a ();\n",
      "supabase/migrations/20261201100059_audit_log_02_people.sql": "create function caller();\n",
      "supabase/migrations/20261201100100_audit_log_03_keys.sql": "create table keys ();\n",
      [`${FUNCTION}/deno.json`]: "{}\n",
      [`${FUNCTION}/index.ts`]: "Deno.serve();\n",
      [`${FUNCTION}/old.ts`]: "export {};\n",
      "supabase/functions/audit-log-streams/destinations/old.ts": "export {};\n",
    });
  });

  it("gives our migrations the seconds until now as versions, or those after their newest", () => {
    const versions = {
      "20991231235959": "21000101000000",
      "20261201100058123": "20261201100059",
      "20261201": "20261202000000",
      "0001": "20261201100058",
      "3": "40000101000000",
    };
    for (const [newest, first] of Object.entries(versions)) {
      using project = new Project({ [`supabase/migrations/${newest}_theirs.sql`]: "" });
      project.install();
      assertEquals(project.migrations().slice(0, 2), [
        `${newest}_theirs.sql`,
        `${first}_audit_log_01_tables.sql`,
      ]);
    }
  });

  it("ends the same after a run that was killed anywhere", () => {
    using whole = new Project();
    const { changes } = whole.install();
    for (let done = 0; done <= changes.length; done++) {
      using project = new Project();
      applyChanges(project.path, project.plan().changes.slice(0, done));
      // The run was killed between writing and renaming.
      const path = changes[done]?.path;
      if (path) project.write({ [join(dirname(path), ".audit_log_installing")]: "hal" });
      project.install();
      assertEquals(project.files(), whole.files());
    }
  });
});

describe("installing again", () => {
  it("changes nothing, also after Git has changed line ends", () => {
    using project = new Project(THEIRS, OURS);
    const before = project.files();
    assertEquals(project.install(OURS, new Date()).changes, []);
    for (const [path, text] of Object.entries(before)) {
      if (path !== "supabase/config.toml") project.write({ [path]: text.replaceAll("\n", "\r\n") });
    }
    assertEquals(project.install().changes, []);
    assertEquals(project.install(NEXT).changes.length, 6);
  });

  it("adds new files, and replaces and removes those of the functions", () => {
    using project = new Project(THEIRS, OURS);
    project.write({
      "supabase/migrations/20270601000000_theirs.sql": "create table later ();\n",
      [`${FUNCTION}/theirs.ts`]: "export {};\n",
    });
    const { [MANIFEST]: _, ...before } = project.files();
    project.install(NEXT);
    const added = "supabase/migrations/20270601000001_audit_log_04_more.sql";
    const { [MANIFEST]: __, ...after } = project.files();
    const kept = Object.entries(before).filter(([path]) => !path.endsWith("old.ts"));
    assertEquals(after, {
      ...Object.fromEntries(kept),
      [added]: "create table more ();\n",
      [`${FUNCTION}/handler.ts`]: "export function handler() {}\n",
      [`${FUNCTION}/index.ts`]: "Deno.serve(handler);\n",
    });
    assertEquals(project.install(NEXT).changes, []);
  });

  it("leaves the installed migration people.sql alone, because adopters may change or remove it", () => {
    const seam = "supabase/migrations/20261201100059_audit_log_02_people.sql";
    using project = new Project(THEIRS, OURS);
    project.write({ [seam]: "create function caller() -- of theirs\n" });
    project.install(NEXT);
    assertEquals(project.files()[seam], "create function caller() -- of theirs\n");
  });

  it("does not restore migrations that are gone, as after a squash", () => {
    using project = new Project(THEIRS, OURS);
    const folder = join(project.path, "supabase/migrations");
    for (const name of project.migrations()) Deno.removeSync(join(folder, name));
    const { missing } = project.install(NEXT);
    assertEquals(missing, ["01_tables.sql", "02_people.sql", "03_keys.sql"]);
    assertEquals(project.migrations().length, 1);
  });
});

describe("in a project with declarative schemas", () => {
  const theirs = { ...THEIRS, "supabase/schemas/cluster/theirs.sql": "create table theirs ();\n" };
  const [ours, next] = [{ ...OURS, ...OUR_SCHEMAS }, { ...NEXT, ...NEXT_SCHEMAS }];
  const schemasOf = (project: Project, folder = SCHEMAS) =>
    Object.entries(project.files()).filter(([path]) => path.startsWith(`${folder}/`))
      .map(([path, text]) => [path.slice(folder.length + 1), text]).sort();

  it("our schema files are copied into a folder beside theirs, and upgrades replace the copies", () => {
    using project = new Project(theirs);
    assertEquals(project.install(ours).schemas, "supabase/schemas");
    const [people, keys] = Object.values(OUR_SCHEMAS);
    assertEquals(schemasOf(project), [["01_people.sql", people], ["02_keys.sql", keys]]);
    assertEquals(project.install(ours).changes, []);
    project.install(next);
    const [more, , newKeys] = Object.values(NEXT_SCHEMAS);
    const upgraded = [["01_more.sql", more], ["01_people.sql", people], ["03_keys.sql", newKeys]];
    assertEquals(schemasOf(project), upgraded);
    assertEquals(project.install(next).changes, []);
  });

  it("the copy of people.sql is theirs: it is neither overwritten, nor restored, nor added again", () => {
    for (const text of ["create function caller() -- of theirs\n", null]) {
      using project = new Project(theirs, ours);
      if (text) project.write({ [`${SCHEMAS}/01_people.sql`]: text });
      else Deno.removeSync(join(project.path, SCHEMAS, "01_people.sql"));
      for (const version of [ours, next, next]) project.install(version);
      const people = schemasOf(project).filter(([file = ""]) => file.includes("people"));
      assertEquals(people, text ? [["01_people.sql", text]] : []);
    }
  });

  it("a copy that was edited is not overwritten: the upgrade is refused, and changes nothing", () => {
    using project = new Project(theirs, ours);
    project.write({ [`${SCHEMAS}/02_keys.sql`]: "-- edited\n" });
    const before = project.files();
    assertThrows(() => project.install(next), AuditLogError, `${SCHEMAS}/02_keys.sql`);
    assertEquals(project.files(), before);
  });

  it("the folder is the one that config.toml names. Outside of supabase, a person copies them", () => {
    const configOf = (path: string) => ({
      "supabase/config.toml": `[experimental.pgdelta]\ndeclarative_schema_path = "${path}"\n`,
    });
    using project = new Project({
      ...THEIRS,
      ...configOf("./database/"),
      "supabase/database/a.sql": "",
    });
    project.install(ours);
    assertEquals(schemasOf(project, "supabase/database/public-audit-log").length, 2);
    for (const path of ["../schemas", "/schemas"]) {
      using other = new Project({ ...theirs, ...configOf(path), "schemas/a.sql": "" });
      const { schemas, isSchemasByHand } = other.install(ours);
      assertEquals([schemas, isSchemasByHand, schemasOf(other)], [path, true, []]);
    }
  });

  it("nothing is copied where no SQL is declared: the next sync would drop all that is theirs", () => {
    for (const declared of ["supabase/schemas/README.md", "supabase/other/theirs.sql"]) {
      using project = new Project({ ...THEIRS, [declared]: "" });
      assertEquals(project.install(ours).schemas, null);
      assertEquals(schemasOf(project), []);
    }
  });
});

it("the command says to push if a migration is new, and otherwise that there is nothing to push", () => {
  using project = new Project();
  const said = (ours: Files) => describeInstallation(project.plan(ours), false);
  assertStringIncludes(said(OURS), "Next, in that project");
  project.install();
  assertStringIncludes(said(OURS), "there is nothing to push or deploy");
  const patched = { ...OURS, [`${FUNCTION}/index.ts`]: "Deno.serve(patched);\n" };
  assertStringIncludes(said(patched), "there is nothing to push: deploy the function");
  assertStringIncludes(said(NEXT), "Next, in that project");
});

describe("installing is refused, and changes nothing,", () => {
  const keys = "supabase/migrations/20261201100100_audit_log_03_keys.sql";
  const [index, old] = [`${FUNCTION}/index.ts`, `${FUNCTION}/old.ts`];
  const edited = { [keys]: "-- edited\n", [index]: "// edited\n", [old]: "// edited\n" };
  const afterLast = (version: string) => ({ [`supabase/migrations/${version}_theirs.sql`]: "" });
  /** Their files, what was installed, what was written then, what is installed now, and words of the error. */
  const refusals: Record<string, [Files, Files | null, Files, Files, string[]]> = {
    "after a version that none follows": [afterLast("9"), null, {}, OURS, ["9", "Rename it"]],
    "after the last day": [afterLast("99991231235959"), null, {}, OURS, ["Rename it"]],
    "where there is no Supabase project": [{ "client.ts": "" }, null, {}, OURS, ["supabase init"]],
    "where a function of that name is theirs": [THEIRS, null, edited, OURS, [index]],
    "where files of ours were edited": [THEIRS, OURS, edited, OURS, [keys, index]],
    "where an upgrade would change or remove them": [THEIRS, OURS, edited, NEXT, [index, old]],
    "where a newer version is installed": [THEIRS, NEXT, {}, OURS, ["04_more.sql", "use a newer"]],
    "where installed.json has a conflict": [THEIRS, OURS, { [MANIFEST]: "<<<" }, OURS, [MANIFEST]],
  };
  for (const [where, [theirs, installed, written, ours, words]] of Object.entries(refusals)) {
    it(where, () => {
      using project = new Project(theirs, installed);
      project.write(written);
      const before = project.files();
      const { message } = assertThrows(() => project.install(ours), AuditLogError);
      for (const word of words) assertStringIncludes(message, word);
      assertEquals(project.files(), before);
    });
  }
});

describe("nothing outside the folder supabase is read, written or deleted", () => {
  const tables = "supabase/migrations/20261201100058_audit_log_01_tables.sql";
  const folders = ["supabase", "supabase/migrations", "supabase/functions", FUNCTION, SCHEMAS];
  const files = ["supabase/config.toml", MANIFEST, `${FUNCTION}/index.ts`, tables];
  for (const path of [...folders, "supabase/schemas", ...files]) {
    it(`where ${path} is a link: the installation is refused`, () => {
      const theirs = { ...THEIRS, "supabase/schemas/theirs.sql": "" };
      using project = new Project(theirs, { ...OURS, ...OUR_SCHEMAS });
      const outside = project.moveOut(path);
      const before = { ...project.files(), outside: Deno.statSync(outside).mtime };
      const next = { ...NEXT, ...NEXT_SCHEMAS };
      const { message } = assertThrows(() => project.install(next), AuditLogError);
      assertStringIncludes(message, `${path} is a link`);
      assertEquals({ ...project.files(), outside: Deno.statSync(outside).mtime }, before);
    });
  }

  it("where a link stands at the name of the temporary file: it is removed", () => {
    using project = new Project();
    const secret = join(project.path, "..", SECRET);
    Deno.writeTextFileSync(secret, "kept");
    for (const path of ["supabase", "supabase/migrations", FUNCTION]) {
      Deno.mkdirSync(join(project.path, path), { recursive: true });
      Deno.symlinkSync(secret, join(project.path, path, ".audit_log_installing"));
    }
    project.install();
    assertEquals(Deno.readTextFileSync(secret), "kept");
    assertEquals(project.plan().changes, []);
  });

  it("where a folder stands in the place of a file: the installation is refused", () => {
    using project = new Project();
    project.write({ [`${FUNCTION}/index.ts/theirs`]: "" });
    assertThrows(() => project.install(), AuditLogError, `${FUNCTION}/index.ts is a link`);
  });

  const separated = [
    `../../../../${SECRET}`,
    `..\\..\\..\\..\\${SECRET}`,
    "/etc/hosts",
    "C:x",
    "..",
    "theirs/index.ts",
    "audit-log-streams/../../theirs/index.ts",
  ];
  for (const name of [...separated, "", "a\u001b[2J", "a\nb"]) {
    it(`where installed.json has the name ${JSON.stringify(name)}: the installation is refused`, () => {
      using project = new Project(THEIRS, OURS);
      const secret = join(project.path, "..", SECRET);
      Deno.writeTextFileSync(secret, "kept");
      const manifest = JSON.parse(project.files()[MANIFEST] ?? "");
      const hash = createHash("sha256").update("kept").digest("hex");
      const sha256 = { ...manifest.sha256, [name]: hash };
      const migrations = [...manifest.migrations, name];
      for (const hostile of [{ sha256 }, { migrations }, { schemas: sha256 }]) {
        project.write({ [MANIFEST]: JSON.stringify({ ...manifest, ...hostile }) });
        assertThrows(
          () => project.install(),
          AuditLogError,
          "installed.json is damaged, or a newer version wrote it",
        );
        assertEquals(Deno.readTextFileSync(secret), "kept");
      }
    });
  }
});

it("deno task install changes nothing with --dry-run, and prints what it would change", async () => {
  using project = new Project();
  const command = [join(ROOT, "cli/main.ts"), "install", ".", "--dry-run"];
  const args = ["run", "--allow-all", ...command];
  const { code, stdout } = await runDeno({ args, env: { INIT_CWD: project.path } });
  assertEquals(code, 0);
  assertStringIncludes(stdout, "\nwould write supabase/config.toml\n");
  assertEquals(project.files(), THEIRS);
});
