import { useCallback, useEffect, useRef, useState } from "react";
import { POSTS_PAGE, readPosts } from "../api/conversations.ts";
import { asProblem, type Problem } from "../api/problem.ts";
import { onChange } from "../api/stream.ts";
import {
  firstOf,
  lastOf,
  NOTHING,
  type PostWindow,
  WINDOW_MAX,
  withCurrent,
  withEarlier,
  withLater,
} from "./postWindow.ts";

/** Changes are gathered this long before posts are read again. */
const GATHER_MS = 120;
/** Posts that came while the reader was away; of more, the newest begin a window of their own. */
const NEWS_MAX = 200;

export interface Posts {
  window: PostWindow;
  isReading: boolean;
  problem: Problem | null;
  earlier: () => Promise<void>;
  later: () => Promise<void>;
  /** Shows the newest posts, or those around one. */
  go: (post: number | null) => Promise<void>;
  /** Reads what is new, now. */
  refresh: () => Promise<void>;
}

/**
 * The posts of a conversation near the one that is read. Where the reader is at the end, new posts come by
 * themselves; elsewhere the stretch that is on the page stays, and is kept as it is now.
 */
export function usePosts(conversation: string, ids: ReadonlySet<string>, start: number | null): Posts {
  const [window, setWindow] = useState<PostWindow>(NOTHING);
  const [isReading, setReading] = useState(true);
  const [problem, setProblem] = useState<Problem | null>(null);
  const latest = useRef(window);
  /** Reads one after the other: two that overlap could put an earlier answer over a later one. */
  const queue = useRef<Promise<void>>(Promise.resolve());
  const ended = useRef(false);

  const put = useCallback((next: PostWindow) => {
    latest.current = next;
    setWindow(next);
  }, []);
  const inTurn = useCallback((read: () => Promise<void>): Promise<void> => {
    const next = queue.current.then(async () => {
      if (ended.current) return;
      try {
        await read();
        setProblem(null);
      } catch (error) {
        setProblem(asProblem(error));
      }
    });
    queue.current = next;
    return next;
  }, []);

  const go = useCallback(
    (post: number | null) =>
      inTurn(async () => {
        const half = POSTS_PAGE / 2;
        const around = post === null ? {} : { after: Math.max(0, post - half - 1), before: post + half };
        const posts = await readPosts(conversation, around);
        put({ posts, isAtEnd: post === null || posts.length < POSTS_PAGE });
        setReading(false);
      }),
    [conversation, inTurn, put],
  );
  const earlier = useCallback(
    () =>
      inTurn(async () => {
        const first = firstOf(latest.current);
        if (first <= 1) return;
        put(withEarlier(latest.current, await readPosts(conversation, { before: first })));
      }),
    [conversation, inTurn, put],
  );
  const later = useCallback(
    () =>
      inTurn(async () => {
        const last = lastOf(latest.current);
        if (latest.current.isAtEnd) return;
        const posts = await readPosts(conversation, { after: last, before: last + POSTS_PAGE + 1 });
        put(withLater(latest.current, posts, posts.length < POSTS_PAGE));
      }),
    [conversation, inTurn, put],
  );
  const refresh = useCallback(
    () =>
      inTurn(async () => {
        const { isAtEnd } = latest.current;
        if (!isAtEnd) return;
        const posts = await readPosts(conversation, { after: lastOf(latest.current), limit: NEWS_MAX });
        put(withLater(latest.current, posts, true));
      }),
    [conversation, inTurn, put],
  );
  const reread = useCallback(
    () =>
      inTurn(async () => {
        const [first, last] = [firstOf(latest.current), lastOf(latest.current)];
        if (first === 0) return;
        const range = { after: first - 1, before: last + 1, limit: WINDOW_MAX };
        put(withCurrent(latest.current, await readPosts(conversation, range)));
      }),
    [conversation, inTurn, put],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: another post in the address is gone to by the page.
  useEffect(() => {
    ended.current = false;
    void go(start);
    return () => {
      ended.current = true;
    };
  }, [go]);
  const known = useRef(ids);
  known.current = ids;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isNamed = false;
    const off = onChange((change) => {
      const named = change.conversations ?? [];
      isNamed ||= change.is_whole || named.some((id) => known.current.has(id));
      const waits = latest.current.posts.some((post) => post.decision_pending);
      if (!isNamed && !waits) return;
      timer ??= setTimeout(() => {
        timer = undefined;
        isNamed = false;
        void refresh();
        void reread();
      }, GATHER_MS);
    });
    return () => {
      off();
      clearTimeout(timer);
    };
  }, [refresh, reread]);

  return { window, isReading, problem, earlier, later, go, refresh };
}
