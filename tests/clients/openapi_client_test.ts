import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createClient as generate } from "npm:@hey-api/openapi-ts@0.99.0";
import createClient from "npm:openapi-fetch@0.17.0";
import type { z } from "zod";
import type { paths } from "../../docs/openapi.d.ts";
import {
  AUDIT_LOG_URL,
  getPage,
  getProblem,
  MESSAGE_DATA,
  newLog,
  TWO_DAYS,
  withKey,
} from "../helpers.ts";
import { runDeno } from "../run_program.ts";
import { mustRun, newFolder } from "./cli.ts";

describe("a client generated from openapi.json", () => {
  it("by openapi-typescript has the types of parameters, entries and errors", async () => {
    const { token } = await newLog(
      { data: { ...MESSAGE_DATA, message_id: "m-7" } },
      { action: "feedback_given", created_at: "2026-03-01T13:00:00Z", data: { feedback: "up" } },
    );
    const baseUrl = AUDIT_LOG_URL.replace("/public-audit-log", "");
    // openapi-fetch asks for the first of the two media types of a page.
    const { GET } = createClient<paths, "application/json" | "application/problem+json">({
      ...withKey(token),
      baseUrl,
    });
    const query = { start: "2026-03-01", end: "2026-03-02", limit: 10 };
    const { data } = await GET("/public-audit-log", { params: { query } });
    const seen = data?.items.map((item) =>
      "feedback" in item.data ? item.data.feedback : item.data.message_id
    );
    assertEquals([seen, data?.total], [["m-7", "up"], 2]);

    const reversed = { start: "2026-03-02", end: "2026-03-01" };
    const { error } = await GET("/public-audit-log", { params: { query: reversed } });
    assertEquals(error?.code, "invalid_parameters");
    assertEquals(error?.errors?.map(({ parameter }) => parameter), ["end"]);

    const _doNotCompile = [
      // @ts-expect-error: end is missing
      () => GET("/public-audit-log/seals", { params: { query: { start: "2026-03-01" } } }),
      // @ts-expect-error: a limit is a number
      () => GET("/public-audit-log", { params: { query: { ...query, limit: "10" } } }),
      // @ts-expect-error: there is no other path
      () => GET("/audit-log", { params: { query } }),
    ];
  });

  it("by @hey-api/openapi-ts compiles, and takes an error code and a field that are added later", async () => {
    const folder = newFolder();
    await generate({
      input: fileURLToPath(new URL("../../docs/openapi.json", import.meta.url)),
      output: folder,
      plugins: ["@hey-api/client-fetch", "zod"],
      logs: { level: "silent" },
    });
    const args = ["check", "--no-config", "--sloppy-imports", "index.ts"];
    await mustRun(runDeno({ args, cwd: folder }));

    const { zPage, zProblem }: Record<"zPage" | "zProblem", z.ZodType> = await import(
      pathToFileURL(`${folder}/zod.gen.ts`).href
    );
    const { token } = await newLog({}, { action: "agent_added", data: {} });
    const page = await getPage(token, TWO_DAYS);
    const problem = await getProblem(400, token, "");
    zPage.parse({ ...page, added: 1, items: page.items.map((item) => ({ ...item, added: 1 })) });
    zProblem.parse(problem);
    zProblem.parse({ ...problem, code: "added_later", added: 1 });
  });
});
