/** The posts that are on the page: a stretch of a conversation without gaps. Values and rules, without a browser. */

import type { Post } from "../api/conversations.ts";

/** More than this many posts make a page slow to lay out, and no reader sees as many at once. */
export const WINDOW_MAX = 300;

export interface PostWindow {
  /** In their order, without gaps. */
  readonly posts: readonly Post[];
  /** Whether the last post of the conversation is among them, as far as is known. */
  readonly isAtEnd: boolean;
}

export const NOTHING: PostWindow = { posts: [], isAtEnd: true };

/** The number of the first post, and of the last one; zero where there are none. */
export function firstOf(window: PostWindow): number {
  return window.posts[0]?.seq ?? 0;
}

export function lastOf(window: PostWindow): number {
  return window.posts.at(-1)?.seq ?? 0;
}

/** The window with earlier posts before it; what is pushed out at its end is read again when it is wanted. */
export function withEarlier(window: PostWindow, earlier: readonly Post[]): PostWindow {
  const first = firstOf(window);
  const posts = [...earlier.filter((post) => post.seq < first), ...window.posts];
  const kept = posts.slice(0, WINDOW_MAX);
  return { posts: kept, isAtEnd: window.isAtEnd && kept.length === posts.length };
}

/** The window with later posts behind it. Posts that do not follow it begin a window of their own. */
export function withLater(window: PostWindow, later: readonly Post[], isAtEnd: boolean): PostWindow {
  const last = lastOf(window);
  const fresh = later.filter((post) => post.seq > last);
  if (fresh.length === 0) return isAtEnd === window.isAtEnd ? window : { ...window, isAtEnd };
  const follows = fresh[0]!.seq === last + 1;
  return { posts: (follows ? [...window.posts, ...fresh] : fresh).slice(-WINDOW_MAX), isAtEnd };
}

/** The window with what its posts are now: a post may have been erased, or a decision made. */
export function withCurrent(window: PostWindow, current: readonly Post[]): PostWindow {
  const bySeq = new Map(current.map((post) => [post.seq, post]));
  let isChanged = false;
  const posts = window.posts.map((before) => {
    const now = bySeq.get(before.seq);
    if (!now || isSame(before, now)) return before;
    isChanged = true;
    return now;
  });
  return isChanged ? { ...window, posts } : window;
}

function isSame(one: Post, other: Post): boolean {
  return (
    one.content === other.content &&
    one.turn_digest === other.turn_digest &&
    one.decision_pending === other.decision_pending &&
    JSON.stringify(one.decision ?? null) === JSON.stringify(other.decision ?? null)
  );
}
