import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { supabase } from "../../local/supabase_cli.ts";
import { applyChanges } from "../../cli/install/files.ts";
import { planInstallation } from "../../cli/install/installation.ts";
import { patchConfig } from "../../cli/install/patch_config.ts";
import { serveOnLoopback } from "../loopback.ts";
import { runDeno } from "../run_program.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FUNCTION = "supabase/functions/public-audit-log";

const Lockfile = z.object({
  npm: z.record(z.string(), z.object({ integrity: z.string() })),
});

const Metadata = z.object({
  entrypoint_path: z.string(),
  import_map_path: z.string(),
  verify_jwt: z.boolean(),
});

/** What `supabase functions deploy` sends to the platform. */
interface Upload {
  metadata: z.infer<typeof Metadata>;
  /** By path in the repository. */
  files: Map<string, string>;
}

/** Deploys from a folder to a platform on loopback. */
async function deploy(workdir: string): Promise<Upload> {
  const uploads: FormData[] = [];
  await using platform = serveOnLoopback(async (request) => {
    if (request.method !== "POST") return Response.json({});
    uploads.push(await request.formData());
    const name = "public-audit-log";
    const deployed = { id: "1", slug: name, name, status: "ACTIVE", version: 1 };
    return Response.json(deployed, { status: 201 });
  });
  await using folder = await temporaryFolder();
  const profile = join(folder.path, "profile.yaml");
  const names = ["api_url", "dashboard_url", "docs_url"].map((name) => `${name}: ${platform.url}`);
  const lines = ["name: loopback", "project_host: 127.0.0.1", ...names];
  await Deno.writeTextFile(profile, lines.join("\n"));
  Deno.env.set("SUPABASE_ACCESS_TOKEN", `sbp_${"0".repeat(40)}`);
  const options = [`--workdir=${workdir}`, `--remote=${"a".repeat(20)}`, `--profile=${profile}`];
  await supabase("functions", "deploy", "public-audit-log", "--use-api", "--yes", ...options)
    .finally(() => Deno.env.delete("SUPABASE_ACCESS_TOKEN"));
  const [upload, ...others] = uploads;
  if (!upload || others.length > 0) throw new Error(`${uploads.length} uploads instead of one`);
  const files = new Map<string, string>();
  for (const file of upload.getAll("file")) {
    if (file instanceof File) files.set(file.name, await file.text());
  }
  return { metadata: Metadata.parse(JSON.parse(String(upload.get("metadata")))), files };
}

/** Installs the service into a new project, and deploys it from there. */
async function deployInstalled(): Promise<Upload> {
  await using project = await temporaryFolder();
  await Deno.mkdir(join(project.path, "supabase"));
  await Deno.writeTextFile(join(project.path, "supabase/config.toml"), 'project_id = "theirs"\n');
  const { changes } = planInstallation(ROOT, project.path, { version: "1.2.0" });
  applyChanges(project.path, changes);
  return await deploy(project.path);
}

/** Makes a folder that is removed when it is disposed of. */
async function temporaryFolder(): Promise<AsyncDisposable & { path: string }> {
  const path = await Deno.makeTempDir();
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

/** Reads the packages of a lockfile. */
function packagesOf(text = "{}") {
  return Lockfile.parse(JSON.parse(text)).npm;
}

describe("supabase functions deploy", () => {
  const deployed = deployInstalled();

  it("uploads the function's files, its deno.json and its lockfile, without the JWT check", async () => {
    const { files, metadata } = await deployed;
    const names = Array.from(Deno.readDirSync(join(ROOT, FUNCTION)), ({ name }) => name);
    assertEquals([...files.keys()].sort(), names.map((name) => `${FUNCTION}/${name}`).sort());
    for (const [path, text] of files) assertEquals(text, await Deno.readTextFile(join(ROOT, path)));
    assertEquals(metadata, {
      entrypoint_path: `${FUNCTION}/index.ts`,
      import_map_path: `${FUNCTION}/deno.json`,
      verify_jwt: false,
    });
  });

  it("takes the same from this repository, whose config.toml says the same", async () => {
    const text = await Deno.readTextFile(join(ROOT, "supabase/config.toml"));
    assertEquals(patchConfig(text), { text, byHand: [] });
  });

  it("deploys the versions that were tested, by their checksums, of everything that is imported", async () => {
    const { files } = await deployed;
    const tested = packagesOf(await Deno.readTextFile(join(ROOT, "deno.lock")));
    for (const [name, entry] of Object.entries(packagesOf(files.get(`${FUNCTION}/deno.lock`)))) {
      assertEquals(tested[name], entry, `${name}: deno task lock`);
    }
    // The platform bundles among these files and nothing else, so the lockfile must have every package.
    await using folder = await temporaryFolder();
    for (const [path, text] of files) {
      await Deno.mkdir(dirname(join(folder.path, path)), { recursive: true });
      await Deno.writeTextFile(join(folder.path, path), text);
    }
    const { code, stderr } = await runDeno({
      args: ["install", "--frozen", "--node-modules-dir=none", "--entrypoint", "index.ts"],
      cwd: join(folder.path, FUNCTION),
    });
    assertEquals(code, 0, stderr);
  });

  it("is tested with the packages of deno.lock, which dev.lock has too", async () => {
    const dev = packagesOf(await Deno.readTextFile(join(ROOT, "dev.lock")));
    const start = packagesOf(await Deno.readTextFile(join(ROOT, "deno.lock")));
    for (const [name, entry] of Object.entries(start)) {
      assertEquals(dev[name], entry, `${name}: deno task lock`);
    }
  });
});
