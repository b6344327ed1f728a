/** What a plan does to each file of a turn, as the rows that a reader sees. */
import { count, joinWords } from "../core/format.ts";
import type { FileStep, RevertConflict, RevertPlan } from "./wire.ts";

export type RevertRow =
  | { kind: "back"; path: string; step: FileStep }
  | { kind: "conflict"; path: string; conflict: RevertConflict }
  | { kind: "stays"; path: string; why: string };

const REASONS: Record<RevertConflict["why"], string> = {
  lines: "the same lines were changed since",
  content: "it was changed since, and is not text",
  removed: "one side removed it, and the other changed it",
  added: "another file is there now",
  type: "it is something else now",
  mode: "its mode was changed since",
  in_the_way: "a file is where its folder was",
};

/** The rows of the files that the turn changed, then of those that were moved since and change under another name. */
export function rowsOf(plan: RevertPlan, files: readonly string[], left: ReadonlySet<string>): RevertRow[] {
  const steps = new Map(plan.goes_back.map((step) => [step.path, step]));
  const conflicts = new Map(plan.conflicts.map((one) => [one.path, one]));
  const rows = files.map((path): RevertRow => {
    const step = steps.get(path);
    const conflict = conflicts.get(path);
    if (left.has(path)) return { kind: "stays", path, why: "stays, not chosen" };
    if (conflict) return { kind: "conflict", path, conflict };
    if (step) return { kind: "back", path, step };
    return { kind: "stays", path, why: plan.done.includes(path) ? "as before already" : "stays" };
  });
  const known = new Set(files);
  for (const [path, step] of steps) if (!known.has(path)) rows.push({ kind: "back", path, step });
  for (const [path, conflict] of conflicts)
    if (!known.has(path) && !steps.has(path)) rows.push({ kind: "conflict", path, conflict });
  return rows;
}

/** Why a file cannot be merged, and whose change it is. */
export function reasonOf(conflict: RevertConflict): string {
  const who = [...conflict.turns.slice(0, 3), ...(conflict.outside ? ["you"] : [])];
  return REASONS[conflict.why] + (who.length ? `, by ${joinWords(who)}` : "");
}

/** What else stays, in sentences. */
export function restOf(plan: RevertPlan, shown: number): string[] {
  const more = plan.stays.length - shown;
  return [
    ...(more > 0 ? [`${count(more, "more file")} changed later, and ${more === 1 ? "stays" : "stay"}`] : []),
    ...(plan.unclear.length > 0
      ? [
          `${count(plan.unclear.length, "file")} changed by several turns at once ${plan.unclear.length === 1 ? "stays" : "stay"}: ${plan.unclear.slice(0, 5).join(", ")}`,
        ]
      : []),
  ];
}
