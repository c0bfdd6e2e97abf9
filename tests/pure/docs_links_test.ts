import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import tasks from "../../deno.json" with { type: "json" };

const ROOT = new URL("../../", import.meta.url);

/** The pages that people read, by their path in the repository. */
const PAGES = new Map(
  ["", "docs/", "bench/", ".github/", ".github/ISSUE_TEMPLATE/"].flatMap((folder) =>
    Array.from(Deno.readDirSync(new URL(folder, ROOT)), ({ name }) => `${folder}${name}`)
      .filter((path) => path.endsWith(".md"))
      .map((path): [string, string] => [path, Deno.readTextFileSync(new URL(path, ROOT))])
  ),
);

/** Relative links and pictures, `[text](path#anchor)`; not those in code. */
function links(text: string): { path: string; anchor: string | undefined }[] {
  const prose = text.replaceAll(/^```[^]*?^```$/gm, "").replaceAll(/`[^`\n]*`/g, "code");
  return Array.from(
    prose.matchAll(/\[[^\]]*\]\(([^()\s#]*)(?:#([^()\s]+))?\)/g),
    ([, path = "", anchor]) => ({ path, anchor }),
  ).filter(({ path }) => !/^\w+:/.test(path));
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchors(text: string): string[] {
  return Array.from(
    text.matchAll(/^#+ (.*)$/gm),
    ([, heading = ""]) =>
      heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-"),
  );
}

async function exists(path: string, from = ""): Promise<boolean> {
  return await Deno.stat(new URL(path, new URL(from, ROOT))).then(() => true, () => false);
}

describe("the pages", () => {
  it("have no dead link", async () => {
    const dead: string[] = [];
    for (const [page, text] of PAGES) {
      for (const { path, anchor } of links(text)) {
        const target = new URL(path || page.split("/").at(-1) || "", new URL(page, ROOT));
        const content = await Deno.readTextFile(target).catch(() => null);
        const isThere = content !== null && (!anchor || anchors(content).includes(anchor));
        if (!isThere) dead.push(`${page}: ${path}${anchor ? `#${anchor}` : ""}`);
      }
    }
    assertEquals(dead, []);
  });

  it("name only tasks, tests, migrations and files that exist", async () => {
    const migrations = Array.from(
      Deno.readDirSync(new URL("supabase/migrations/", ROOT)),
      ({ name }) => name,
    );
    const unknown: string[] = [];
    for (const [page, text] of PAGES) {
      for (const [, task = ""] of text.matchAll(/deno task ([a-z][\w:]*)/g)) {
        if (!(task in tasks.tasks)) unknown.push(`${page}: deno task ${task}`);
      }
      for (
        const [, path = ""] of text.matchAll(
          /[\s`]((?:\w[\w-]*\/)+[\w-]+\.(?:ts|tsx|sql|json|toml|yml))\b/g,
        )
      ) {
        if (!await exists(path) && !await exists(path, page)) unknown.push(`${page}: ${path}`);
      }
      for (const [, name = ""] of text.matchAll(/migration\s`(\w+)`/g)) {
        if (!migrations.some((file) => file.endsWith(`_${name}.sql`))) {
          unknown.push(`${page}: migration ${name}`);
        }
      }
      for (const [, path = ""] of text.matchAll(/ (tests\/[\w/.]*)/g)) {
        if (!await exists(path)) unknown.push(`${page}: ${path}`);
      }
    }
    assertEquals(unknown, []);
  });

  it("that describe what is protected name a test for it that exists", async () => {
    const folders = ["pure", "stack", "local", "attacks", "clients", "browser", "faults"];
    const text = PAGES.get("SECURITY.md") ?? "";
    const named = new Set(
      Array.from(text.matchAll(/`((?:\w+\/)?\w+_test|(?:browser|faults)\/)`/g), ([, name]) => name),
    );
    assert(named.size > 10);
    const missing: string[] = [];
    for (const name of named) {
      const paths = folders.map((folder) => `tests/${folder}/${name}.ts`);
      const found = await Promise.all(
        [...paths, `tests/${name}.ts`, `tests/${name}`].map((path) => exists(path)),
      );
      if (!found.includes(true)) missing.push(name ?? "");
    }
    assertEquals(missing, []);
  });
});
