import { App } from "@supabase/lite";
import { createPostgresConnection, type PostgresConnection } from "@supabase/lite/postgres";
import postgres from "postgres";
import type { ProjectKeys } from "./data_api.ts";

/**
 * Connections at once, as Supabase Auth has on a small project. Without a bound, a burst of sign-ins would take all that
 * Postgres allows, and PostgREST would answer 503.
 */
const MOST_CONNECTIONS = 10;

export async function createAuth(
  options: ProjectKeys & { apiUrl: string; databaseUrl: string },
) {
  const { apiUrl, databaseUrl, jwtSecret, publishableKey, secretKey } = options;
  const connection = await connect(databaseUrl);
  // Otherwise Lite grants anon, authenticated and service_role everything in each schema that has row level
  // security, also what the migrations do not grant.
  Reflect.set(connection, "rlsState", "active");
  const app = new App({
    connection,
    auth: {
      enabled: true,
      jwt_secret: jwtSecret,
      publishable_key: publishableKey,
      secret_key: secretKey,
      site_url: apiUrl,
    },
    // The Supabase CLI keeps the migrations.
    db: { migrations: { enabled: false } },
    options: { server: { disableStudio: true, disableFallback: true } },
  });
  return {
    fetch: (request: Request) => app.fetch(request),
    createSchema: () => app.ensureSystemSchema(),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

/**
 * Connects to a database anew for each use. When connections are cut, a pool of the driver (postgres.js 3.4.9)
 * throws where nobody can catch it, and lends no more connections.
 */
async function connect(url: string): Promise<PostgresConnection> {
  const connection = createPostgresConnection({ url, postgresOptions: { onnotice: () => {} } });
  const { driver } = connection;
  // The first statement loads the database's array types. Later connections reuse them.
  await driver`select`;
  await driver.end();
  const waiting: (() => void)[] = [];
  let free = MOST_CONNECTIONS;
  const reserve = async () => {
    if (free > 0) free--;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    // Whoever waits gets its place.
    return openClient(driver, () => waiting.shift()?.() ?? free++);
  };
  // Lite calls nothing else of its driver.
  Object.assign(driver, { reserve, end: async () => {} });
  return connection;
}

type Statement = [text: string, parameters: postgres.ParameterOrJSON<never>[]];

/** Opens one connection. It never reconnects, so that no transaction continues on another one. */
function openClient({ options }: postgres.Sql, onEnd: () => void) {
  let isClosed = false;
  const closed = Promise.withResolvers<never>();
  closed.promise.catch(() => {});
  const onclose = () => {
    isClosed = true;
    // The driver may never settle a statement that waits for its result.
    closed.reject(new Error("the connection to the database was closed"));
  };
  // The types do not allow it, but the options of a driver can be given to a new one.
  const own: object = { ...options, max: 1, fetch_types: false, onclose };
  const client = postgres(own);
  return {
    unsafe: (...statement: Statement) =>
      isClosed ? closed.promise : Promise.race([client.unsafe(...statement), closed.promise]),
    release: () => void client.end({ timeout: 1 }).finally(onEnd),
  };
}
