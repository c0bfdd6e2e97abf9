import { join } from "node:path";
import { createBaseline } from "./baseline.ts";
import { buildConsole } from "./console.ts";
import { createDataApi } from "./data_api.ts";
import { startEdgeFunction } from "./edge_function.ts";
import { startGateway } from "./gateway.ts";
import { createLite } from "./auth.ts";
import { databaseUrl, type PostgresOptions, startPostgres, stopPostgres } from "./postgres.ts";
import { findPostgrest, type Postgrest, startPostgrest } from "./postgrest.ts";
import { supabase } from "./supabase_cli.ts";
import { runUpkeep } from "./upkeep.ts";

export interface StackOptions {
  /** Folder of everything the stack keeps. */
  dataDir: string;
  apiPort: number;
  databasePort: number;
  /** Whether a new database gets the demonstration data of `supabase/seed.sql`, and its days are sealed. */
  seed: boolean;
  /** Told of each step before it is taken. */
  progress: (step: string) => void;
  /** Given what the Edge Function, PostgREST and the gateway log. */
  log: (text: string) => void;
}

/** What a client of the stack needs to know. */
export interface StackInfo {
  apiUrl: string;
  databaseUrl: string;
  publishableKey: string;
  secretKey: string;
}

/** A running stack. Disposing of it stops everything that it started. */
export interface Stack extends StackInfo, AsyncDisposable {
  /** Its database, for those who stop it and start it again. */
  postgres: PostgresOptions;
  /** Its PostgREST, for those who kill it; null where Supabase Lite is in its place. */
  postgrest: Pick<Postgrest, "pid"> | null;
  /** Resolves if the Edge Function's process ends by itself, to its exit code. */
  functionEnded: Promise<number>;
}

/** Starts Postgres, applies the migrations, and starts the API in front of it. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { dataDir, apiPort, databasePort, seed, progress, log } = options;
  // First: there is nothing to undo yet if it is not as it should be.
  const program = await findPostgrest();
  await using started = new AsyncDisposableStack();
  await Deno.mkdir(dataDir, { recursive: true });
  const secrets = await readSecrets(join(dataDir, "secrets.json"));
  const { publishableKey, secretKey } = secrets;

  const apiUrl = `http://127.0.0.1:${apiPort}`;
  const outDir = join(dataDir, "console");
  const building = buildConsole({ apiUrl, publishableKey, outDir });
  // A failure is thrown where it is awaited, whatever has failed before.
  building.catch(() => {});

  progress("Postgres 17");
  const { adminPassword } = secrets;
  const postgres = { dataDir: join(dataDir, "postgres"), port: databasePort, adminPassword };
  await startPostgres(postgres);
  started.defer(() => stopPostgres(postgres.dataDir));
  const lite = started.use(await createLite({ databasePort, ...secrets }));
  await createBaseline(databaseUrl(databasePort, "supabase_admin", adminPassword), {
    lite,
    ...secrets,
  });

  progress(seed ? "migrations and seed" : "migrations");
  const url = databaseUrl(databasePort);
  await supabase("db", "push", `--remote=${url}`, "--yes", ...seed ? ["--include-seed"] : [])
    .catch((error) => {
      // Until the first release, migrations are rewritten rather than added to.
      throw new Error(`${error.message}\nIs the data from older migrations? deno task reset`);
    });

  const upkeep = seed ? runUpkeep(url) : undefined;
  // Postgres is not stopped under it, whatever fails.
  started.defer(() => upkeep?.catch(() => {}));

  const name = program ? `PostgREST ${program.version}` : "Supabase Lite for want of a PostgREST";
  progress(`Data API (${name}), Auth, the function and the console`);
  let dataApi: Pick<typeof lite, "fetch"> = lite;
  let postgrest: Postgrest | null = null;
  if (program) {
    postgrest = started.use(
      await startPostgrest(program, {
        apiUrl,
        databaseUrl: databaseUrl(databasePort, "authenticator", secrets.authenticatorPassword),
        jwtSecret: secrets.jwtSecret,
        log,
      }),
    );
    dataApi = started.use(await createDataApi({ port: postgrest.port, ...secrets, log }));
  }
  const edgeFunction = started.use(await startEdgeFunction({ apiUrl, secretKey, log }));
  started.use(startGateway({
    port: apiPort,
    dataApi: dataApi.fetch,
    auth: lite.fetch,
    functionPort: edgeFunction.port,
    serveConsole: await building,
    log,
  }));

  await upkeep;
  const running = started.move();
  return {
    apiUrl,
    databaseUrl: url,
    publishableKey,
    secretKey,
    postgres,
    postgrest,
    functionEnded: edgeFunction.ended,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** Reads the stack's secrets, or makes them: they are this machine's own and stay with its data. */
async function readSecrets(path: string) {
  const random = () => crypto.randomUUID().replaceAll("-", "");
  const made = {
    adminPassword: random(),
    authenticatorPassword: random(),
    jwtSecret: random() + random(),
    publishableKey: `sb_publishable_${random()}`,
    secretKey: `sb_secret_${random()}`,
  };
  try {
    await Deno.writeTextFile(path, JSON.stringify(made), { createNew: true, mode: 0o600 });
    return made;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return JSON.parse(await Deno.readTextFile(path)) as typeof made;
  }
}
