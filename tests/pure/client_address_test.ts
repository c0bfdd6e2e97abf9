import { assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { clientAddress } from "../../supabase/functions/public-audit-log/client_address.ts";

const SUPABASE = "CF-Connecting-IP";
const PROXIES = "X-Forwarded-For";

describe("clientAddress()", () => {
  const cases: [what: string, headers: Record<string, string>, address?: string][] = [
    ["the header of Supabase's proxy", { [SUPABASE]: "203.0.113.7" }, "203.0.113.7"],
    [
      "that before X-Forwarded-For",
      { [SUPABASE]: "2001:db8::1", [PROXIES]: "198.51.100.1" },
      "2001:db8::1",
    ],
    [
      "the address that the nearest proxy adds",
      { [PROXIES]: "198.51.100.1, 203.0.113.7" },
      "203.0.113.7",
    ],
    ["nothing without a header", {}],
    ["nothing that is no address", { [PROXIES]: "unknown" }],
    ["nothing with a zone", { [PROXIES]: "fe80::1%eth0" }],
    ["nothing with a mask", { [SUPABASE]: "203.0.113.0/24" }],
    ["nothing of 10 kB", { [PROXIES]: "1".repeat(10_000) }],
  ];
  for (const [what, headers, address] of cases) {
    it(`takes ${what}`, () => assertEquals(clientAddress(new Headers(headers)), address));
  }
});
