import { describe, expect, test } from "vitest";
import type { Call } from "./call.ts";
import { answerOf, exitCodeOf, fileLines, foundFiles, readable, stepsOf } from "./outputs.ts";

const answered = (output: string) => ({ output }) as Call;

describe("answers of tools", () => {
  test("a command's output is taken out of what Codex wraps around it", () => {
    const old = answered(JSON.stringify({ output: "ok\n", metadata: { exit_code: 1 } }));
    expect([answerOf(old), exitCodeOf(old)]).toEqual(["ok\n", 1]);
    const now = answered("Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 2\nOutput:\nno\n");
    expect([answerOf(now), exitCodeOf(now)]).toEqual(["no\n", 2]);
    expect(exitCodeOf(answered("plain"))).toBeNull();
  });

  test("a file's lines keep their numbers", () => {
    expect(fileLines("    10→a\n    11→\n    12→b")).toEqual([
      { number: 10, text: "a" },
      { number: 11, text: "" },
      { number: 12, text: "b" },
    ]);
    expect(fileLines("a\nb\n").map((line) => line.number)).toEqual([1, 2]);
  });

  test("matches are gathered by file", () => {
    expect(
      foundFiles("src/a.ts:3:let a\nsrc/a.ts:9:use(a)\nsrc/b.ts:1:x")?.map((file) => [
        file.path,
        file.lines.length,
      ]),
    ).toEqual([
      ["src/a.ts", 2],
      ["src/b.ts", 1],
    ]);
    expect(foundFiles("Found 2 files\nsrc/a.ts\nsrc/b.ts")).toHaveLength(2);
    expect(foundFiles("nothing was found here at all")).toBeNull();
  });

  test("plans of every agent have steps", () => {
    expect(stepsOf({ todos: [{ content: "a", status: "completed" }] })).toEqual([
      { text: "a", state: "done" },
    ]);
    expect(stepsOf({ plan: [{ step: "a", status: "in_progress" }] })).toEqual([{ text: "a", state: "now" }]);
    expect(stepsOf({ todos: [{ description: "a", status: "cancelled" }, 3] })).toEqual([
      { text: "a", state: "dropped" },
    ]);
    expect(stepsOf({})).toEqual([]);
  });

  test("documents are laid out, other text is left alone", () => {
    expect(readable('{"a":1}')).toBe('{\n  "a": 1\n}');
    expect(readable("{not json")).toBe("{not json");
    expect(readable(undefined)).toBe("");
  });
});
