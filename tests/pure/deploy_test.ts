import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { supabase } from "../../local/supabase_cli.ts";
import { applyChanges } from "../../cli/install/files.ts";
import { planInstallation } from "../../cli/install/installation.ts";
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

/** What `supabase functions deploy` sends to the platform: caught on loopback. */
interface Upload {
  metadata: z.infer<typeof Metadata>;
  /** By path in the repository. */
  files: Map<string, string>;
}

/** Deploys from the folder that has a project's folder `supabase`. */
async function deploy(workdir = ROOT): Promise<Upload> {
  const uploads: FormData[] = [];
  await using platform = serveOnLoopback(async (request) => {
    if (request.method !== "POST") return Response.json({});
    uploads.push(await request.formData());
    const name = "public-audit-log";
    const deployed = { id: "1", slug: name, name, status: "ACTIVE", version: 1 };
    return Response.json(deployed, { status: 201 });
  });
  const profile = await Deno.makeTempFile({ suffix: ".yaml" });
  const { url } = platform;
  const lines = ["name: loopback", "project_host: 127.0.0.1"];
  for (const name of ["api_url", "dashboard_url", "docs_url"]) lines.push(`${name}: ${url}`);
  await Deno.writeTextFile(profile, lines.join("\n"));
  Deno.env.set("SUPABASE_ACCESS_TOKEN", `sbp_${"0".repeat(40)}`);
  try {
    await supabase(
      "functions",
      "deploy",
      "public-audit-log",
      "--use-api",
      "--yes",
      `--workdir=${workdir}`,
      `--remote=${"a".repeat(20)}`,
      `--profile=${profile}`,
    );
  } finally {
    Deno.env.delete("SUPABASE_ACCESS_TOKEN");
    await Deno.remove(profile);
  }
  const [upload, ...others] = uploads;
  if (!upload || others.length > 0) throw new Error(`${uploads.length} uploads instead of one`);
  const files = new Map<string, string>();
  for (const file of upload.getAll("file")) {
    if (file instanceof File) files.set(file.name, await file.text());
  }
  return { metadata: Metadata.parse(JSON.parse(String(upload.get("metadata")))), files };
}

function readLockfile(text: string): z.infer<typeof Lockfile> {
  return Lockfile.parse(JSON.parse(text));
}

describe("supabase functions deploy", () => {
  const deployed = deploy();

  it("uploads the function's files, its deno.json and its lockfile, without the JWT check", async () => {
    const { files, metadata } = await deployed;
    const names = Array.from(Deno.readDirSync(join(ROOT, FUNCTION)), ({ name }) => name);
    assertEquals(
      Array.from(files.keys()).sort(),
      names.map((name) => `${FUNCTION}/${name}`).sort(),
    );
    assertEquals(metadata, {
      entrypoint_path: `${FUNCTION}/index.ts`,
      import_map_path: `${FUNCTION}/deno.json`,
      verify_jwt: false,
    });
  });

  it("uploads the same from a project that the service was installed into", async () => {
    const project = await Deno.makeTempDir();
    try {
      await Deno.mkdir(join(project, "supabase"));
      await Deno.writeTextFile(join(project, "supabase/config.toml"), 'project_id = "theirs"\n');
      applyChanges(project, planInstallation(ROOT, project, { version: "1.2.0" }).changes);
      assertEquals(await deploy(project), await deployed);
    } finally {
      await Deno.remove(project, { recursive: true });
    }
  });

  it("deploys the versions that were tested, by their checksums, of everything that is imported", async () => {
    const { files } = await deployed;
    const lock = readLockfile(files.get(`${FUNCTION}/deno.lock`) ?? "{}");
    const tested = readLockfile(await Deno.readTextFile(join(ROOT, "deno.lock")));
    for (const [name, { integrity }] of Object.entries(lock.npm)) {
      assertEquals(tested.npm[name]?.integrity, integrity, `${name}: deno task lock`);
    }
    // Nothing is missing from it, where the platform bundles: among these files and nothing else.
    const folder = await Deno.makeTempDir();
    try {
      for (const [path, text] of files) {
        await Deno.mkdir(dirname(join(folder, path)), { recursive: true });
        await Deno.writeTextFile(join(folder, path), text);
      }
      const { code, stderr } = await runDeno({
        args: ["install", "--frozen", "--node-modules-dir=none", "--entrypoint", "index.ts"],
        cwd: join(folder, FUNCTION),
      });
      assertEquals(code, 0, stderr);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
});

describe("the lockfiles", () => {
  it("agree on the packages that they share", async () => {
    const [start, dev] = await Promise.all(["deno.lock", "dev.lock"].map(async (name) => {
      return readLockfile(await Deno.readTextFile(join(ROOT, name))).npm;
    }));
    for (const [name, entry] of Object.entries(start ?? {})) {
      assertEquals(dev?.[name], entry, `${name}: deno task lock`);
    }
  });
});
