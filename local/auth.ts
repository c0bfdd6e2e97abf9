import { App } from "@supabase/lite";
import { createPostgresConnection } from "@supabase/lite/postgres";
import { databaseUrl } from "./postgres.ts";

export interface AuthOptions {
  databasePort: number;
  adminPassword: string;
  jwtSecret: string;
  publishableKey: string;
  secretKey: string;
}

/** Serves `/auth/v1`. */
export interface Auth extends AsyncDisposable {
  fetch(request: Request): Response | Promise<Response>;
  createSchema(): Promise<void>;
  /** Call it after createSchema. */
  start(): Promise<void>;
}

/** Creates Supabase Lite. The stack uses its Auth unless SUPABASE_AUTH_BIN names a Supabase Auth. */
export function createLite(options: AuthOptions): Auth {
  const { databasePort, adminPassword, jwtSecret, publishableKey, secretKey } = options;
  const connection = createPostgresConnection({
    url: databaseUrl(databasePort, "supabase_admin", adminPassword),
    // When an idle connection is cut, as tests of faults do, the driver (postgres.js 3.4.9) throws where nobody can
    // catch it, so none stays idle for long.
    postgresOptions: { onnotice: () => {}, idle_timeout: 1 },
  });
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
    },
    // The Supabase CLI keeps the migrations.
    db: { migrations: { enabled: false } },
    options: { server: { disableStudio: true, disableFallback: true } },
  });
  return {
    fetch: (request) => app.fetch(request),
    createSchema: () => app.ensureSystemSchema(),
    start: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}
