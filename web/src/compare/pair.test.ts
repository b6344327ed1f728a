import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pairOf, shares, toolsOfBoth, wordOf } from "./pair.ts";

const revision = fc.stringMatching(/^[a-z][a-z0-9/~-]{0,20}$/);

describe("pairs", () => {
  test("an address names the same two sides again", () => {
    fc.assert(
      fc.property(revision, revision, (left, right) => {
        expect(pairOf(wordOf({ left, right }))).toEqual({ left, right });
      }),
    );
  });

  test("what is missing is empty", () => {
    expect([pairOf(undefined), pairOf("a"), pairOf("a..."), pairOf("...b")]).toEqual([
      { left: "", right: "" },
      { left: "a", right: "" },
      { left: "a", right: "" },
      { left: "", right: "b" },
    ]);
  });

  test("bars are shares of the larger figure, and nothing is no bar", () => {
    expect([shares(2, 4), shares(0, 0)]).toEqual([
      { left: 0.5, right: 1 },
      { left: 0, right: 0 },
    ]);
  });

  test("tools of both sides are joined by name", () => {
    expect(
      toolsOfBoth(
        [{ tool: "Read", calls: 2 }],
        [
          { tool: "Bash", calls: 9 },
          { tool: "Read", calls: 1 },
        ],
      ),
    ).toEqual([
      { tool: "Bash", left: 0, right: 9 },
      { tool: "Read", left: 2, right: 1 },
    ]);
  });
});
