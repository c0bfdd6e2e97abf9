import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { clientAddress } from "../../supabase/functions/public-audit-log/client_address.ts";

describe("clientAddress()", () => {
  for (
    const [what, headers, address] of [
      ["the platform's header", { "CF-Connecting-IP": "203.0.113.7" }, "203.0.113.7"],
      ["the platform's before another", {
        "CF-Connecting-IP": "2001:db8::1",
        "X-Forwarded-For": "198.51.100.1",
      }, "2001:db8::1"],
      ["the nearest proxy's, not what the caller may have sent", {
        "X-Forwarded-For": "198.51.100.1, 203.0.113.7",
      }, "203.0.113.7"],
      ["nothing without a header", {}, undefined],
      ["nothing that is no address", { "X-Forwarded-For": "unknown" }, undefined],
      ["nothing with a zone", { "X-Forwarded-For": "fe80::1%eth0" }, undefined],
      ["nothing with a mask", { "CF-Connecting-IP": "203.0.113.0/24" }, undefined],
      ["nothing of 10 kB", { "X-Forwarded-For": "1".repeat(10_000) }, undefined],
    ] as const
  ) {
    it(`takes ${what}`, () => {
      assertEquals(clientAddress(new Headers(headers)), address);
    });
  }
});
