import { assert, assertEquals } from "@std/assert";
import { describe } from "@std/testing/bdd";
import { idsOf, idsOfLog, newFilledLog, writeOutOfOrder } from "../clients/log.ts";
import { startProxy } from "../clients/proxy.ts";
import type { Page } from "../helpers.ts";
import { built, example } from "./tools.ts";

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
  // It is killed when it asks for the second page, and twice when it has caught up beside writers and asked again.
  it("delivers every entry at least once, across kills, and asks every two seconds", async () => {
    const organization = await newFilledLog(1_500);
    const state = await Deno.makeTempDir();
    const file = `${state}/audit.ndjson`;
    const pauses: number[] = [];
    let caughtUpAt: number | undefined;
    let isWritten = false;
    let done = Promise.withResolvers<void>();
    await using api = startProxy(async (number, forward) => {
      const [now, isLast] = [performance.now(), isWritten];
      if (caughtUpAt !== undefined) pauses.push(now - caughtUpAt);
      const response = await forward();
      const { items = [], has_more = true }: Partial<Page> = await response.clone().json();
      caughtUpAt = has_more ? undefined : now;
      if (number === 2 || isLast && items.length === 0 && !has_more) done.resolve();
      return response;
    });
    for (let run = 0; run < 3; run++) {
      [caughtUpAt, isWritten, done] = [undefined, false, Promise.withResolvers<void>()];
      const collector = new Deno.Command(`${folder}/benthos`, {
        args: ["run", example("redpanda-connect/follow_audit_log.yaml")],
        env: {
          AUDIT_LOG_URL: api.url,
          AUDIT_LOG_API_KEY: organization.token,
          AUDIT_LOG_STATE: state,
          AUDIT_LOG_FILE: file,
        },
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn();
      if (run > 0) await writeOutOfOrder(organization, 5);
      isWritten = true;
      // If it ends by itself, kill() below fails.
      await Promise.race([done.promise, collector.status]);
      collector.kill("SIGKILL");
      await collector.status;
    }
    const ids = idsOf(await Deno.readTextFile(file));
    assertEquals([...new Set(ids)].sort(), await idsOfLog(organization));
    assert(pauses.every((each) => each > 1_500), `${pauses}`);
  });
});
