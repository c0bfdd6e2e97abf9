// Needs nothing.

import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { existsSync } from "node:fs";
import document from "../../docs/openapi.json" with { type: "json" };

const RELEASES = new URL("../../docs/releases/", import.meta.url);

/** No generated client reads these. */
const PROSE = ["info", "description", "summary", "example", "examples"];

/** Lists the places of what can break a client: anything but new answers, fields and optional parameters. */
function breakingChanges(older: unknown, newer: unknown, place = ""): string[] {
  const key = place.split("/").at(-1) ?? "";
  const isParameter = place.includes("/parameters/");
  if (typeof older !== "object" || typeof newer !== "object" || !older || !newer) {
    const isKept = older === newer || isParameter && key === "required" && newer === false;
    return isKept ? [] : [place];
  }
  if (Array.isArray(older) && Array.isArray(newer)) {
    if (key === "parameters") return breakingChanges(byName(older), byName(newer), `${place}/`);
    if (older.every((value) => typeof value === "string")) {
      // A parameter may take more values. An answer may not have more, because generated clients check them.
      const mayGrow = key === "required" || key === "enum" && isParameter;
      const isKept = older.every((value) => newer.includes(value));
      return isKept && (mayGrow || older.length === newer.length) ? [] : [place];
    }
  }
  const now = new Map(Object.entries(newer));
  const kept = Object.entries(older)
    .filter(([name]) => ["properties", "headers"].includes(key) || !PROSE.includes(name));
  const added = [...now.keys()].filter((name) => !(name in older))
    .filter((name) => isParameter && (key === "schema" || now.get(name)?.required));
  return [
    ...kept.flatMap(([name, part]) => breakingChanges(part, now.get(name), `${place}/${name}`)),
    ...added.map((name) => `${place}/${name}`),
  ];
}

function byName(parameters: { name: string }[]): object {
  return Object.fromEntries(parameters.map((parameter) => [parameter.name, parameter]));
}

describe("the contract", () => {
  it("has times to ask for as plain strings: as date-times, clients would send +0000 or nanoseconds", () => {
    const { parameters } = document.paths["/public-audit-log"].get;
    const times = parameters.filter(({ name }) => ["since", "until"].includes(name));
    assertEquals(times.map(({ schema }) => schema), [{ type: "string" }, { type: "string" }]);
  });

  it("changes only by additions since the last release", async () => {
    if (!existsSync(RELEASES)) return;
    const releases = Array.from(Deno.readDirSync(RELEASES), ({ name }) => name)
      .filter((name) => name.endsWith(".json"))
      .sort(new Intl.Collator("en", { numeric: true }).compare);
    const last = await Deno.readTextFile(new URL(releases.at(-1) ?? "", RELEASES));
    assertEquals(breakingChanges(JSON.parse(last), document), []);
  });
});
