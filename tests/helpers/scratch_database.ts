import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { DATABASE_URL } from "./api.ts";

const FOLDER = fileURLToPath(new URL("../../supabase/migrations", import.meta.url));

/** The migrations by file, in their order. */
export const MIGRATIONS: Record<string, string> = Object.fromEntries(
  Array.from(Deno.readDirSync(FOLDER), ({ name }) => name).sort()
    .map((file) => [file, Deno.readTextFileSync(join(FOLDER, file))]),
);

/** What the service finds in every Supabase project. */
const PREREQUISITES = `
  create schema extensions;
  create extension pgcrypto with schema extensions;
  create schema auth;
  create function auth.jwt() returns jsonb language sql
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb;`;

/** Makes an empty database beside that of the stack, runs texts in it, each in a transaction, and gives it to `use`. */
export async function withDatabase<T>(texts: string[], use: (sql: postgres.Sql) => Promise<T>) {
  const url = new URL(DATABASE_URL);
  url.pathname = `scratch_${crypto.randomUUID().replaceAll("-", "")}`;
  const options = { max: 1, onnotice: () => {} };
  const [beside, sql] = [postgres(DATABASE_URL, options), postgres(url.href, options)];
  try {
    await beside.unsafe(`create database ${url.pathname.slice(1)}`);
    for (const text of [PREREQUISITES, ...texts]) await sql.unsafe(text);
    return await use(sql);
  } finally {
    await sql.end();
    await beside.unsafe(`drop database if exists ${url.pathname.slice(1)} with (force)`);
    await beside.end();
  }
}
