/** Questions about sessions. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { read } from "./client.ts";

const PAGE = 80;
const LATELY = 40;

export interface SessionFilter {
  project?: string;
  agent?: string;
  q?: string;
  archived?: boolean;
}

/** All sessions that pass, the one that worked last first. */
export function sessionPages(filter: SessionFilter) {
  return infiniteQueryOptions({
    queryKey: ["sessions", "pages", filter],
    queryFn: ({ signal, pageParam }) =>
      read("/sessions", { ...filter, limit: PAGE, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
}

/** The sessions that worked lately. */
export const lateSessions = queryOptions({
  queryKey: ["sessions", "late"],
  queryFn: ({ signal }) => read("/sessions", { limit: LATELY, figures: false }, signal),
});
