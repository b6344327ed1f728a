import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Known, PAGE_TURNS, type PlacedTurn, pageOf, pagesAround, withPage } from "./pages.ts";

const thread = (name: string, low: number, high: number, root = name): PlacedTurn[] =>
  Array.from({ length: high - low + 1 }, (_, index) => {
    const depth = low + index;
    return {
      id: `${depth <= 3 ? root : name}${depth}`,
      depth,
      parent: depth === 1 ? null : `${depth <= 4 ? root : name}${depth - 1}`,
    };
  });

describe("pages of a thread", { timeout: 60_000 }, () => {
  test("the pages around some depths hold them", () => {
    expect(pagesAround(1, 40)).toEqual([0]);
    expect(pagesAround(40, 41)).toEqual([0, 1]);
    fc.assert(fc.property(fc.integer({ min: 1, max: 5000 }), (depth) => pageOf(depth) * PAGE_TURNS < depth));
  });

  test("a session that went on keeps its older turns", () => {
    const known = withPage(null, "a10", thread("a", 1, 10));
    expect(withPage(known, "a12", thread("a", 11, 12)).turns.size).toBe(12);
  });

  test("another branch forgets what it does not share", () => {
    const known = withPage(null, "a10", thread("a", 1, 10));
    const next = withPage(known, "b6", thread("b", 4, 6, "a"));
    expect([...next.turns.values()].map((turn) => turn.id)).toEqual(["a1", "a2", "a3", "b4", "b5", "b6"]);
    expect(withPage(known, "c6", thread("c", 4, 6)).turns.size).toBe(3);
  });

  test("pages of one thread may come in any order", () => {
    const pages = [thread("a", 1, 40), thread("a", 41, 80), thread("a", 81, 90)];
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2], { minLength: 3 }), (order) => {
        let known: Known<PlacedTurn> | null = null;
        for (const page of order) known = withPage(known, "a90", pages[page]!);
        expect(known?.turns.size).toBe(90);
      }),
    );
  });
});
