import { it as itAlone } from "@std/testing/bdd";
import type postgres from "postgres";
import { sql } from "../helpers/mod.ts";
import { rolledBack, type Run } from "../../dev/harness/project.ts";

// A starter kit's tables, with what has broken hand-written triggers: see tests/logged_tables/log_table_test.ts.

/**
 * Accounts of teams, and of single people, which have no log. A row trigger makes the creator a member, before any
 * trigger for the statement runs.
 */
const SCHEMA = `
  create schema kit;
  grant usage on schema kit to anon, authenticated, service_role;
  create table kit.accounts (
    id uuid primary key default gen_random_uuid(),
    name text, slug text unique, is_personal boolean not null default false, owner_id uuid not null,
    team_id uuid generated always as (case when not is_personal then id end) stored
  );
  create table kit.members (
    user_id uuid, account_id uuid references kit.accounts on delete cascade, role text not null, team_id uuid,
    primary key (user_id, account_id)
  );
  create function kit.slugify() returns trigger language plpgsql as $$ begin
    new.slug := lower(regexp_replace(new.slug, '[^a-zA-Z0-9]+', '-', 'g'));
    return new;
  end $$;
  create trigger slugify before insert or update on kit.accounts for each row execute function kit.slugify();
  create function kit.add_owner() returns trigger language plpgsql as $$ begin
    insert into kit.members values (new.owner_id, new.id, 'owner', new.team_id);
    return new;
  end $$;
  create trigger add_owner after insert on kit.accounts for each row execute function kit.add_owner();`;

/** What its adopter writes, as docs/logging.md says. */
const ADOPTED = `
  insert into audit_log.actions (code, description, required) values
    ('team_created', 'A team was created', '{}'), ('team_changed', 'A team was changed', '{}'),
    ('team_deleted', 'A team was deleted', '{}'), ('member_added', 'A person joined a team', '{member_id}'),
    ('member_changed', 'The role of a person was changed', '{member_id}'),
    ('member_removed', 'A person left a team', '{member_id}'),
    ('thing_done', 'Something was done to a thing', '{}');
  create function kit.if_team(r jsonb) returns jsonb language sql immutable as $$
    select case when r ->> 'team_id' is not null then jsonb '{}' end
  $$;
  select audit_log_private.log_table('kit.accounts',
    on_failure => 'refuse', organization => 'team_id', agent_name => 'name', computed => 'kit.if_team',
    on_insert => 'team_created', on_update => 'team_changed', on_delete => 'team_deleted',
    data => 'slug', changes => 'name, slug');
  select audit_log_private.log_table('kit.members',
    on_failure => 'refuse', organization => 'team_id', agent_name => 'role', computed => 'kit.if_team',
    on_insert => 'member_added', on_update => 'member_changed', on_delete => 'member_removed',
    data => 'user_id as member_id', changes => 'role');`;

/** Does something in a project with the starter kit, and undoes it. */
export async function inKit<T>(work: (run: postgres.ReservedSql) => Promise<T>): Promise<T> {
  return await rolledBack(sql, async (run) => {
    await run.unsafe(SCHEMA);
    await run.unsafe(ADOPTED);
    return await work(run);
  });
}

/** A test in a project with the starter kit. */
export function it(name: string, test: (run: postgres.ReservedSql) => Promise<void>): void {
  itAlone(name, () => inKit(test));
}

type LoggedEntry =
  & Record<"organization" | "action" | "user_email" | "agent_name", string>
  & { data: Record<string, unknown> };

/** Reads the entries that this transaction has written, in their order. */
export async function written(run: Run): Promise<LoggedEntry[]> {
  const entries = await run<LoggedEntry[]>`
    select o.platform_id as organization, e.action::text, e.user_email::text, e.agent_name, e.data
    from audit_log.audit_entries e join audit_log.organizations o on o.id = e.organization_id
    where e.transaction_id = audit_log_private.transaction_number()
    order by e.created_at, e.id`;
  return [...entries];
}

/** Shows entries as `organization: action: name {changes}`, without the action of things. */
export async function shown(run: Run): Promise<string[]> {
  return (await written(run)).map(({ organization, action, agent_name, data: { changes } }) =>
    [organization, ...action === "thing_done" ? [] : [action], agent_name].join(": ") +
    (changes ? ` ${JSON.stringify(changes)}` : "")
  );
}

/** Runs statements, and shows what they log, sorted: the entries of one statement have no order. */
export async function shownBy(run: Run, statements: string): Promise<string[]> {
  const before = (await written(run)).length;
  await run.unsafe(statements);
  return (await shown(run)).slice(before).toSorted();
}

/** The arguments of log_table that the tests of `kit.things` do not give. */
const THINGS = {
  on_failure: "refuse",
  organization: "team",
  agent_name: "title",
  on_insert: "thing_done",
  on_update: "thing_done",
  on_delete: "thing_done",
  changes: "title",
};

/** Calls log_table, for a table of things unless told otherwise. */
export async function logTable(run: Run, table: string, given: Record<string, string | null> = {}) {
  const args = { logged: table, ...THINGS, ...given };
  const named = Object.keys(args).map((name, n) => `${name} => $${n + 1}`).join(", ");
  await run.unsafe(`select audit_log_private.log_table(${named})`, Object.values(args));
}

/** Makes the table `kit.things` of the organizations `a` and `b`, in which everybody may write, and logs it. */
export async function makeThings(
  run: Run,
  { columns = "id integer primary key", suffix = "", ...given }: Record<string, string> = {},
): Promise<void> {
  await run.unsafe(`create table kit.things (${columns}, team text, title text) ${suffix}`);
  await run`grant all on kit.things to anon, authenticated, service_role`;
  await logTable(run, "kit.things", given);
}
