/**
 * The processor time of a process, in milliseconds: that of its threads (proc(5), `schedstat`) and of its children
 * that have ended (the 16th and 17th number of `stat`, in steps of ten milliseconds).
 */
export async function processorTime(pid: number): Promise<number> {
  let time = 0;
  for await (const { name } of Deno.readDir(`/proc/${pid}/task`)) {
    // The thread may have ended since.
    const text = await Deno.readTextFile(`/proc/${pid}/task/${name}/schedstat`).catch(() => "0");
    time += parseInt(text) / 1e6;
  }
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
  const ofChildren = stat.slice(stat.lastIndexOf(")") + 2).split(" ").slice(13, 15);
  for (const ticks of ofChildren) time += 10 * Number(ticks);
  return time;
}

/** The most memory in RAM that a process has had since `resetPeak`, in MiB. */
export async function peakOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(status.match(/^VmHWM:\s+(\d+) kB$/m)?.[1]) / 1024;
}

/** Forgets the most memory that a process has had (proc(5), `clear_refs`). */
export async function resetPeak(pid: number): Promise<void> {
  await Deno.writeTextFile(`/proc/${pid}/clear_refs`, "5");
}
