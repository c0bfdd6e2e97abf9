import { describe } from "@std/testing/bdd";
import { assertFollows, built } from "./tools.ts";

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
  it("delivers every entry at least once, across kills, and asks every two seconds", () =>
    assertFollows({
      config: "redpanda-connect/follow_audit_log.yaml",
      command: (path) => [`${folder}/benthos`, "run", `${path}/follow_audit_log.yaml`],
      pause: 1_500,
    }));
});
