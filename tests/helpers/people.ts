import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { API_URL, PUBLISHABLE_KEY, SECRET_KEY } from "./api.ts";
import type { Query } from "../../dev/harness/project.ts";
import type { ListedApiKey, NewApiKey, RevokedApiKey } from "../../docs/examples/audit_log.ts";
import type { Database } from "../../supabase/functions/public-audit-log/database.types.ts";

type Schema = Database["audit_log"];

const PROJECT = { apiUrl: API_URL, publishableKey: PUBLISHABLE_KEY, secretKey: SECRET_KEY };
type Project = typeof PROJECT;

export interface Person {
  id: string;
  email: string;
  password: string;
  client: SupabaseClient<Database>;
}

/** Makes a Data API client of nobody (`anon`) or of the platform (`service_role`). */
export function client(
  role: "anon" | "service_role",
  { apiUrl, publishableKey, secretKey }: Project = PROJECT,
  headers: Record<string, string> = {},
): SupabaseClient<Database> {
  return createClient<Database>(apiUrl, role === "anon" ? publishableKey : secretKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    db: { schema: "audit_log" },
    global: { headers },
  });
}

/** Makes a client of the platform's server, which acts for a person. */
export function serverFor(person: { id: string; email: string }): SupabaseClient<Database> {
  const headers = { "X-Audit-Person": person.email, "X-Audit-Person-Id": person.id };
  return client("service_role", PROJECT, headers);
}

/** Signs a new person up. This is slow, so most files do it once. */
export async function signUp(project?: Project): Promise<Person> {
  const email = `${crypto.randomUUID()}@example.com`;
  const person = client("anon", project);
  const password = crypto.randomUUID();
  const { data, error } = await person.auth.signUp({ email, password });
  if (error) throw error;
  if (!data.session) throw new Error("Sign-up gave no session: turn e-mail confirmation off");
  return { id: data.session.user.id, email, password, client: person };
}

/** Makes an organization that `admin` administers, and a key for it. */
export async function newOrganization(admin: Person, name = "Test", project?: Project) {
  const id = crypto.randomUUID();
  await addMember(id, admin, "admin", project, name);
  const apiKey = await createApiKey(admin, id);
  return { id, apiKeyId: apiKey.id, token: apiKey.token };
}

/** Makes a person a member of an organization, as the platform does. */
export async function addMember(
  organization_id: string,
  { id: user_id }: Person,
  role: "admin" | "auditor" | "member",
  project?: Project,
  organization_name = "Test",
): Promise<void> {
  await client("service_role", project).from("organization_members")
    .insert({ organization_id, user_id, role, organization_name }).throwOnError();
}

export async function call<T>(
  { client }: Pick<Person, "client">,
  name: keyof Schema["Functions"],
  given: Record<string, unknown>,
): Promise<T> {
  // The types of the Data API know the answers as JSON only.
  const untyped: Pick<SupabaseClient, "rpc"> = client;
  const { data } = await untyped.rpc(name, given).throwOnError();
  return data;
}

export type { NewApiKey };

export async function createApiKey(admin: Person, organization_id: string, name = "test") {
  return await call<NewApiKey>(admin, "create_api_key", { organization_id, name });
}

export async function revokeApiKey(
  admin: Person,
  { organization_id, id }: Pick<NewApiKey, "organization_id" | "id">,
) {
  return await call<RevokedApiKey>(admin, "revoke_api_key", { organization_id, api_key_id: id });
}

export async function listApiKeys(admin: Person, organization_id: string) {
  return await call<ListedApiKey[]>(admin, "list_api_keys", { organization_id });
}

type PageQuery = Schema["CompositeTypes"]["page_query"];

/** Makes a person's query. The Data API takes null for all that is not given. */
export function pageQuery(start_date: string, end_date: string, given: Query = {}): PageQuery {
  return { start_date, end_date, ...given } as PageQuery;
}
