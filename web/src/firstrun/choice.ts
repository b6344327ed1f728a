/** What a page of sources offers: which tools can be imported, and how far an import is. */

import type { components } from "../api/schema.d.ts";
import type { ImportJob } from "../core/live.ts";

export type Source = components["schemas"]["Source"];

/** The newest job of each tool. */
export function jobsByTool(jobs: Iterable<ImportJob>): Map<string, ImportJob> {
  const newest = new Map<string, ImportJob>();
  for (const job of jobs) newest.set(job.tool, job);
  return newest;
}

export function isRunning(job: ImportJob | undefined): boolean {
  return job?.state === "waiting" || job?.state === "running";
}

/** The tools that have something which was not imported yet. */
export function importable(sources: readonly Source[]): string[] {
  return sources.filter((one) => one.state === "found" || one.state === "partly").map((one) => one.tool);
}

/** From 0 to 1 over all jobs; a job that has not looked yet counts as not begun. */
export function progressOf(jobs: readonly ImportJob[]): number {
  let done = 0;
  let total = 0;
  for (const job of jobs) {
    done += job.done;
    total += Math.max(job.total, job.done, 1);
  }
  return total ? done / total : 0;
}
