import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import createClient from "npm:openapi-fetch@0.17.0";
import type { paths } from "../../docs/openapi.d.ts";
import { AUDIT_LOG_URL, MESSAGE_DATA, newLog, withKey } from "../helpers.ts";

describe("a client generated from openapi.json by openapi-typescript", () => {
  it("has the types of parameters, entries and errors", async () => {
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
});
