// Needs nothing.

import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { glob } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { anchorOf } from "../../console/docs/build_docs.ts";
import { fillIn } from "../../console/docs/fill_in.ts";
import tasks from "../../deno.json" with { type: "json" };

const ROOT = new URL("../../", import.meta.url);
const cwd = fileURLToPath(ROOT);

/** The pages that people read, by their path in the repository. */
const PAGES = new Map(
  ["", "docs/", "dev/bench/"].flatMap((folder) =>
    Array.from(Deno.readDirSync(new URL(folder, ROOT)), ({ name }) => `${folder}${name}`)
      .filter((path) => path.endsWith(".md"))
      .map((path): [string, string] => [path, Deno.readTextFileSync(new URL(path, ROOT))])
  ),
);

async function exists(path: string, from = ""): Promise<boolean> {
  return await Deno.stat(new URL(path, new URL(from, ROOT))).then(() => true, () => false);
}

/** Lists what a page names in the form of a pattern. */
function named(text: string, pattern: RegExp): string[] {
  return Array.from(text.matchAll(pattern), ([, name = ""]) => name);
}

describe("the pages", () => {
  it("have no dead relative link", async () => {
    const dead: string[] = [];
    for (const [page, text] of PAGES) {
      const prose = text.replaceAll(/^```[^]*?^```$/gm, "").replaceAll(/`[^`\n]*`/g, "code");
      for (const link of named(prose, /\[[^\]]*\]\((?!\w+:)([^()\s]*)\)/g)) {
        const [path, anchor] = link.split("#");
        const target = new URL(path || page.split("/").at(-1) || "", new URL(page, ROOT));
        const content = await Deno.readTextFile(target).catch(() => null);
        const anchors = named(content ?? "", /^#+ (.*)$/gm).map(anchorOf);
        const isThere = content !== null && (!anchor || anchors.includes(anchor));
        if (!isThere) dead.push(`${page}: ${link}`);
      }
    }
    assertEquals(dead, []);
  });

  it("get an installation's addresses as they are, whatever characters they have", () => {
    const addresses = { auditLogUrl: "https://a.example/$&", consoleUrl: "https://b.example/$1/" };
    const text = "https://….supabase.co/functions/v1/public-audit-log https://console.example.com/";
    assertEquals(fillIn(text, addresses), Object.values(addresses).join(" "));
  });

  it("send nobody to the package's name in npm's registry, which is not ours, and neither does a program", async () => {
    const folders = "{cli,console,dev/tasks,docs/examples,supabase/functions/_shared}";
    const texts = new Map(PAGES);
    for await (const path of glob(`${folders}/**/*.{ts,tsx,py,json}`, { cwd })) {
      texts.set(path, await Deno.readTextFile(new URL(path, ROOT)));
    }
    const wrong =
      /(npx|npm \w+|pnpm \w+|yarn \w+|bunx?|deno run)( -\S+)* (npm:)?public-audit-log(?!\S)/i;
    const found = Array.from(texts, ([path, text]) => [path, text.match(wrong)?.[0]]);
    assertEquals(found.filter(([, command]) => command), []);
    assert(texts.size > 100);
  });

  it("have no comment in commands to paste: a zsh at a terminal, as on macOS, takes it for arguments", () => {
    const comments = Array.from(PAGES).flatMap(([page, text]) =>
      named(text, /^ *```(?:sh|bash)\n([^]*?)^ *```$/gm)
        .flatMap((commands) => commands.match(/^(.*\s)?#(\s.*)?$/gm) ?? [])
        .map((line) => `${page}: ${line}`)
    );
    assertEquals(comments, []);
  });

  it("name only tasks, files and tests that exist", async () => {
    const files = await Array.fromAsync(glob("tests/**", { cwd }));
    const unknown: string[] = [];
    for (const [page, text] of PAGES) {
      const missing = [
        ...named(text, /deno task ([a-z][\w:]*)/g).filter((task) => !(task in tasks.tasks)),
        // As in `seals_test` and `attacks/tenants_test`.
        ...named(text, /`((?:\w+\/)?\w+_test)`/g)
          .filter((name) => !files.some((file) => file.endsWith(`/${name}.ts`))),
      ];
      const paths = /[\s`]((?:\w[\w-]*\/)+[\w-]+\.(?:ts|tsx|sql|json|toml|yml))\b/g;
      for (const path of [...named(text, paths), ...named(text, / (tests\/[\w/.]*)/g)]) {
        const places = ["", page, "supabase/schemas/"];
        const found = await Promise.all(places.map((place) => exists(path, place)));
        if (!found.includes(true)) missing.push(path);
      }
      unknown.push(...missing.map((name) => `${page}: ${name}`));
    }
    assertEquals(unknown, []);
  });
});
