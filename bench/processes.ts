import type { Sql } from "../tests/project.ts";

/**
 * Adds up the processor time of processes, in milliseconds: that of their threads (proc(5), `schedstat`)
 * and of their children that have ended (the 16th and 17th number of `stat`, in steps of ten milliseconds).
 */
export async function processorTime(...pids: number[]): Promise<number> {
  let time = 0;
  for (const pid of pids) {
    for await (const { name } of Deno.readDir(`/proc/${pid}/task`)) {
      // The thread may have ended since.
      const text = await Deno.readTextFile(`/proc/${pid}/task/${name}/schedstat`).catch(() => "0");
      time += parseInt(text) / 1e6;
    }
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
    const ofChildren = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(13, 15);
    for (const ticks of ofChildren) time += 10 * Number(ticks);
  }
  return time;
}

/** Runs something. Returns its result, and the milliseconds of processor time that each group of processes used. */
export async function whileTimed<T>(groups: number[][], run: () => Promise<T>) {
  const before = await Promise.all(groups.map((pids) => processorTime(...pids)));
  const result = await run();
  const after = await Promise.all(groups.map((pids) => processorTime(...pids)));
  return { result, times: after.map((time, n) => time - (before[n] ?? NaN)) };
}

/** Finds PostgREST's process, and the backends that serve it. */
export async function dataApiProcesses(gateway: number, sql: Sql) {
  const { stdout } = await new Deno.Command("ps", {
    args: ["-o", "pid=,comm=", "--ppid", `${gateway}`],
  }).output();
  const children = new TextDecoder().decode(stdout).matchAll(/(\d+) postgrest$/gm);
  const backends = await sql<{ pid: number }[]>`
    select pid from pg_stat_activity where usename = 'authenticator'`;
  return {
    postgrest: Array.from(children, ([, pid]) => Number(pid)),
    postgres: backends.map(({ pid }) => pid),
  };
}

/** The memory in RAM that one of these processes has now, or had at most since `resetPeak`, in MiB. */
export async function memoryOf(kind: "now" | "peak", ...pids: number[]): Promise<number> {
  const field = { now: /^VmRSS:\s+(\d+) kB$/m, peak: /^VmHWM:\s+(\d+) kB$/m }[kind];
  const sizes = await Promise.all(pids.map(async (pid) => {
    const status = await Deno.readTextFile(`/proc/${pid}/status`);
    return Number(status.match(field)?.[1]) / 1024;
  }));
  return Math.max(...sizes);
}

/** Forgets the most memory that a process has had (proc(5), `clear_refs`). */
export async function resetPeak(pid: number): Promise<void> {
  await Deno.writeTextFile(`/proc/${pid}/clear_refs`, "5");
}
