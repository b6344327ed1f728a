import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { changeOf, changeOfHunks, changesOfPatch, folded } from "./rows.ts";

const lines = fc.array(fc.constantFrom("a", "b", "c", "let x = 1;", "let x = 2;", ""), { maxLength: 30 });

describe("changes", { timeout: 60_000 }, () => {
  test("the rows without additions are the old text, without removals the new one", () => {
    fc.assert(
      fc.property(lines, lines, (old, next) => {
        const { rows, added, removed } = changeOf(
          old.map((line) => `${line}\n`).join(""),
          next.map((line) => `${line}\n`).join(""),
        );
        expect(rows.filter((row) => row.op !== "+").map((row) => row.text)).toEqual(old);
        expect(rows.filter((row) => row.op !== "-").map((row) => row.text)).toEqual(next);
        expect(rows.filter((row) => row.op === "+")).toHaveLength(added);
        expect(rows.filter((row) => row.op === "-")).toHaveLength(removed);
      }),
    );
  });

  test("marked words join to their line", () => {
    fc.assert(
      fc.property(lines, lines, (old, next) => {
        for (const row of changeOf(old.join("\n"), next.join("\n")).rows)
          if (row.words) expect(row.words.map((word) => word.text).join("")).toBe(row.text);
      }),
    );
  });

  test("only the words that differ are marked", () => {
    const { rows } = changeOf("return Math.round(sum);\n", "return sum;\n");
    expect(
      rows[0]?.words
        ?.filter((word) => word.differs)
        .map((word) => word.text)
        .join(""),
    ).toContain("Math");
    expect(rows[1]?.words?.[0]).toEqual({ text: "return ", differs: false });
  });

  test("a new file has only additions, and an emptied one only removals", () => {
    expect(changeOf("", "a\nb\n")).toMatchObject({ added: 2, removed: 0 });
    expect(changeOf("a\nb\n", "")).toMatchObject({ added: 0, removed: 2 });
  });

  test("a change of megabytes is shown without being compared", () => {
    const change = changeOf("a\n".repeat(200_000), "b\n".repeat(200_000));
    expect(change).toMatchObject({ added: 200_000, removed: 200_000 });
  });

  test("hunks keep the numbers of their lines", () => {
    const hunk = {
      old_start: 10,
      new_start: 12,
      lines: [
        { op: " ", text: "a" },
        { op: "-", text: "b" },
        { op: "+", text: "c" },
      ],
    };
    expect(changeOfHunks([hunk]).rows.map((row) => [row.old, row.new])).toEqual([
      [10, 12],
      [11, null],
      [null, 13],
    ]);
  });

  test("folds hold every row once, and never a change", () => {
    fc.assert(
      fc.property(lines, lines, (old, next) => {
        const { rows } = changeOf(
          [...old, ..."0123456789abcdef"].join("\n"),
          [...next, ..."0123456789abcdef"].join("\n"),
        );
        const items = folded(rows);
        expect(items.flatMap((item) => (item.op === "fold" ? item.rows : [item]))).toEqual(rows);
        for (const item of items)
          if (item.op === "fold") expect(item.rows.every((row) => row.op === " ")).toBe(true);
      }),
    );
  });

  test("a patch of Codex names its files", () => {
    const patch =
      "*** Begin Patch\n*** Update File: a.ts\n@@\n x\n-y\n+z\n*** Add File: b.ts\n+new\n*** Delete File: c.ts\n*** End Patch";
    expect(
      changesOfPatch(patch).map(({ path, use, change }) => [path, use, change.added, change.removed]),
    ).toEqual([
      ["a.ts", "changed", 1, 1],
      ["b.ts", "added", 1, 0],
      ["c.ts", "removed", 0, 0],
    ]);
  });

  test("a unified diff keeps its line numbers", () => {
    const [file] = changesOfPatch("--- a/x.py\n+++ b/x.py\n@@ -3,2 +3,2 @@\n a\n-b\n+c\n");
    expect(file?.path).toBe("x.py");
    expect(file?.change.rows.map((row) => row.new ?? row.old)).toEqual([3, 4, 4]);
  });
});
