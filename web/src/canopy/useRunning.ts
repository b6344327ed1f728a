/** The segments whose sessions are at work now. */
import { useMemo } from "react";
import { useLive } from "../api/stream.ts";
import type { Forest } from "../core/forest.ts";

const NONE: ReadonlySet<number> = new Set();

export function useRunning(forest: Forest): ReadonlySet<number> {
  const { runs } = useLive();
  return useMemo(() => {
    if (runs.size === 0) return NONE;
    const atWork = new Set([...runs.values()].map((run) => run.session));
    return new Set(forest.sessions.filter((row) => atWork.has(row.id)).map((row) => row.segment));
  }, [forest, runs]);
}
