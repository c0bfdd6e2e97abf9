import { assert, assertEquals } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { idsOf, idsOfLog, newFilledLog } from "../clients/log.ts";
import { built, example, followThroughKills } from "./tools.ts";

/** Benthos, the engine of Redpanda Connect, with the components that the configuration uses. */
const { folder, it } = await built(
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

describe("examples/redpanda-connect", () => {
  it("delivers every entry at least once, across kills, and asks every two seconds", async () => {
    const organization = await newFilledLog(1_500);
    const state = await Deno.makeTempDir();
    const pauses = await followThroughKills(
      organization,
      (url, { token }) =>
        new Deno.Command(`${folder}/benthos`, {
          args: ["run", example("redpanda-connect/follow_audit_log.yaml")],
          env: {
            AUDIT_LOG_URL: url,
            AUDIT_LOG_API_KEY: token,
            AUDIT_LOG_STATE: state,
            AUDIT_LOG_FILE: `${state}/audit.ndjson`,
          },
          stdin: "null",
          stdout: "null",
          stderr: "null",
        }),
    );
    const ids = idsOf(await Deno.readTextFile(`${state}/audit.ndjson`));
    assertEquals([...new Set(ids)], await idsOfLog(organization));
    assert(pauses.every((pause) => pause > 1_500), `${pauses}`);
    console.log(`${ids.length} deliveries of ${new Set(ids).size} entries`);
  });
});
