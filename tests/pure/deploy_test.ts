import { assert, assertEquals, assertObjectMatch } from "@std/assert";
import { afterAll, describe, it } from "@std/testing/bdd";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { supabase } from "../../local/supabase_cli.ts";
import { applyChanges } from "../../cli/install/files.ts";
import { planInstallation } from "../../cli/install/plan_installation.ts";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { serveOnLoopback } from "../loopback.ts";
import { runDeno, runProgram } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FUNCTION = "supabase/functions/public-audit-log";

const folder = await Deno.makeTempDir();
afterAll(() => Deno.remove(folder, { recursive: true }));

async function write(path: string, text: string): Promise<void> {
  await Deno.mkdir(dirname(join(folder, path)), { recursive: true });
  await Deno.writeTextFile(join(folder, path), text);
}

const theirs = join(folder, "theirs");

/** Installs the service into a new project, and deploys it from there. */
async function installAndDeploy() {
  await write("theirs/supabase/config.toml", 'project_id = "theirs"\n');
  applyChanges(theirs, planInstallation(ROOT, theirs, { version: "1.2.0" }).changes);
  return await deploy();
}

/**
 * Deploys the project to a stand-in for Supabase on loopback. Returns what the stand-in is sent: the metadata, and the
 * files by their path in the project.
 */
async function deploy() {
  const uploads: FormData[] = [];
  await using standIn = serveOnLoopback(async (request) => {
    if (request.method !== "POST") return Response.json({});
    uploads.push(await request.formData());
    const name = "public-audit-log";
    const deployed = { id: "1", slug: name, name, status: "ACTIVE", version: 1 };
    return Response.json(deployed, { status: 201 });
  });
  const names = ["api_url", "dashboard_url", "docs_url"].map((name) => `${name}: ${standIn.url}`);
  const lines = ["name: loopback", "project_host: 127.0.0.1", ...names];
  await write("profile.yaml", lines.join("\n"));
  Deno.env.set("SUPABASE_ACCESS_TOKEN", `sbp_${"0".repeat(40)}`);
  const options = [`--workdir=${theirs}`, `--remote=${"a".repeat(20)}`];
  options.push(`--profile=${join(folder, "profile.yaml")}`);
  await supabase("functions", "deploy", "public-audit-log", "--use-api", "--yes", ...options)
    .finally(() => Deno.env.delete("SUPABASE_ACCESS_TOKEN"));
  const [upload, ...others] = uploads;
  if (!upload || others.length > 0) throw new Error(`${uploads.length} uploads instead of one`);
  const files = new Map<string, string>();
  for (const file of upload.getAll("file")) {
    if (file instanceof File) files.set(file.name, await file.text());
  }
  const metadata: Record<string, unknown> = JSON.parse(String(upload.get("metadata")));
  return { metadata, files };
}

/** Reads the packages of a lockfile, with their checksums. */
function packagesOf(lockfile = "{}"): Record<string, { integrity?: string }> {
  return JSON.parse(lockfile).npm;
}

describe("supabase functions deploy", () => {
  const deployed = installAndDeploy();

  it("uploads the function's files, its deno.json and its lockfile, without the JWT check", async () => {
    const { files, metadata } = await deployed;
    const names = Array.from(Deno.readDirSync(join(ROOT, FUNCTION)), ({ name }) => name);
    assertEquals([...files.keys()].sort(), names.map((name) => `${FUNCTION}/${name}`).sort());
    for (const [path, text] of files) assertEquals(text, await Deno.readTextFile(join(ROOT, path)));
    assertObjectMatch(metadata, {
      entrypoint_path: `${FUNCTION}/index.ts`,
      import_map_path: `${FUNCTION}/deno.json`,
      verify_jwt: false,
    });
  });

  it("needs no change of this repository's own config.toml", async () => {
    const text = await Deno.readTextFile(join(ROOT, "supabase/config.toml"));
    assertEquals(patchConfig(text), { text, byHand: [] });
  });

  it("deploys the package versions that start and the tests use. The function's lockfile has every package", async () => {
    const { files } = await deployed;
    const inStart = packagesOf(await Deno.readTextFile(join(ROOT, "deno.lock")));
    const inTests = packagesOf(await Deno.readTextFile(join(ROOT, "dev.lock")));
    const inFunction = packagesOf(files.get(`${FUNCTION}/deno.lock`));
    for (const [name, { integrity }] of Object.entries(inFunction)) {
      assert(integrity, `${name} has no checksum`);
      assertEquals(inStart[name]?.integrity, integrity, `${name}: deno task lock`);
    }
    for (const [name, { integrity }] of Object.entries(inStart)) {
      assert(integrity, `${name} has no checksum`);
      assertEquals(inTests[name]?.integrity, integrity, `${name}: deno task lock`);
    }
    // Supabase bundles these files and nothing else, so the lockfile must have every package.
    for (const [path, text] of files) await write(join("uploaded", path), text);
    const { code, stderr } = await runDeno({
      args: ["install", "--frozen", "--node-modules-dir=none", "--entrypoint", "index.ts"],
      cwd: join(folder, "uploaded", FUNCTION),
    });
    assertEquals(code, 0, stderr);
  });

  it("uploads one file without imports instead, made and named as docs/operating.md says", async () => {
    await deployed;
    const guide = await Deno.readTextFile(join(ROOT, "docs/operating.md"));
    const command = guide.match(/^cd supabase.* deno bundle(?:.|\n)*?(?=```)/m)?.[0] ?? "";
    const bundled = await runProgram("bash", { args: ["-c", command], cwd: theirs });
    assertEquals(bundled.code, 0, bundled.stderr);
    const config = await Deno.readTextFile(join(theirs, "supabase/config.toml"));
    const entrypoint = guide.match(/`(entrypoint = .*?)`/)?.[1] ?? "";
    const section = "[functions.public-audit-log]\n";
    await write(
      "theirs/supabase/config.toml",
      config.replace(section, `${section}${entrypoint}\n`),
    );
    const { files, metadata } = await deploy();
    const file = "supabase/.temp/public-audit-log.js";
    assertEquals([...files.keys()].sort(), [file, `${FUNCTION}/deno.lock`]);
    assertEquals(metadata["entrypoint_path"], file);
    const bundle = files.get(file) ?? "";
    assertEquals([bundle.includes("Deno.serve("), /^import/m.test(bundle)], [true, false]);
  });
});
