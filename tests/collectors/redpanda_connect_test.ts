import { assert, assertEquals } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import { fileURLToPath } from "node:url";
import { newOrganization, signUp, sql } from "../helpers.ts";
import { idsOf, idsOfLog, writeOutOfOrder } from "../clients/out_of_order.ts";
import { startProxy, throughProxy } from "../clients/proxy.ts";
import { built } from "./tools.ts";

const CONFIGURATION = fileURLToPath(
  new URL("../../examples/redpanda-connect/follow_audit_log.yaml", import.meta.url),
);

/** Benthos, the engine of Redpanda Connect, with the components that the configuration uses. */
const folder = await built(
  "benthos",
  `
cat > main.go <<END
package main

import (
	"context"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
)

func main() { service.RunCLI(context.Background()) }
END
[ -e go.mod ] || go mod init collector
go get github.com/redpanda-data/benthos/v4@v4.44.0
go mod tidy
go build -o benthos .`,
);

function start(state: string, url: string, token: string) {
  const process = new Deno.Command(`${folder}/benthos`, {
    args: ["run", CONFIGURATION],
    env: {
      AUDIT_LOG_URL: url,
      AUDIT_LOG_API_KEY: token,
      AUDIT_LOG_STATE: state,
      AUDIT_LOG_FILE: `${state}/audit.ndjson`,
    },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      process.kill("SIGKILL");
      await process.status;
    },
  };
}

describe("examples/redpanda-connect", () => {
  (folder ? it : it.skip)(
    "delivers every entry at least once, across kills, and asks every two seconds",
    async () => {
      const organization = await newOrganization(await signUp());
      await sql`
      insert into audit_log.audit_entries (organization_id, created_at, action, user_email, agent_name)
      select ${organization.id}, '2026-11-20Z'::timestamptz + n * interval '1 s', 'agent_added', 'ada@example.com', 'A'
      from generate_series(1, 1500) as n`;
      const state = await Deno.makeTempDir();
      let pages = Promise.withResolvers<void>();
      await using api = startProxy(async (_number, forward) => {
        const response = await forward();
        const { items }: { items: unknown[] } = await response.clone().json();
        if (items.length === 0) pages.resolve();
        return throughProxy(response, api);
      });
      for (let run = 0; run < 3; run++) {
        pages = Promise.withResolvers<void>();
        await using _collector = start(state, api.url, organization.token);
        await writeOutOfOrder(sql, organization, 5);
        await pages.promise;
      }
      const ids = idsOf(await Deno.readTextFile(`${state}/audit.ndjson`));
      assertEquals([...new Set(ids)], await idsOfLog(sql, organization));
      // Between two runs it asks at once.
      const gaps = api.requestedAt.slice(1).map((time, n) => time - (api.requestedAt[n] ?? 0));
      assert(gaps.filter((gap) => gap < 1_500).length <= 2, `${gaps}`);
      console.log(
        `${ids.length} deliveries of ${new Set(ids).size} entries in ${gaps.length} requests`,
      );
    },
  );
});
