import { createHash } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import root from "../deno.json" with { type: "json" };

const RELEASES = "docs/releases";
const MIGRATIONS = "supabase/migrations";
const EXTENSION = ".migrations.sha256";

if (import.meta.main) {
  const list = await freezeMigrations(fileURLToPath(new URL("..", import.meta.url)), root.version);
  console.log(`Written: ${list}`);
}

/**
 * Lists a release's migrations with their checksums, for `sha256sum -c` in the root. Others have applied them.
 *
 * @throws {Deno.errors.AlreadyExists} if the release has a list.
 */
export async function freezeMigrations(root: string, version: string): Promise<string> {
  const path = `${RELEASES}/${version}${EXTENSION}`;
  const lines = (await migrations(root)).map(async (name) => {
    return `${await sha256(root, name)}  ${MIGRATIONS}/${name}\n`;
  });
  const text = (await Promise.all(lines)).join("");
  await Deno.writeTextFile(join(root, path), text, { createNew: true });
  return path;
}

interface Release {
  list: string;
  /** The checksums of its migrations by name, in order. */
  frozen: Map<string, string>;
}

/** Finds the oldest release that has a list. It has the fewest migrations, because releases only add some. */
export async function oldestRelease(root: string): Promise<Release | undefined> {
  return (await releases(root)).sort((a, b) => a.frozen.size - b.frozen.size)[0];
}

async function releases(root: string): Promise<Release[]> {
  const found: Release[] = [];
  for await (const { name: list } of Deno.readDir(join(root, RELEASES))) {
    if (!list.endsWith(EXTENSION)) continue;
    const text = await Deno.readTextFile(join(root, RELEASES, list));
    const lines = text.matchAll(/^(\w{64}) {2}.*\/(.+)$/gm);
    found.push({
      list,
      frozen: new Map(Array.from(lines, ([, hash = "", name = ""]) => [name, hash])),
    });
  }
  return found;
}

/** Compares the migrations with those that were released. Returns a sentence for each difference. */
export async function changesOfFrozenMigrations(root: string): Promise<string[]> {
  const names = await migrations(root);
  const changes: string[] = [];
  for (const { list, frozen } of await releases(root)) {
    for (const [name, hash] of frozen) {
      if (!names.includes(name)) changes.push(`${name} is gone, and in ${list}`);
      else if (await sha256(root, name) !== hash) changes.push(`${name} differs from ${list}`);
    }
    // Installed files are numbered in this order.
    const last = Array.from(frozen.keys()).at(-1) ?? "";
    for (const name of names) {
      if (!frozen.has(name) && name < last) changes.push(`${name} must come after ${list}`);
    }
  }
  return changes;
}

async function migrations(root: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(join(root, MIGRATIONS)), ({ name }) => name)).sort();
}

async function sha256(root: string, name: string): Promise<string> {
  const bytes = await Deno.readFile(join(root, MIGRATIONS, name));
  return createHash("sha256").update(bytes).digest("hex");
}
