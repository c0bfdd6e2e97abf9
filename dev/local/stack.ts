import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { install } from "../../cli/install/install.ts";
import { runUpkeep } from "../harness/project.ts";
import { buildConsole, type ServeConsole } from "./console.ts";
import { createDataApi } from "./data_api.ts";
import { startEdgeFunction } from "./edge_function.ts";
import { startGateway } from "./gateway.ts";
import { createAuth } from "./auth.ts";
import {
  databaseUrl,
  majorVersion,
  type PostgresOptions,
  startPostgres,
  stopPostgres,
} from "./postgres.ts";
import { findPostgrest, startPostgrest } from "./postgrest.ts";
import { newStreamsKey, startStreams } from "./streams.ts";
import { supabase } from "./supabase_cli.ts";

export interface StackOptions {
  dataDir: string;
  apiPort: number;
  databasePort: number;
  server?: Pick<PostgresOptions, "programs" | "settings">;
  /** Whether to install the service: its migrations and its console. It is installed by default. */
  isMigrated?: boolean;
  hasStreams?: boolean;
  /** Whether a new database gets the data of `supabase/seed.sql`, with its days sealed, and streams are delivered. */
  isDemo?: boolean;
  progress: (step: string) => void;
  /** Gets log lines of the Edge Function, PostgREST and the gateway. */
  log: (text: string) => void;
}

export interface StackInfo {
  apiUrl: string;
  databaseUrl: string;
  publishableKey: string;
  secretKey: string;
}

export interface Stack extends StackInfo, AsyncDisposable {
  /** For tests that stop Postgres and start it again. */
  postgres: PostgresOptions;
  /** Resolves to the signal or exit code when the Edge Function's process ends. */
  functionEnded: Promise<string>;
}

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Starts Postgres, applies the migrations, and starts the API in front of it. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { dataDir, apiPort, databasePort, server, progress, log } = options;
  const { isMigrated = true, isDemo = false } = options;
  // Checked first, while there is nothing to undo.
  const program = await findPostgrest();
  await using started = new AsyncDisposableStack();
  await Deno.mkdir(dataDir, { recursive: true });
  const secrets = await readSecrets(join(dataDir, "secrets.json"));
  const { publishableKey, secretKey, adminPassword, authenticatorPassword } = secrets;
  const apiUrl = `http://127.0.0.1:${apiPort}`;
  const outDir = join(dataDir, "console");
  let building: Promise<ServeConsole> | undefined;
  // When somebody first asks for it: most stacks of tests have no console to show.
  const findConsole = () => building ??= buildConsole({ apiUrl, publishableKey, outDir });
  // Nothing may write to the folder after the end.
  started.defer(() => building?.then(() => {}, () => {}));
  if (isDemo) findConsole().catch(() => {});

  progress(`Postgres ${await majorVersion(server?.programs)}`);
  const clusterDir = join(dataDir, "postgres");
  const cluster = { dataDir: clusterDir, port: databasePort, adminPassword, ...server };
  await startPostgres(cluster);
  started.defer(() => stopPostgres(clusterDir));
  const adminUrl = databaseUrl(databasePort, "supabase_admin", adminPassword);
  const auth = started.use(await createAuth({ apiUrl, databaseUrl: adminUrl, ...secrets }));
  await createBaseline(adminUrl, authenticatorPassword, auth.createSchema);

  const url = databaseUrl(databasePort);
  if (isMigrated) {
    progress(isDemo ? "migrations and seed" : "migrations");
    await migrate(url, options);
  }

  progress(`Data API (PostgREST ${program.version}), Auth, the function and the console`);
  const postgrest = started.use(
    await startPostgrest(program, {
      apiUrl,
      databaseUrl: databaseUrl(databasePort, "authenticator", authenticatorPassword),
      schemas: ["public", ...isMigrated ? ["audit_log"] : []],
      jwtSecret: secrets.jwtSecret,
      log,
    }),
  );
  const dataApi = started.use(createDataApi({ port: postgrest.port, ...secrets, log }));
  const edgeFunction = started.use(await startEdgeFunction({ apiUrl, secretKey, log }));
  const streams = isDemo
    ? started.use(await startStreams({ apiUrl, databaseUrl: url, ...secrets, log }))
    : undefined;
  await building;
  started.use(startGateway({
    port: apiPort,
    dataApi: dataApi.fetch,
    auth: auth.fetch,
    functionPorts: { "public-audit-log": edgeFunction.port, "audit-log-streams": streams?.port },
    serveConsole: async (path) => isMigrated ? (await findConsole())(path) : null,
    log,
  }));

  const running = started.move();
  return {
    apiUrl,
    databaseUrl: url,
    publishableKey,
    secretKey,
    postgres: cluster,
    functionEnded: edgeFunction.ended,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** Makes a new database look like a hosted project's, before any migration. */
async function createBaseline(url: string, password: string, createAuthSchema: () => unknown) {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  const [done] = await sql`select from pg_roles where rolname = 'authenticator'`;
  if (!done) {
    // Auth grants privileges to it.
    await sql.unsafe(`do $$ begin
      create role postgres login createrole createdb replication bypassrls password 'postgres';
    exception when duplicate_object then null; end $$`);
    await createAuthSchema();
    const baseline = await Deno.readTextFile(new URL("baseline.sql", import.meta.url));
    await sql.unsafe(`${baseline}; alter role authenticator password '${password}'`);
  }
  await sql.end();
}

/** Applies the migrations and, for a demonstration, the seed. */
async function migrate(url: string, { dataDir, hasStreams = true, isDemo }: StackOptions) {
  let project = ROOT;
  if (!hasStreams) {
    project = join(dataDir, "project");
    await Deno.mkdir(join(project, "supabase/migrations"), { recursive: true });
    install(ROOT, project, { withoutStreams: true });
  }
  const push = ["db", "push", `--workdir=${project}`, `--remote=${url}`, "--yes"];
  await supabase(...push, ...isDemo ? ["--include-seed"] : []).catch(({ message }) => {
    const next = "If a migration was edited after it was applied, delete the data: deno task reset";
    throw new Error(`${message}\n${next}`);
  });
  if (!isDemo) return;
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  // Seals past days.
  await runUpkeep(sql).finally(() => sql.end());
}

/** Reads the stack's secrets, or creates them: they are different on every machine and stay with its data. */
async function readSecrets(path: string) {
  const random = () => crypto.randomUUID().replaceAll("-", "");
  const made = {
    adminPassword: random(),
    authenticatorPassword: random(),
    jwtSecret: random() + random(),
    publishableKey: `sb_publishable_${random()}`,
    secretKey: `sb_secret_${random()}`,
    streamsTriggerSecret: random(),
    streamsKey: await newStreamsKey(),
  };
  const stored = existsSync(path) ? await Deno.readTextFile(path) : "{}";
  // The data of an older version has fewer.
  const secrets: typeof made = { ...made, ...JSON.parse(stored) };
  await Deno.writeTextFile(path, JSON.stringify(secrets), { mode: 0o600 });
  return secrets;
}
