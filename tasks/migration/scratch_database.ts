import postgres from "postgres";

/** What the service finds in every Supabase project. */
const PREREQUISITES = `
  create schema extensions;
  create extension pgcrypto with schema extensions;
  create schema auth;
  create function auth.jwt() returns jsonb language sql return null::jsonb;`;

export interface ScratchDatabase extends AsyncDisposable {
  url: string;
}

/**
 * Makes an empty database beside that of a connection string, and runs texts in it, each in a transaction.
 *
 * @throws {Error} that of the text which Postgres refuses.
 */
export async function scratchDatabase(beside: string, texts: string[]): Promise<ScratchDatabase> {
  const name = `scratch_${crypto.randomUUID().replaceAll("-", "")}`;
  const url = new URL(beside);
  url.pathname = name;
  await run(beside, `create database ${name}`);
  const database = {
    url: url.href,
    [Symbol.asyncDispose]: () => run(beside, `drop database ${name} with (force)`),
  };
  try {
    await run(url.href, PREREQUISITES, ...texts);
    return database;
  } catch (error) {
    await database[Symbol.asyncDispose]();
    throw error;
  }
}

/** Runs texts in a database, each in a transaction where it can. */
export async function run(databaseUrl: string, ...texts: string[]): Promise<void> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => {} });
  try {
    for (const text of texts) await sql.unsafe(text);
  } finally {
    await sql.end();
  }
}
