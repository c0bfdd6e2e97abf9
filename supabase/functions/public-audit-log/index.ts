import { createDataApiClient } from "./ask_database.ts";
import { readEnvironment } from "./environment.ts";
import { createHandler } from "./handler.ts";

const environment = readEnvironment((name) => Deno.env.get(name));

Deno.serve(createHandler({
  dataApi: createDataApiClient(environment),
  publicUrl: environment.publicUrl,
  consoleUrl: environment.consoleUrl,
  log: (line) => console.log(JSON.stringify(line)),
}));
