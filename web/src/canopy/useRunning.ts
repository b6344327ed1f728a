/** The segments whose sessions are at work now. */
import { useEffect, useMemo, useState } from "react";
import { onChange, useLive } from "../api/stream.ts";
import type { Forest } from "../core/forest.ts";

/** A session that a tool of this machine writes counts as at work this long after a turn of it. */
const FRESH_MS = 60_000;

/** Segments with a reply in progress. */
export function useRunning(forest: Forest): ReadonlySet<number> {
  const { runs } = useLive();
  return useMemo(() => {
    const sessions = new Set<string>();
    for (const run of runs.values()) sessions.add(run.session);
    return segmentsOf(forest, sessions);
  }, [forest, runs]);
}

/** Segments with a reply in progress, or a turn that has just arrived. */
export function useAtWork(forest: Forest): ReadonlySet<number> {
  const running = useRunning(forest);
  const fresh = useFresh();
  return useMemo(
    () => (fresh.size ? new Set([...running, ...segmentsOf(forest, fresh)]) : running),
    [forest, running, fresh],
  );
}

function useFresh(): ReadonlySet<string> {
  const [fresh, setFresh] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    const timers = new Set<ReturnType<typeof setTimeout>>();
    const off = onChange(({ sessions, is_whole: isWhole }) => {
      // A whole import is no work in progress.
      if (isWhole || sessions.length === 0 || sessions.length > 8) return;
      setFresh((old) => new Set([...old, ...sessions]));
      const timer = setTimeout(() => {
        timers.delete(timer);
        setFresh((old) => new Set([...old].filter((id) => !sessions.includes(id))));
      }, FRESH_MS);
      timers.add(timer);
    });
    return () => {
      off();
      for (const timer of timers) clearTimeout(timer);
    };
  }, []);
  return fresh;
}

function segmentsOf(forest: Forest, sessions: ReadonlySet<string>): ReadonlySet<number> {
  const segments = new Set<number>();
  if (sessions.size === 0) return segments;
  for (const session of forest.sessions) {
    const isOne = sessions.has(session.id) || sessions.has(session.label);
    if (isOne && session.segment >= 0) segments.add(session.segment);
  }
  return segments;
}
