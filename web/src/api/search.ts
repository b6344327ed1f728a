/** Questions of the search, shared by the palette and its page. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";
import { read } from "./client.ts";

const FIRST = 12;
const PAGE = 30;

/** The best hits, while words are typed. */
export function quickSearch(words: string) {
  return queryOptions({
    queryKey: ["search", "quick", words],
    queryFn: ({ signal }) => read("/search", { q: words, limit: FIRST, typing: true }, signal),
    enabled: isAsked(words),
    placeholderData: keepPreviousData,
  });
}

/** All hits, page by page. */
export function wholeSearch(words: string) {
  return infiniteQueryOptions({
    queryKey: ["search", "whole", words],
    queryFn: ({ signal, pageParam }) =>
      read("/search", { q: words, limit: PAGE, cursor: pageParam, typing: true }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    enabled: isAsked(words),
  });
}

/** A question without a letter or a digit finds nothing, and is not asked. */
export function isAsked(words: string): boolean {
  return /[\p{L}\p{N}]/u.test(words);
}
