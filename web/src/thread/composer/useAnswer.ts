import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { read, write } from "../../api/client.ts";
import { asProblem, type Problem } from "../../api/problem.ts";
import { useRun } from "../../api/runs.ts";
import type { SessionRuns } from "../../api/types.ts";
import { countCalls, type FollowedRun } from "../../core/runNews.ts";
import type { ThreadState } from "../useThread.ts";
import type { Turn } from "../wire.ts";

export type UnfinishedRun = SessionRuns["runs"][number];

/** How a run ended that did not end well. */
export interface RunEnd {
  run: string;
  outcome: "failed" | "stopped";
  text: string;
  reason: string;
  next: readonly string[];
  /** Tool calls that it made. */
  calls: number;
  /** Whether the session goes on after its turn. */
  isKept: boolean;
}

export interface AnswerState {
  /** The run that is shown as it is written; null while none is. */
  run: FollowedRun | null;
  entry: UnfinishedRun | null;
  /** Messages behind it, in the order of their answers. */
  waiting: readonly UnfinishedRun[];
  end: RunEnd | null;
  isStopping: boolean;
  /** What went wrong with stopping it. */
  problem: Problem | null;
  forget: () => void;
  stop: () => void;
  takeBack: (run: UnfinishedRun) => Promise<boolean>;
  /** Show a message that was sent just now before the server lists it. */
  sent: (run: string, text: string) => void;
}

const NONE: SessionRuns = { runs: [], failed: null };

/** What is being answered in a session, from the message on until its turn is in the thread. */
export function useAnswer(session: string | null, thread: ThreadState): AnswerState {
  const client = useQueryClient();
  const key = useMemo(() => ["session-runs", session], [session]);
  const asked = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => read("/sessions/{session}/runs", { session: session ?? "" }, signal),
    enabled: session !== null,
    retry: false,
  });
  const known = asked.data ?? NONE;
  const [current, setCurrent] = useState<string | null>(null);
  const [end, setEnd] = useState<RunEnd | null>(null);
  const [dismissed, setDismissed] = useState("");
  const [stopping, setStopping] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  /** Runs that ended: a list that was asked for before that still has them. */
  const over = useRef(new Set<string>());
  const open = known.runs.filter((one) => !over.current.has(one.run));
  const first = open[0]?.run ?? null;
  const shown = current ?? first;
  useEffect(() => {
    if (current === null && first !== null) setCurrent(first);
  }, [current, first]);

  const run = useRun(shown);
  const turn = useMemo(() => (shown ? turnOf(thread, shown) : null), [thread, shown]);
  const entry = known.runs.find((one) => one.run === shown) ?? null;
  const text = entry?.text ?? "";
  const finish = useCallback(
    (ended: string, made: RunEnd | null) => {
      over.current.add(ended);
      setCurrent(null);
      setStopping(null);
      setEnd(made);
      void client.invalidateQueries({ queryKey: key });
    },
    [client, key],
  );
  const isEnded = run?.end != null;
  const now = useRef({ head: thread.head, run, text });
  now.current = { head: thread.head, run, text };
  useEffect(() => {
    if (!shown || over.current.has(shown)) return;
    const ended = (outcome: string, isKept: boolean) =>
      finish(shown, endOf(shown, outcome, now.current.run, now.current.text, isKept));
    if (turn) ended(turn.outcome, true);
    else if (isEnded) {
      let isCurrent = true;
      // The turn comes with the thread; one that moved no session never does.
      void Promise.all([
        client.refetchQueries({ queryKey: ["thread"], type: "active" }),
        client.refetchQueries({ queryKey: key }),
      ]).then(() => {
        // Its page is on the way.
        if (!isCurrent || now.current.head === shown) return;
        ended(now.current.run?.end?.outcome ?? "", false);
      });
      return () => {
        isCurrent = false;
      };
    }
    return;
  }, [shown, turn, isEnded, finish, client, key]);

  // A run that is neither listed nor told of any more has moved elsewhere, or is hidden now.
  useEffect(() => {
    if (shown && run?.problem && !turn) finish(shown, null);
  }, [shown, run?.problem, turn, finish]);

  // What no worker has begun is not listed once it is taken back, and never ends while none runs.
  const isTakenBack =
    stopping !== null && stopping === shown && asked.isSuccess && !entry && run?.query.length === 0;
  useEffect(() => {
    if (shown && isTakenBack) finish(shown, null);
  }, [shown, isTakenBack, finish]);

  const stop = useCallback(() => {
    if (!shown) return;
    setStopping(shown);
    setProblem(null);
    write("/runs/{run}/cancel", {}, undefined, { run: shown }).then(
      () => void client.invalidateQueries({ queryKey: key }),
      (error: unknown) => {
        setStopping(null);
        setProblem(asProblem(error));
      },
    );
  }, [shown, client, key]);
  const takeBack = useCallback(
    async (one: UnfinishedRun) => {
      setProblem(null);
      try {
        await write("/runs/{run}/cancel", {}, undefined, { run: one.run });
        over.current.add(one.run);
        await client.invalidateQueries({ queryKey: key });
        return true;
      } catch (error) {
        setProblem(asProblem(error));
        return false;
      }
    },
    [client, key],
  );
  const sent = useCallback(
    (made: string, words: string) => {
      setEnd(null);
      setProblem(null);
      client.setQueryData<SessionRuns>(key, (before = NONE) =>
        before.runs.some((one) => one.run === made)
          ? before
          : {
              failed: null,
              runs: [
                ...before.runs,
                { run: made, status: "waiting", at: "", is_canceled: false, text: words, by: "", reason: "" },
              ],
            },
      );
      void client.invalidateQueries({ queryKey: key });
    },
    [client, key],
  );
  const { failed } = known;
  const before: RunEnd | null =
    failed && shown === null && failed.run !== dismissed && !over.current.has(failed.run)
      ? {
          ...failed,
          outcome: "failed",
          calls: 0,
          isKept: thread.head === failed.run,
        }
      : null;
  return {
    run: turn ? null : run,
    entry,
    waiting: open.filter((one) => one.run !== shown),
    end: end ?? before,
    isStopping: stopping !== null && stopping === shown,
    problem,
    forget: () => {
      setEnd(null);
      setDismissed(failed?.run ?? "");
    },
    stop,
    takeBack,
    sent,
  };
}

function turnOf(thread: ThreadState, run: string): Turn | null {
  for (const turn of thread.turns.values()) if (turn.id === run) return turn;
  return null;
}

function endOf(
  id: string,
  outcome: string,
  run: FollowedRun | null,
  text: string,
  isKept: boolean,
): RunEnd | null {
  if (outcome === "completed") return null;
  const document = run?.end ?? null;
  const asked = run?.query.flatMap((message) => message.parts.map((part) => part.text ?? "")).join("\n\n");
  return {
    run: id,
    outcome: outcome === "failed" ? "failed" : "stopped",
    text: asked || text,
    reason: document?.reason ?? "",
    next: document?.next ?? [],
    calls: run ? countCalls(run) : 0,
    isKept,
  };
}
