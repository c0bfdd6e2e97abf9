import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createClient as generate } from "npm:@hey-api/openapi-ts@0.99.0";
import createClient from "npm:openapi-fetch@0.17.0";
import type { z } from "zod";
import type { paths } from "../../docs/openapi.d.ts";
import { AUDIT_LOG_URL, getPage, getProblem, MESSAGE_DATA, newLog, TWO_DAYS } from "../helpers.ts";
import { runDeno } from "../run_program.ts";

/** A client as an integrator makes it: openapi-typescript for the types, openapi-fetch to send. */
function clientOf(token: string) {
  // Of the two media types of a page the one that openapi-fetch asks for.
  return createClient<paths, "application/json" | "application/problem+json">({
    baseUrl: AUDIT_LOG_URL.replace("/public-audit-log", ""),
    headers: { Authorization: `Bearer ${token}` },
  });
}

describe("a client generated from openapi.json", () => {
  it("reads a page, whose entries may have any action", async () => {
    const { token } = await newLog(
      { data: { ...MESSAGE_DATA, message_id: "m-7" } },
      { action: "feedback_given", created_at: "2026-03-01T13:00:00Z", data: { feedback: "up" } },
    );
    const query = { start: "2026-03-01", end: "2026-03-02", limit: 10 };
    const { data, error } = await clientOf(token).GET("/public-audit-log", { params: { query } });
    assertEquals(error, undefined);
    const seen = data?.items.map((item) =>
      "feedback" in item.data ? item.data.feedback : item.data.message_id
    );
    assertEquals(seen, ["m-7", "up"]);
    assertEquals(data?.total, 2);
  });

  it("has what is wrong with a request as data", async () => {
    const { token } = await newLog();
    const query = { start: "2026-03-02", end: "2026-03-01" };
    const { data, error, response } = await clientOf(token)
      .GET("/public-audit-log", { params: { query } });
    assertEquals([data, response.status], [undefined, 400]);
    assertEquals(error?.code, "invalid_parameters");
    assertEquals(error?.errors?.map(({ parameter }) => parameter), ["end"]);
  });

  it("does not compile with a parameter missing or of another type", () => {
    const { GET } = clientOf("");
    const days = { start: "2026-03-01", end: "2026-03-02" };
    const wrongs = [
      // @ts-expect-error: end is missing
      () => GET("/public-audit-log", { params: { query: { start: "2026-03-01" } } }),
      // @ts-expect-error: a limit is a number
      () => GET("/public-audit-log", { params: { query: { ...days, limit: "10" } } }),
      // @ts-expect-error: there is no other path
      () => GET("/audit-log", { params: { query: days } }),
    ];
    assert(wrongs.length > 0);
  });

  it("by @hey-api/openapi-ts compiles, and takes an error code and a field that are added later", async () => {
    const folder = await Deno.makeTempDir();
    await generate({
      input: fileURLToPath(new URL("../../docs/openapi.json", import.meta.url)),
      output: folder,
      plugins: ["@hey-api/client-fetch", "zod"],
      logs: { level: "silent" },
    });
    const { code, stderr } = await runDeno({
      args: ["check", "--no-config", "--sloppy-imports", "index.ts"],
      cwd: folder,
    });
    assertEquals(code, 0, stderr);

    const { zPage, zProblem }: Record<"zPage" | "zProblem", z.ZodType> = await import(
      pathToFileURL(`${folder}/zod.gen.ts`).href
    );
    const { token } = await newLog({}, { action: "agent_added", data: {} });
    const page = await getPage(token, TWO_DAYS);
    const problem = await getProblem(400, token, "");
    zPage.parse({ ...page, added: 1, items: page.items.map((item) => ({ ...item, added: 1 })) });
    zProblem.parse(problem);
    zProblem.parse({ ...problem, code: "added_later", added: 1 });
    await Deno.remove(folder, { recursive: true });
  });
});
