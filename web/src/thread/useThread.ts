import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { read } from "../api/client.ts";
import { type Known, PAGE_TURNS, pageOf, pagesAround, withPage } from "./pages.ts";
import type { Turn } from "./wire.ts";

export interface ThreadState {
  head: string;
  session: string | null;
  total: number;
  turns: ReadonlyMap<number, Turn>;
}

/** The thread of a revision: the page around `depth` first (its end if there is none), then those that are in view. */
export function useThread(revision: string, depth: number | null, inView: readonly [number, number]) {
  const first = useQuery({
    queryKey: ["thread", revision, depth === null ? "end" : pageOf(depth)],
    queryFn: ({ signal }) =>
      read(
        "/threads/{revision}",
        { revision, limit: PAGE_TURNS, after: depth === null ? null : pageOf(depth) * PAGE_TURNS },
        signal,
      ),
    enabled: revision !== "",
    placeholderData: (before) => before,
  });
  const head = first.data?.head ?? "";
  const total = first.data?.turns_total ?? 0;
  const pages = useQueries({
    queries: (head === "" ? [] : pagesAround(inView[0], Math.min(inView[1], total))).map((page) => ({
      queryKey: ["thread-page", head, page],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        read("/threads/{revision}", { revision: head, after: page * PAGE_TURNS, limit: PAGE_TURNS }, signal),
      // A thread that ends in this turn never changes.
      staleTime: Number.POSITIVE_INFINITY,
    })),
  });
  const known = useRef<Known<Turn> | null>(null);
  const stamp = pages.map((page) => page.dataUpdatedAt).join();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the stamp says when a page came.
  const thread = useMemo((): ThreadState | null => {
    if (!first.data) return null;
    let next = withPage(known.current, head, first.data.turns);
    for (const page of pages) if (page.data) next = withPage(next, head, page.data.turns);
    known.current = next;
    return {
      head,
      session: first.data.session,
      total: first.data.turns_total,
      turns: next.turns,
    };
  }, [first.data, head, stamp]);
  const failed = pages.find((page) => page.isError);
  return {
    thread,
    error: thread ? null : first.error,
    pageError: failed?.error ?? null,
    retry: () => void (first.isError ? first.refetch() : failed?.refetch()),
  };
}

export function useTurn(turn: string | null) {
  return useQuery({
    queryKey: ["turn", turn],
    queryFn: ({ signal }) => read("/turns/{revision}", { revision: turn ?? "" }, signal),
    enabled: turn !== null && turn !== "",
  });
}

export function useSpine(revision: string) {
  return useQuery({
    queryKey: ["spine", revision],
    queryFn: ({ signal }) => read("/spine/{revision}", { revision }, signal),
    enabled: revision !== "",
  });
}
