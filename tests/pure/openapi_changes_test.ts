import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { incompatibleChanges } from "./compatibility.ts";
import document from "../../docs/openapi.json" with { type: "json" };

const DOCS = fileURLToPath(new URL("../../docs/", import.meta.url));

/** A value at a place in the document (RFC 6901); `undefined` takes it away, `-` appends. */
type Edit = [pointer: string, value: unknown];

/** The incompatible changes of a document that was edited. */
async function changesOf(edits: Edit[]): Promise<string[]> {
  const draft: unknown = structuredClone(document);
  edits.forEach((edit) => apply(draft, edit));
  const file = await Deno.makeTempFile({ suffix: ".json" });
  await Deno.writeTextFile(file, JSON.stringify(draft));
  const changes = await incompatibleChanges(`${DOCS}openapi.json`, file);
  await Deno.remove(file);
  return changes;
}

function apply(target: unknown, [pointer, value]: Edit): void {
  const names = pointer.split("/").map((name) => name.replaceAll("~1", "/"));
  const last = names.pop() ?? "";
  const place = names.reduce(
    (object: unknown, name) => (object as Record<string, unknown>)[name],
    target,
  );
  if (Array.isArray(place) && last === "-") place.push(value);
  else if (value === undefined) delete (place as Record<string, unknown>)[last];
  else (place as Record<string, unknown>)[last] = value;
}

const byVersion = new Intl.Collator("en", { numeric: true }).compare;
const RELEASES = Array.from(Deno.readDirSync(`${DOCS}releases`), ({ name }) => name)
  .filter((name) => name.endsWith(".json"))
  .map((name) => name.slice(0, -".json".length))
  .sort(byVersion);

const GET = "paths/~1public-audit-log/get";
const SCHEMAS = "components/schemas";

/** Each in another place, with what must be said of it. */
const INCOMPATIBLE: Record<string, Edit> = {
  "parameters/7": [`${GET}/parameters/7/name`, "sort"],
  "parameters/2 `action` query parameter became required": [`${GET}/parameters/2/required`, true],
  "parameters/4/schema Upper bound": [`${GET}/parameters/4/schema/maximum`, 500],
  "parameters/5/schema default": [`${GET}/parameters/5/schema/default`, 1],
  "parameters/2/schema Enum": [`${GET}/parameters/2/schema/enum`, ["agent_added"]],
  "responses/429": [`${GET}/responses/429`, undefined],
  "200/headers/RateLimit required": ["components/headers/RateLimit/required", false],
  "headers/RateLimit-Policy required": ["components/headers/RateLimit-Policy/required", undefined],
  "200/headers/Link": [`${GET}/responses/200/headers/Link`, undefined],
  "headers/X-Request-Id": ["components/headers/X-Request-Id/schema/format", "date"],
  "properties/organization_id": [`${SCHEMAS}/Page/properties/organization_id`, undefined],
  "properties/total": [`${SCHEMAS}/Page/properties/total`, { type: "string" }],
  "anyOf/0/properties/user_email": [
    `${SCHEMAS}/MessageCreated/properties/user_email/type`,
    ["string", "null"],
  ],
  "anyOf/1/properties/agent_name": [`${SCHEMAS}/OtherEntry/properties/agent_name`, undefined],
  "properties/code": [`${SCHEMAS}/Problem/properties/code/type`, "integer"],
  "anyOf/1/properties/action": [`${SCHEMAS}/OtherEntry/properties/action/type`, "integer"],
  "400/content": [`${GET}/responses/400/content`, { "text/plain": { schema: { type: "string" } } }],
};

const PAGE = "responses/200/content/application~1json/schema/properties";

/** What was decided all the same, word by word. */
const DECIDED = [
  // The specification promises a text; the contract had said more. Only organizations to which the platform gives an
  // external_id have another id than a UUID.
  ...["", "~1seals"].map((path) =>
    `#/paths/~1public-audit-log${path}/get/${PAGE}/organization_id ` +
    "`format` of `organization_id` was removed."
  ),
  // Actions are the platform's own. Only where it adds one can a client see one more. Old clients send what is still
  // taken: the pattern is wider than the list.
  '#/components/schemas/OtherEntry/properties/action enum: ["agent_added","conversation_created","feedback_given"] → undefined',
  `#/${GET}/parameters/2/schema enum: ["agent_added","conversation_created","message_created","feedback_given"] → undefined`,
  `#/${GET}/parameters/2/schema \`pattern\` was set to '^[A-Za-z0-9][\\w.:-]{0,62}$'.`,
  `#/${GET}/${PAGE}/items/items/oneOf \`oneOf\` of \`AuditEntry\` was removed.`,
];

const ADDITIONS: Edit[] = [
  [`${GET}/parameters/-`, { name: "user", in: "query", schema: { type: "string" } }],
  [`${GET}/parameters/4/schema/maximum`, 5000],
  [`${GET}/parameters/2/schema/examples/-`, "agent_removed"],
  [`${SCHEMAS}/Page/properties/further`, { type: "string" }],
  [`${GET}/responses/200/headers/ETag`, { schema: { type: "string" } }],
  [`${GET}/responses/503`, { description: "Later" }],
  [`${GET}/description`, "Other words."],
];

describe("the contract", () => {
  it("changes only by additions: no client of the last release can stumble", async () => {
    const last = `${DOCS}releases/${RELEASES.at(-1)}.json`;
    const changes = await incompatibleChanges(last, `${DOCS}openapi.json`);
    assertEquals(changes.filter((change) => !DECIDED.includes(change)), []);
  });

  it("is as it was released, or has a newer version and a word in the changelog", async () => {
    const changelog = await Deno.readTextFile(`${DOCS}../CHANGELOG.md`);
    const { version } = document.info;
    const released = Array.from(changelog.matchAll(/^## \[(\d.*)\]/gm), ([, version]) => version);
    const missing = released.find((version) => !RELEASES.includes(version ?? "")) ?? version;
    assertEquals(
      released.reverse(),
      RELEASES,
      "each version in CHANGELOG.md has its file in docs/releases, and no other: to release " +
        `${missing}, cp docs/openapi.json docs/releases/${missing}.json`,
    );
    assertEquals(
      [...RELEASES, version].sort(byVersion).at(-1),
      version,
      "the version is older than the last in docs/releases: raise it in deno.json, then deno task openapi",
    );
    if (RELEASES.includes(version)) {
      assertEquals(
        document,
        JSON.parse(await Deno.readTextFile(`${DOCS}releases/${version}.json`)),
        `docs/openapi.json differs from docs/releases/${version}.json, which was released: raise the ` +
          "version in deno.json, then deno task openapi",
      );
    } else {
      assert(
        /^## \[Unreleased\]\n\n### /m.test(changelog),
        `CHANGELOG.md says nothing under ## [Unreleased] about version ${version}`,
      );
    }
  });
});

describe("a change", () => {
  it("that takes away, narrows or changes a meaning is found", async () => {
    const changes = (await changesOf(Object.values(INCOMPATIBLE))).join("\n");
    for (const what of Object.keys(INCOMPATIBLE)) assertStringIncludes(changes, what);
  });

  it("of the path, of how to show the key, or of the kinds of entries is found", async () => {
    const path = document.paths["/public-audit-log"];
    const key = { type: "apiKey", in: "header", name: "X-Key" };
    assert((await changesOf([["paths", { "/audit-log": path }]])).length > 0);
    assert((await changesOf([["components/securitySchemes/apiKey", key]])).length > 0);
    assert((await changesOf([[`${SCHEMAS}/AuditEntry/anyOf/1`, undefined]])).length > 0);
  });

  it("that only adds is none to stumble over", async () => {
    assertEquals(await changesOf(ADDITIONS), []);
  });
});
