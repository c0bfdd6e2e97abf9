import { App } from "@supabase/lite";
import { createPostgresConnection } from "@supabase/lite/postgres";
import { databaseUrl } from "./postgres.ts";

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
export function createLite(options: LiteOptions): Lite {
  const { databasePort, adminPassword, jwtSecret, publishableKey, secretKey } = options;
  const connection = createPostgresConnection({
    url: databaseUrl(databasePort, "supabase_admin", adminPassword),
    postgresOptions: { onnotice: () => {} },
  });
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
    fetch: (request) => app.fetch(request),
    createSchema: () => app.ensureSystemSchema(),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}
