import { App } from "@supabase/lite";
import postgres from "postgres";
import { connectLite } from "./lite_connection.ts";
import { databaseUrl } from "./postgres.ts";

export interface DataApiOptions {
  databasePort: number;
  adminPassword: string;
  jwtSecret: string;
  publishableKey: string;
  secretKey: string;
  /** Given, in one line each, the statements that the database refused. */
  log?: (text: string) => void;
}

/** The stand-in for the platform's Data API (`/rest/v1`) and Auth (`/auth/v1`). */
export interface DataApi extends AsyncDisposable {
  fetch(request: Request): Response | Promise<Response>;
}

/** Connects Supabase Lite to the database. Its schema is read at the first request. */
export async function createDataApi(options: DataApiOptions): Promise<DataApi> {
  const { app, connection } = await createApp(options);
  // Lite would otherwise grant everything in each schema that has row level security to anon,
  // authenticated and service_role, which is the opposite of what a project's migrations say.
  Reflect.set(connection, "rlsState", "active");
  // Lite prints each refused statement with its stack; the caller has it as an answer.
  console.error = (...values) => options.log?.(`Data API: ${values.map(String).join(" ")}\n`);
  return {
    fetch: (request) => app.fetch(request),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

/** Makes a database look like a hosted project before any migration, if it does not yet. */
export async function createBaseline(options: DataApiOptions): Promise<void> {
  const { app, connection } = await createApp(options);
  await app.ensureSystemSchema();
  await connection.close();
  const sql = postgres(adminUrl(options), { max: 1 });
  const [done] = await sql`select from pg_roles where rolname = 'authenticator'`;
  // All statements at once are one transaction.
  if (!done) await sql.unsafe(await Deno.readTextFile(new URL("baseline.sql", import.meta.url)));
  await sql.end();
}

function adminUrl({ databasePort, adminPassword }: DataApiOptions): string {
  return databaseUrl(databasePort, "supabase_admin", adminPassword);
}

async function createApp(options: DataApiOptions) {
  const connection = await connectLite(adminUrl(options));
  const app = new App({
    connection,
    auth: {
      enabled: true,
      jwt_secret: options.jwtSecret,
      publishable_key: options.publishableKey,
      secret_key: options.secretKey,
    },
    // The Supabase CLI keeps the migrations.
    db: { migrations: { enabled: false } },
    options: { server: { disableStudio: true, disableFallback: true } },
  });
  return { app, connection };
}
