/** The notices of the person who reads. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { read, write } from "./client.ts";
import { queryClient } from "./queryClient.ts";
import type { NoticeDocument } from "./types.ts";

const PAGE = 50;
const UNREAD_PAGE = 200;

/** The newest unread notices, and how many there are. */
export const unreadNotices = queryOptions({
  queryKey: ["inbox", "unread"],
  queryFn: ({ signal }) => read("/inbox", { limit: UNREAD_PAGE }, signal),
});

export function noticePages(everything: boolean) {
  return infiniteQueryOptions({
    queryKey: ["inbox", "pages", everything],
    queryFn: ({ signal, pageParam }) =>
      read("/inbox", { everything, limit: PAGE, cursor: pageParam }, signal),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
  });
}

/** The conversation that a notice is about, by its id. */
export function conversationOf(notice: NoticeDocument): string | null {
  return wordOf(notice.refs.conversation);
}

/** The post that a notice is about, by its number. */
export function postOf(notice: NoticeDocument): number | null {
  const { post } = notice.refs;
  return typeof post === "number" ? post : null;
}

export function wordOf(ref: unknown): string | null {
  return typeof ref === "string" && ref ? ref : null;
}

/** Mark notices as read, all of them without ids. */
export async function readNotices(ids: readonly string[] | null): Promise<void> {
  await write("/inbox/read", { ids: ids === null ? null : [...ids] });
  await queryClient.invalidateQueries({ queryKey: ["inbox"] });
}
