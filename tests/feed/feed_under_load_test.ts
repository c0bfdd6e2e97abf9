// Needs stacks of its own. Slow.

import { assert, assertEquals } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import * as cluster from "../helpers/cluster.ts";
import { followUnderLoad } from "../helpers/feed_load.ts";
import { ALL, ask, cursorOf, read, write } from "../helpers/own_log.ts";
import { addOrganization, callAs, codeOf, until, valueOf } from "../../dev/harness/project.ts";

const stack = await startTemporaryStack();
const sql = cluster.connect(stack.postgres);
afterAll(async () => {
  await sql[Symbol.asyncDispose]();
  await stack[Symbol.asyncDispose]();
});

it("a log with synchronous_commit off puts entries on disk before it shows them with after or in the console, and each revocation and rotation before it answers", async () => {
  const { id, apiKeyId, token } = await addOrganization(sql);
  await sql`
    insert into audit_log.organization_members (organization_id, user_id, role) values (${id}, 'ada', 'admin')`;
  await sql`alter system set synchronous_commit = off`;
  await sql`alter system set wal_writer_delay = '10s'`;
  await sql`select pg_reload_conf()`;
  /** Writes an entry. Returns what tells whether it is on disk. */
  const writeOne = async () => {
    await write(sql, id, "a");
    const place: string = await valueOf(sql`select pg_current_wal_insert_lsn()::text`);
    return () => valueOf<boolean>(sql`select pg_current_wal_flush_lsn() >= ${place}::text::pg_lsn`);
  };
  // Wakes the process that writes to disk, which then sleeps for ten seconds.
  const first = await writeOne();
  await until(first);

  const query = `'{"start_date": "2000-01-01", "end_date": "9999-12-31", "after": "beginning"}'`;
  const reads: (() => Promise<{ total: number }>)[] = [
    async () => (await ask(stack, token, `?${ALL}&after=beginning`)).body,
    () => callAs(sql, "ada", `read_audit_log('${id}', ${query})`),
  ];
  for (const [n, read] of reads.entries()) {
    const isOnDisk = await writeOne();
    assertEquals(await isOnDisk(), false);
    assertEquals((await read()).total, n + 2);
    assertEquals(await isOnDisk(), true);
  }
  const key = `'${id}', '${apiKeyId}'`;
  for (const call of [`rotate_api_key(${key}, '1 hour')`, `revoke_api_key(${key})`]) {
    const isOnDisk = await writeOne();
    await callAs(sql, "ada", call);
    assertEquals(await isOnDisk(), true, call);
  }
  await sql`alter system reset all`;
  await sql`select pg_reload_conf()`;
});

it("followers get every entry once beside 16 writers and an open transaction, also when they are killed", async () => {
  const figures = await followUnderLoad(stack, 6);
  assert(figures.entries > 200, `only ${figures.entries} entries were written`);
  assert(figures.whileHeld > 200, `only ${figures.whileHeld} came while a transaction was open`);
});

it("a feed gives every entry once when writers use two-phase commit; only the connection that prepared has to wait", async () => {
  const { id } = await addOrganization(sql);
  const cursor = await cursorOf(sql, id);
  const folder = await cluster.snapshot(stack.postgres);
  const settings = ["max_prepared_transactions=5"];
  await using copy = await cluster.startCluster({ ...folder, settings });
  const writer = await copy.sql.reserve();
  await writer`begin`;
  await write(writer, id, "prepared");
  await writer`prepare transaction 'test'`;

  await write(copy.sql, id, "b");
  await copy.sql`select audit_log_private.run_upkeep()`;
  const then = await read(copy.sql, id, cursor);
  assertEquals(then?.names, ["b"]);
  await writer`set lock_timeout = '100ms'`;
  assertEquals(await codeOf(write(writer, id, "c")), "55P03");
  await writer`commit prepared 'test'`;
  const last = await read(copy.sql, id, then?.cursor ?? "");
  assertEquals([last?.names, last?.total], [["prepared"], 2]);
  writer.release();
});
