import { App } from "@supabase/lite";
import { createPostgresConnection, type PostgresConnection } from "@supabase/lite/postgres";
import postgres from "postgres";
import { databaseUrl } from "./postgres.ts";

/** At a time; the server takes 60 (local/postgres.ts). */
const MAX_CONNECTIONS = 10;

export interface LiteOptions {
  databasePort: number;
  adminPassword: string;
  jwtSecret: string;
  publishableKey: string;
  secretKey: string;
}

/** Supabase Lite: Auth (`/auth/v1`), and a Data API (`/rest/v1`) for machines without PostgREST. */
export interface Lite extends AsyncDisposable {
  fetch(request: Request): Response | Promise<Response>;
  /** Makes its own schema, `auth`, in the database. */
  createSchema(): Promise<void>;
}

/** Connects Supabase Lite to the database. */
export async function createLite(options: LiteOptions): Promise<Lite> {
  const { databasePort, adminPassword, jwtSecret, publishableKey, secretKey } = options;
  const connection = await connect(databaseUrl(databasePort, "supabase_admin", adminPassword));
  // As a Data API it would otherwise grant everything in each schema that has row level security to
  // anon, authenticated and service_role, which is the opposite of what a project's migrations say.
  Reflect.set(connection, "rlsState", "active");
  const app = new App({
    connection,
    auth: {
      enabled: true,
      jwt_secret: jwtSecret,
      publishable_key: publishableKey,
      secret_key: secretKey,
    },
    // The Supabase CLI keeps the migrations.
    db: { migrations: { enabled: false } },
    options: { server: { disableStudio: true, disableFallback: true } },
  });
  return {
    fetch: async (request) => keepLines(await app.fetch(request)),
    createSchema: () => app.ensureSystemSchema(),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

/** Gives the items of a page the line of their own by which the function finds them: Lite writes JSON anew. */
async function keepLines(response: Response): Promise<Response> {
  if (!response.headers.get("Content-Type")?.startsWith("application/json")) return response;
  const text = await response.text();
  return new Response(
    text.replace(/^(\{"decision":"accepted",.*?"items":)(\[.*\])/s, "$1\n$2\n"),
    response,
  );
}

/**
 * Connects to a database, anew for each use: a pool of the driver (postgres.js 3.4.9) does not outlive
 * that its connections are cut. It throws where nobody can catch it, and lends the next one to nobody.
 */
async function connect(url: string): Promise<PostgresConnection> {
  const connection = createPostgresConnection({ url, postgresOptions: { onnotice: () => {} } });
  const { driver } = connection;
  // With its first statement it learns the database's array types; once is enough.
  await driver`select`;
  await driver.end();
  let free = MAX_CONNECTIONS;
  const waiting: (() => void)[] = [];
  const reserve = async () => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return openClient(driver, () => {
      const next = waiting.shift();
      if (next) next();
      else free++;
    });
  };
  // Lite uses no more of its driver than this.
  Object.assign(driver, { reserve, end: async () => {} });
  return connection;
}

type Statement = [text: string, parameters: postgres.ParameterOrJSON<never>[]];

/** One connection, and never another: a transaction is all on one. */
function openClient({ options }: postgres.Sql, released: () => void) {
  let isClosed = false;
  const closed = Promise.withResolvers<never>();
  closed.promise.catch(() => {});
  const onclose = () => {
    isClosed = true;
    // The driver may have forgotten a statement that waits for its result.
    closed.reject(new Error("the connection to the database was closed"));
  };
  // The types do not say so, but a driver's options are options.
  const own: object = { ...options, max: 1, fetch_types: false, onclose };
  const client = postgres(own);
  return {
    unsafe: (...statement: Statement) =>
      isClosed ? closed.promise : Promise.race([client.unsafe(...statement), closed.promise]),
    release: () => void client.end({ timeout: 1 }).finally(released),
  };
}
