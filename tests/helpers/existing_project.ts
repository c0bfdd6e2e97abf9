import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import postgres from "postgres";
import { install } from "../../cli/install/install.ts";
import { HAS_STREAMS, valueOf } from "../../dev/harness/project.ts";
import { signJwt } from "../../dev/local/data_api.ts";
import { supabase } from "../../dev/local/supabase_cli.ts";
import { startTemporaryStack, type TemporaryStack } from "../../dev/local/temporary_stack.ts";
import { connect } from "./cluster.ts";
import { NOT_READ_YET } from "./postgrest.ts";
import { ROOT } from "./run_program.ts";

const MIGRATIONS = "supabase/migrations";

/** Tomorrow, as a version that is shorter than most: the Supabase CLI orders versions as text. */
const TOMORROW = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10).replaceAll("-", "");

/** Their migrations. They use names that the service uses too, in schemas of their own. */
const THEIRS = {
  "0001_names.sql": `
    create schema private;
    create table private.api_keys (id integer primary key);
    create table public.audit_entries (id bigint primary key);
    create type public.audit_action as enum ('mine');
    create function public.create_api_key(name text) returns text language sql as 'select $1';
    create function private.require_admin(id integer) returns integer language sql as 'select $1';`,
  [`${TOMORROW}_platform.sql`]: `
    create table public.organizations (id text primary key, name text);
    create table public.memberships (
      organization_id text references public.organizations on update cascade on delete cascade,
      user_id uuid references auth.users on delete cascade,
      level integer not null,
      primary key (organization_id, user_id)
    );
    create table public.documents (
      id uuid primary key default gen_random_uuid(),
      organization_id text not null references public.organizations on update cascade,
      title text, status text, created_by uuid, updated_by uuid,
      created_at timestamptz not null default now()
    );
    -- People insert documents themselves, and may do nothing else.
    alter table public.organizations enable row level security;
    alter table public.documents enable row level security;
    create policy insert_document on public.documents for insert to authenticated with check (created_by = auth.uid());
    grant insert on public.documents to authenticated, service_role;`,
};

export interface Account {
  id: string;
  email: string;
  client: SupabaseClient;
}

type Answer = { code: string } | { data: unknown };

/** A Supabase project that was there before the service. It has a folder with migrations, and a stack without ours. */
export class ExistingProject implements AsyncDisposable {
  readonly folder = Deno.makeTempDirSync();
  readonly sql: postgres.Sql;

  private constructor(readonly stack: TemporaryStack) {
    this.sql = postgres(stack.databaseUrl, { onnotice: () => {} });
  }

  /** Starts the stack, and writes the folder. Nothing is pushed yet. */
  static async start(): Promise<ExistingProject> {
    const project = new ExistingProject(await startTemporaryStack({ isMigrated: false }));
    const schemas = 'schemas = ["public", "graphql_public"]';
    project.write("supabase/config.toml", `project_id = "theirs"\n\n[api]\n${schemas}\n`);
    for (const [name, text] of Object.entries(THEIRS)) project.write(`${MIGRATIONS}/${name}`, text);
    return project;
  }

  write(path: string, text: string): void {
    Deno.mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    Deno.writeTextFileSync(join(this.folder, path), text);
  }

  migrations(): string[] {
    return Array.from(Deno.readDirSync(join(this.folder, MIGRATIONS)), ({ name }) => name).sort();
  }

  /** Returns what `deno task install` prints. */
  install(): string {
    return install(ROOT, this.folder, { withoutStreams: !HAS_STREAMS });
  }

  async push(): Promise<void> {
    const remote = `--remote=${this.stack.databaseUrl}`;
    await supabase("db", "push", `--workdir=${this.folder}`, remote, "--yes");
  }

  /** Has the Data API serve audit_log, or no longer, as the dashboard does. */
  async expose(isExposed = true): Promise<void> {
    await using admin = connect(this.stack.postgres, { max: 1 });
    const change = isExposed
      ? "set pgrst.db_schemas = 'public, audit_log'"
      : "reset pgrst.db_schemas";
    await admin.unsafe(`alter role authenticator ${change}`);
    await admin.unsafe("notify pgrst, 'reload config'; notify pgrst, 'reload schema'");
  }

  async pushed(): Promise<string[]> {
    const rows = await this.sql`
      select version || '_' || name || '.sql' as file from supabase_migrations.schema_migrations
      order by version collate "C"`;
    return rows.map(({ file }) => file);
  }

  /** Adds SQL as their newest migration, as `supabase migration new` does. */
  addMigration(name: string, ...texts: string[]): void {
    const [newest = ""] = this.migrations().at(-1)?.match(/^\d{14}/) ?? [];
    const time = Date.parse(newest.replace(/(....)(..)(..)(..)(..)(..)/, "$1-$2-$3T$4:$5:$6Z"));
    const version = new Date(time + 1000).toISOString().replace(/\D/g, "").slice(0, 14);
    this.write(`${MIGRATIONS}/${version}_audit_log_${name}.sql`, texts.join("\n"));
  }

  /** Adds what sections 2 and 3 of the page show, for tables of their own. */
  addRecipes(): void {
    this.addMigration("people", recipe("people.sql"));
    const actions = blockOf("sql", "delete from audit_log.actions");
    this.addMigration("tables", actions, blockOf("sql", "audit_log_private.log_table("));
  }

  async newOrganization(): Promise<string> {
    const id = `acme-${crypto.randomUUID()}`;
    await this.sql`insert into public.organizations (id, name) values (${id}, 'Acme')`;
    return id;
  }

  async uuidOf(platformId: string): Promise<string> {
    return await valueOf(this.sql`select audit_log.organization_uuid(${platformId})`);
  }

  async signUp(): Promise<Account> {
    const client = this.client();
    const email = `${crypto.randomUUID()}@example.com`;
    const { data, error } = await client.auth.signUp({ email, password: crypto.randomUUID() });
    if (!data.session) throw error ?? new Error("Sign-up gave no session");
    return { id: data.session.user.id, email, client };
  }

  /** Makes a client of a person with a token of another identity provider, or of nobody. */
  client(token?: string): SupabaseClient {
    return createClient(this.stack.apiUrl, this.stack.publishableKey, {
      auth: { persistSession: false, autoRefreshToken: false },
      ...token && { accessToken: () => Promise.resolve(token) },
    });
  }

  async personWith(claims: Record<string, unknown>): Promise<SupabaseClient> {
    const secrets = join(dirname(this.stack.postgres.dataDir), "secrets.json");
    const { jwtSecret } = JSON.parse(await Deno.readTextFile(secrets));
    return this.client(signJwt({ role: "authenticated", ...claims }, jwtSecret));
  }

  async call(person: SupabaseClient, name: string, given: object = {}): Promise<Answer> {
    const { data, error } = await whenRead(
      () => person.schema("audit_log").rpc(name, given),
      ({ error }) => error?.code,
    );
    return error ? { code: error.code } : { data };
  }

  async keyOf(person: SupabaseClient, organizationId: string): Promise<string> {
    const given = { organization_id: organizationId, name: "test" };
    const answer = await this.call(person, "create_api_key", given);
    if ("code" in answer) throw new Error(`create_api_key: ${answer.code}`);
    return (answer.data as { token: string }).token;
  }

  async get(token: string, address: string): Promise<Response> {
    const url = `${this.stack.apiUrl}/functions/v1/public-audit-log${address}`;
    const headers = { Authorization: `Bearer ${token}` };
    const fault = () => this.stack.faults.at(-1);
    const response = await whenRead(() => fetch(url, { headers }), ({ ok }) => ok ? "" : fault());
    if (response.ok) return response;
    throw new Error(`${await response.text()}: ${fault()}`);
  }

  async page(token: string) {
    return await (await this.get(token, "?start=0001-01-01&end=9999-12-31&limit=1000")).json();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sql.end({ timeout: 5 });
    await this.stack[Symbol.asyncDispose]();
    await Deno.remove(this.folder, { recursive: true });
  }
}

export function recipe(name: string): string {
  return Deno.readTextFileSync(join(ROOT, "docs/examples/adopting", name));
}

const PAGES = ["install", "people", "logging", "going-live"];
const pages = PAGES.map((page) => Deno.readTextFileSync(join(ROOT, `docs/${page}.md`))).join("");

export function blockOf(language: string, part: string): string {
  const blocks = pages.matchAll(new RegExp(`^ *\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, "gm"));
  for (const [, block = ""] of blocks) if (block.includes(part)) return block;
  throw new Error(`None of ${PAGES} has ${language} with ${part}`);
}

/** Asks again while PostgREST is still reading the schema, as it does after a push. */
async function whenRead<T>(ask: () => PromiseLike<T>, errorOf: (answer: T) => string | undefined) {
  for (let attempt = 0;; attempt++) {
    const answer = await ask();
    if (!NOT_READ_YET.test(errorOf(answer) ?? "") || attempt > 100) return answer;
    await delay(100);
  }
}
