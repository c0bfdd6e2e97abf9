// Needs stacks of its own. Slow.

import { assertEquals } from "@std/assert";
import { afterAll, it } from "@std/testing/bdd";
import { startTemporaryStack } from "../../dev/local/temporary_stack.ts";
import * as cluster from "../helpers/cluster.ts";
import { adopt, ALL, ask, assertExact, cursorOf, epochOf, read } from "../helpers/own_log.ts";
import { write } from "../helpers/own_log.ts";
import { addOrganization, checkSeals, HAS_STREAMS } from "../../dev/harness/project.ts";
import { insertEntries, insertEntry, pidOf, runUpkeep } from "../../dev/harness/project.ts";
import { somebodyWaitsFor, valueOf } from "../../dev/harness/project.ts";

const original = await startTemporaryStack();
const sql = cluster.connect(original.postgres);
afterAll(async () => {
  for (const started of [sql, original]) await started[Symbol.asyncDispose]();
});

it("a restored log refuses old cursors, and then skips and repeats nothing, when it is a disk snapshot that was adopted, whose streams then send nothing", async () => {
  const { id } = await addOrganization(sql);
  await write(sql, id, "a");
  const folder = await cluster.snapshot(original.postgres);
  await write(sql, id, "lost 1", "lost 2");
  const cursor = await cursorOf(sql, id);

  await using copy = await cluster.startCluster(folder);
  await write(copy.sql, id, "b");
  // Nothing distinguishes it from the original, and it uses the same numbers again.
  assertEquals((await read(copy.sql, id, cursor))?.names, []);
  const isStreamHome = () => valueOf<boolean>(copy.sql`select audit_log_private.is_stream_home()`);
  if (HAS_STREAMS) assertEquals(await isStreamHome(), true);
  await adopt(copy.sql);
  if (HAS_STREAMS) assertEquals(await isStreamHome(), false);
  assertEquals(await read(copy.sql, id, cursor), null);
  await assertExact(copy.sql, id, ["a", "b"]);
});

it("a restored log refuses old cursors, and then skips and repeats nothing, when its rows have transaction numbers of a later epoch than its own, even if only a seal has one", async () => {
  const epoch = await epochOf(sql);
  const { id } = await addOrganization(sql);
  const { id: withSeals } = await addOrganization(sql);
  // Numbers of this epoch, and of the epochs 7 and 12 of another database.
  const [own = "", seven = "", twelve = ""] = [0n, 7n, 12n].map((later) =>
    String(((BigInt(epoch) + later) << 40n) + 123_456_789_012n)
  );
  await insertEntry(sql, id, { agent_name: "a", transaction_id: own });
  await insertEntry(sql, id, { agent_name: "b", transaction_id: seven });
  await sql`
    insert into audit_log_private.seals
      (organization_id, sequence, day, entries, added, removed, sha256, sealed_at, previous, seal, snapshot, checksum)
    select ${withSeals}, 1, '2026-03-01', 1, 0, 0, zeros, now(), zeros, zeros, ${`${twelve}:${twelve}:`}, 0::bit(256)
    from repeat('0', 64) as zeros`;
  assertEquals((await read(sql, id, "beginning"))?.names, []);
  assertEquals(await adopt(sql), epoch + 13);
  await assertExact(sql, id, ["a", "b"]);
  await assertExact(sql, withSeals, []);
  // Adopting it twice begins one more epoch.
  const cursor = await cursorOf(sql, id);
  assertEquals(await adopt(sql), epoch + 14);
  assertEquals(await read(sql, id, cursor), null);
  await assertExact(sql, id, ["a", "b", "new 1", "new 2"]);
});

it("adopting a restored log lets readers go on; writers wait, and then write in the new epoch", async () => {
  const { id, token } = await addOrganization(sql);
  const writer = await sql.reserve();
  await writer`set role service_role`;
  // After so many inserts, the session keeps its plan.
  const names = Array.from({ length: 7 }, (_, n) => `${n}`);
  await write(writer, id, ...names);
  const { after } = await ask(original, token, `?${ALL}&after=beginning`);

  let written: Promise<void> | undefined;
  const epoch = await sql.begin(async (adopter) => {
    const epoch = await adopt(adopter);
    written = write(writer, id, "waited");
    await somebodyWaitsFor(sql, await pidOf(adopter));
    for (const query of ["", "&after=beginning", `&after=${after}`]) {
      assertEquals((await ask(original, token, `?${ALL}${query}`)).status, 200, query);
    }
    return epoch;
  });
  await written;

  assertEquals((await ask(original, token, `?${ALL}&after=${after}`)).status, 400);
  const itsEpoch = sql`
    select (transaction_id::text::bigint >> 40)::int from audit_log.audit_entries
    where organization_id = ${id} and agent_name = 'waited'`;
  assertEquals(await valueOf(itsEpoch), epoch);
  await assertExact(sql, id, [...names, "waited"]);
  await writer`reset role`;
  writer.release();
});

it("adopting a restored log leaves seals as they were: the chain goes on, declares late entries and finds silent changes", async () => {
  const { id } = await addOrganization(sql);
  for (const day of ["2026-03-01", "2026-03-02"]) await insertEntries(sql, id, day, 3);
  await runUpkeep(sql);
  // The seal of this day has not seen this entry.
  await insertEntries(sql, id, "2026-03-01", 1);
  await sql.begin(async (transaction) => {
    await transaction`set local session_replication_role = replica`;
    await transaction`
      update audit_log.audit_entries set agent_name = 'changed'
      where organization_id = ${id} and created_at >= '2026-03-02Z'`;
  });
  // Seals of one epoch are read in the next.
  for (let n = 0; n < 2; n++) {
    await adopt(sql);
    await insertEntries(sql, id, "2026-03-01", 1);
    await checkSeals(sql, id);
  }
  const [row] = await sql`
    select array(
      select concat_ws(' ', sequence, day, entries, added) from audit_log_private.seals
      where organization_id = ${id} order by sequence
    ) as seals, array(
      select day::text from audit_log_private.sealed_days
      where organization_id = ${id} and altered_at is not null
    ) as altered`;
  const seals = ["1 2026-03-01 3 0", "2 2026-03-02 3 0", "3 2026-03-01 5 2", "4 2026-03-01 6 1"];
  assertEquals({ ...row }, { seals, altered: ["2026-03-02"] });
});
