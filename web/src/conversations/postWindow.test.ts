import fc from "fast-check";
import { expect, test } from "vitest";
import type { Post } from "../api/conversations.ts";
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

function post(seq: number, content: string | null = `post ${seq}`): Post {
  return {
    conversation: "c",
    seq,
    id: `id-${seq}`,
    kind: "participant",
    author: "human:ana",
    content,
    digest: "sha256:00",
    at: "2026-11-19T14:00:00.000Z",
    turn: null,
    turn_digest: null,
    cause: seq,
    hops: 0,
    decision: null,
    decision_pending: false,
  };
}

const stretch = (from: number, to: number) =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, place) => post(from + place));

test("earlier posts come before those that are there, and later ones behind", () => {
  const middle: PostWindow = { posts: stretch(10, 12), isAtEnd: false };
  expect(withEarlier(middle, stretch(7, 9)).posts.map((one) => one.seq)).toEqual([7, 8, 9, 10, 11, 12]);
  const later = withLater(middle, stretch(13, 14), true);
  expect([firstOf(later), lastOf(later), later.isAtEnd]).toEqual([10, 14, true]);
});

test("a post that is told twice is there once", () => {
  const window: PostWindow = { posts: stretch(1, 3), isAtEnd: true };
  expect(withLater(window, stretch(2, 4), true).posts.map((one) => one.seq)).toEqual([1, 2, 3, 4]);
  expect(withLater(window, stretch(2, 3), true)).toBe(window);
});

test("posts that do not follow begin a window of their own", () => {
  const window: PostWindow = { posts: stretch(1, 3), isAtEnd: true };
  expect(withLater(window, stretch(90, 95), true).posts.map((one) => one.seq)[0]).toBe(90);
});

test("what is pushed out at the end is known to be missing", () => {
  const full: PostWindow = { posts: stretch(101, 100 + WINDOW_MAX), isAtEnd: true };
  const earlier = withEarlier(full, stretch(51, 100));
  expect([firstOf(earlier), earlier.posts.length, earlier.isAtEnd]).toEqual([51, WINDOW_MAX, false]);
});

test("an erased post and a decision are shown as they are now", () => {
  const window: PostWindow = { posts: stretch(1, 3), isAtEnd: true };
  const decided = { ...post(3), decision: { agents: [], reason: "thanks", by: "rules", turn: null } };
  const after = withCurrent(window, [post(2, null), decided]);
  expect(after.posts.map((one) => one.content)).toEqual(["post 1", null, "post 3"]);
  expect(after.posts[2]?.decision?.reason).toBe("thanks");
  expect(after.posts[0]).toBe(window.posts[0]);
  expect(withCurrent(window, stretch(1, 3))).toBe(window);
});

test("whatever is read, a window has no gap and is never too long", () => {
  const step = fc.record({
    isEarlier: fc.boolean(),
    from: fc.nat(600),
    length: fc.nat(120),
    end: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      let window: PostWindow = withLater(NOTHING, stretch(300, 350), true);
      for (const { isEarlier, from, length, end } of steps) {
        const first = firstOf(window);
        window = isEarlier
          ? withEarlier(window, stretch(Math.max(1, first - length), first - 1))
          : withLater(window, stretch(from, from + length), end);
        const seqs = window.posts.map((one) => one.seq);
        expect(seqs).toEqual(seqs.map((_, place) => (seqs[0] ?? 0) + place));
        expect(seqs.length).toBeLessThanOrEqual(WINDOW_MAX);
      }
    }),
  );
});
