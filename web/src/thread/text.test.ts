import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { beginning, countLines, piecesOf, screenText, visible } from "./text.ts";

describe("text from outside", { timeout: 60_000 }, () => {
  test("what turns the reading order is written out", () => {
    expect(visible("a\u202eb")).toBe("a⟨202E⟩b");
    expect(visible("bell\u0007, tab\t")).toBe("bell␇, tab\t");
    expect(visible("👩‍🚀 שלום")).toBe("👩‍🚀 שלום");
  });

  test("a terminal's colours and redrawn lines are left out", () => {
    expect(screenText("\u001b[32mok\u001b[0m\r\n10%\r50%\rdone\n")).toBe("ok\ndone\n");
  });

  test("pieces join to the whole", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary", maxLength: 300 }),
        fc.integer({ min: 2, max: 40 }),
        (text, size) => {
          expect(piecesOf(text, size).join("")).toBe(text);
        },
      ),
    );
  });

  test("a beginning has at most so many lines and characters", () => {
    expect(beginning("a\nb\nc", 2, 100)).toEqual({ text: "a\nb", isCut: true });
    expect(beginning("a\nb", 2, 100)).toEqual({ text: "a\nb", isCut: false });
    expect(beginning("abcdef", 2, 3)).toEqual({ text: "abc", isCut: true });
    expect(countLines("a\nb\n")).toBe(2);
  });
});
