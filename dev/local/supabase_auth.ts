import postgres from "postgres";
import type { Auth, AuthOptions } from "./auth.ts";
import { type ChildProcess, startChildProcess, untilHealthy } from "./child_process.ts";
import { signJwt } from "./data_api.ts";
import { freePort } from "./free_port.ts";
import { databaseUrl } from "./postgres.ts";

/** Returns the Supabase Auth that SUPABASE_AUTH_BIN names. Without it, the stack uses Supabase Lite. */
export function supabaseAuthProgram(): string | undefined {
  return Deno.env.get("SUPABASE_AUTH_BIN");
}

export interface Mail {
  to: string;
  text: string;
}

export interface SupabaseAuthOptions extends AuthOptions {
  /** More settings, such as `GOTRUE_EXTERNAL_KEYCLOAK_ENABLED`. */
  settings: Record<string, string>;
  onMail: (mail: Mail) => void;
  log: (text: string) => void;
}

/** Prepares a Supabase Auth, whose program is at this path. */
export function createSupabaseAuth(path: string, options: SupabaseAuthOptions): Auth {
  const { apiUrl, databasePort, adminPassword, jwtSecret, publishableKey, secretKey } = options;
  const { settings, onMail, log } = options;
  const started = new AsyncDisposableStack();
  const mails = started.use(receiveMails(onMail));
  const url = databaseUrl(databasePort, "supabase_admin", adminPassword);
  const port = freePort();
  const environment = {
    API_EXTERNAL_URL: `${apiUrl}/auth/v1`,
    DATABASE_URL: `${url}?search_path=auth`,
    DB_NAMESPACE: "auth",
    GOTRUE_API_HOST: "127.0.0.1",
    GOTRUE_DB_DRIVER: "postgres",
    GOTRUE_EXTERNAL_EMAIL_ENABLED: "true",
    GOTRUE_HOOK_SEND_EMAIL_ENABLED: "true",
    GOTRUE_HOOK_SEND_EMAIL_SECRETS: `v1,whsec_${btoa(jwtSecret)}`,
    GOTRUE_HOOK_SEND_EMAIL_URI: `http://127.0.0.1:${mails.addr.port}/`,
    GOTRUE_JWT_ADMIN_ROLES: "service_role",
    GOTRUE_JWT_AUD: "authenticated",
    GOTRUE_JWT_DEFAULT_GROUP_NAME: "authenticated",
    GOTRUE_JWT_SECRET: jwtSecret,
    GOTRUE_MAILER_AUTOCONFIRM: "true",
    GOTRUE_RATE_LIMIT_EMAIL_SENT: "10000",
    GOTRUE_SITE_URL: apiUrl,
    GOTRUE_SMTP_MAX_FREQUENCY: "1ns",
    GOTRUE_URI_ALLOW_LIST: `${apiUrl}/**`,
    PORT: String(port),
    // Providers send people back here.
    ...Object.fromEntries(
      Object.keys(settings).filter((name) => name.endsWith("_ENABLED"))
        .map((name) => [name.replace(/ENABLED$/, "REDIRECT_URI"), `${apiUrl}/auth/v1/callback`]),
    ),
    ...settings,
  };
  const roles = new Map([
    [publishableKey, signJwt({ role: "anon", aud: "authenticated" }, jwtSecret)],
    [secretKey, signJwt({ role: "service_role", aud: "authenticated" }, jwtSecret)],
  ]);
  function run(command: string, onLine: (line: string) => void): ChildProcess {
    return startChildProcess(path, { args: [command], clearEnv: true, env: environment, onLine });
  }
  async function migrate(): Promise<void> {
    let said = "";
    const end = await run("migrate", (line) => said += line).ended;
    if (end === "code 0") return;
    const next = "If the data is from Supabase Lite, delete it: deno task reset";
    throw new Error(`auth migrate: ${said}\n${next}`);
  }
  return {
    async createSchema() {
      const sql = postgres(url, { max: 1, onnotice: () => {} });
      await sql`create schema if not exists auth`;
      await sql.end();
      await migrate();
    },
    async start() {
      await migrate();
      started.use(run("serve", (line) => line.includes('"level":"error"') && log(line)));
      await untilHealthy(`http://127.0.0.1:${port}/health`);
    },
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const headers = new Headers(request.headers);
      // Turns the keys into JWTs, as Supabase's gateway does.
      const bearer = headers.get("Authorization")?.replace(/^Bearer +/i, "");
      const role = roles.get(bearer ?? "");
      if (role) headers.set("Authorization", `Bearer ${role}`);
      return await fetch(`http://127.0.0.1:${port}${pathname.slice("/auth/v1".length)}${search}`, {
        method: request.method,
        headers,
        body: request.body,
        redirect: "manual",
      });
    },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** Auth sends this to its hook instead of a mail. */
interface SendEmail {
  user: { email: string };
  email_data: { token: string };
}

function receiveMails(onMail: (mail: Mail) => void): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { user, email_data }: SendEmail = await request.json();
    onMail({ to: user.email, text: `Your code: ${email_data.token}` });
    return Response.json({});
  });
}
