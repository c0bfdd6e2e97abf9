import { createDatabase } from "./database.ts";
import { readEnvironment } from "./environment.ts";
import { createHandler } from "./handler.ts";

const database = createDatabase(readEnvironment((name) => Deno.env.get(name)));

Deno.serve(createHandler({ database, log: (line) => console.log(JSON.stringify(line)) }));
