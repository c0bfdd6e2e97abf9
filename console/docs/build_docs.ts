import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Marked, type Tokens } from "marked";
import { type Addresses, fillIn } from "./fill_in.ts";

const DOCS = new URL("../../docs/", import.meta.url);

/** What the customer's developers read, of docs/. */
const SOURCES = ["quick-start.md", "api.md", "following.md", "integrating.md", "verifying.md"];

interface Heading {
  depth: number;
  text: string;
  html: string;
}

interface Page {
  file: string;
  headings: Heading[];
  html: string;
  /** The files that the page links to, as paths from docs/. */
  linked: Set<string>;
  programs: Map<string, string>;
}

/**
 * Writes the pages for the customer's developers into a folder, with the files that they link to.
 *
 * @throws {Error} if a page links to a text that customers do not have.
 */
export async function buildDocs(outDir: string, addresses: Addresses): Promise<void> {
  await mkdir(outDir, { recursive: true });
  const texts = new Map<string, string>();
  for (const source of SOURCES) {
    texts.set(source, fillIn(await readFile(new URL(source, DOCS), "utf8"), addresses));
  }
  const pages = SOURCES.map((source) => render(source, texts));
  for (const page of pages) {
    await writeFile(join(outDir, page.file), frame(page, pages));
    for (const [name, code] of page.programs) await writeFile(join(outDir, name), code);
    for (const path of page.linked) {
      await copyFile(fileURLToPath(new URL(path, DOCS)), join(outDir, basename(path)));
    }
  }
  await copyFile(fileURLToPath(new URL("docs.css", import.meta.url)), join(outDir, "docs.css"));
}

/** Makes the anchor of a heading, as GitHub does. */
export function anchorOf(heading: string): string {
  return heading.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-");
}

function fileOf(source: string): string {
  // None is index.html: hosts that lead to addresses without .html then break the links on it.
  return source.replace(/md$/, "html");
}

function render(source: string, texts: Map<string, string>): Page {
  const page: Page = {
    file: fileOf(source),
    headings: [],
    html: "",
    linked: new Set(),
    programs: new Map(),
  };
  const marked = new Marked({
    renderer: {
      heading({ depth, text, tokens }) {
        const html = this.parser.parseInline(tokens);
        page.headings.push({ depth, text, html });
        return `<h${depth} id="${anchorOf(text)}">${html}</h${depth}>\n`;
      },
      link({ href, text, tokens }) {
        // A reader of the pages knows a text by its title.
        const title = texts.get(text)?.match(/^# (.*)/)?.[1];
        return `<a href="${target(href, page)}">${title ?? this.parser.parseInline(tokens)}</a>`;
      },
      code({ text, lang = "" }) {
        const block = `<pre><code>${escape(text)}</code></pre>\n`;
        const [, name] = lang.split(" title=");
        if (!name) return block;
        page.programs.set(name, `${text}\n`);
        return `<details><summary>${name}</summary>
${block}<p><a href="${name}" download>Download ${name}</a></p></details>\n`;
      },
      table({ header, rows }) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("");
        // A row about a code has it as its anchor.
        const column = header.findIndex(({ text }) => text === "`code`");
        const body = rows.map((row) => {
          const id = row[column]?.text.replaceAll("`", "");
          return `<tr${id ? ` id="${id}"` : ""}>${cells(row, "td")}</tr>\n`;
        });
        // It scrolls by itself where the window is narrow, also by keyboard.
        return `<div class="table" role="group" aria-label="Table" tabindex="0"><table>
<thead><tr>${cells(header, "th")}</tr></thead>
<tbody>${body.join("")}</tbody></table></div>\n`;
      },
    },
  });
  page.html = marked.parse(texts.get(source) ?? "", { async: false });
  return page;
}

/** Leads a link of a text in docs/ to the page or file beside the page. */
function target(href: string, page: Page): string {
  if (/^(\w+:|#)/.test(href)) return href;
  const [path = "", anchor] = href.split("#");
  if (SOURCES.includes(path)) return `${fileOf(path)}${anchor ? `#${anchor}` : ""}`;
  if (path === "openapi.json") return "../openapi.json";
  if (path.endsWith(".md")) throw new Error(`${page.file}: customers do not have ${path}`);
  page.linked.add(path);
  return basename(path);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Puts links to all pages above one, and its contents below its title. */
function frame({ file, html, headings: [title, ...sections] }: Page, pages: Page[]): string {
  const links = pages.map((page) =>
    `<a href="${page.file}"${page.file === file ? ' aria-current="page"' : ""}>${
      page.headings[0]?.html
    }</a>`
  );
  const contents = sections.filter(({ depth }) => depth === 2)
    .map(({ text, html }) => `<li><a href="#${anchorOf(text)}">${html}</a></li>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title?.html} – Audit log</title>
<link rel="icon" href="../icon.svg">
<link rel="stylesheet" href="docs.css">
</head>
<body>
<header><a class="skip" href="#content">Skip to the content</a> <strong>Audit log documentation</strong> <a href="../">Console</a></header>
<nav aria-label="Documentation">
${links.join("\n")}</nav>
<main id="content" tabindex="-1">
${
    html.replace(
      "</h1>",
      () =>
        `</h1>\n<details><summary>On this page</summary><ul>${contents.join("\n")}</ul></details>`,
    )
  }</main>
</body>
</html>
`;
}
