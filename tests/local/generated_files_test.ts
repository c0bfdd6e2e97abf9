import { assertEquals, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { pathToFileURL } from "node:url";
import { databaseTypes } from "../../tasks/types.ts";
import { formatted, writeFile } from "../../tasks/generated_file.ts";

describe("a generated file", () => {
  it("is the one before until the new one is whole", async () => {
    const folder = await Deno.makeTempDir();
    try {
      const path = pathToFileURL(`${folder}/generated.ts`);
      await writeFile(path, "before");
      // What an interrupted run leaves behind is in nobody's way.
      await Deno.writeTextFile(`${folder}/generated.ts.unfinished`, "ha");
      await writeFile(path, "after");
      assertEquals(await Deno.readTextFile(path), "after");

      // Nothing can be written beside it: it stays as it is.
      await Deno.mkdir(`${folder}/generated.ts.unfinished`);
      await assertRejects(() => writeFile(path, "never"));
      assertEquals(await Deno.readTextFile(path), "after");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });

  it("is not made of what the Supabase CLI could not do, which says why", async () => {
    await assertRejects(
      () => databaseTypes("postgresql://postgres:postgres@127.0.0.1:1/postgres"),
      Error,
      "supabase gen types failed: ",
    );
  });

  it("is not made of what is no TypeScript and no JSON", async () => {
    await assertRejects(() => formatted("ts", "export type {"), Error, "deno fmt --ext=ts: ");
    await assertRejects(() => formatted("json", "{"), Error, "deno fmt --ext=json: ");
  });
});
