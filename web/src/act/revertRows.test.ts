import { describe, expect, it } from "vitest";
import { removedLines } from "./removed.ts";
import { reasonOf, restOf, rowsOf } from "./revertRows.ts";
import type { RevertConflict, RevertPlan } from "./wire.ts";

const step = (path: string, merged = false) => ({
  path,
  folder: "/shop",
  change: "changed" as const,
  plus: 1,
  minus: 2,
  merged,
});
const conflict: RevertConflict = {
  path: "b.ts",
  folder: "/shop",
  why: "lines",
  turns: ["1a2b3c4d"],
  outside: true,
  decided: false,
};
const plan: RevertPlan = {
  turn: "t",
  digest: "abcd",
  title: "one",
  files: ["a.ts", "b.ts", "c.ts", "d.ts"],
  goes_back: [step("a.ts", true), step("moved.ts")],
  stays: [step("later.ts"), step("mine.md")],
  conflicts: [conflict],
  done: ["c.ts"],
  unclear: [],
  folder: "/shop",
  why_nothing: null,
  command: "turntree revert abcd",
  expected_changes: "0",
};

describe("the files of a turn that is taken back", () => {
  it("each have one row, and moved files follow", () => {
    const rows = rowsOf(plan, plan.files, new Set());
    expect(rows.map((row) => [row.path, row.kind])).toEqual([
      ["a.ts", "back"],
      ["b.ts", "conflict"],
      ["c.ts", "stays"],
      ["d.ts", "stays"],
      ["moved.ts", "back"],
    ]);
    expect(rows[2]).toMatchObject({ why: "as before already" });
  });

  it("stay where the reader left them out", () => {
    const rows = rowsOf(plan, plan.files, new Set(["a.ts", "b.ts"]));
    expect(rows.slice(0, 2)).toEqual([
      { kind: "stays", path: "a.ts", why: "stays, not chosen" },
      { kind: "stays", path: "b.ts", why: "stays, not chosen" },
    ]);
  });

  it("say whose change is in the way", () => {
    expect(reasonOf(conflict)).toBe("the same lines were changed since, by 1a2b3c4d and you");
    expect(reasonOf({ ...conflict, turns: [], outside: false, why: "added" })).toBe(
      "another file is there now",
    );
  });

  it("are followed by what is not listed", () => {
    expect(restOf(plan, 2)).toEqual([]);
    expect(restOf({ ...plan, unclear: ["x", "y"] }, 1)).toEqual([
      "1 more file changed later, and stays",
      "2 files changed by several turns at once stay: x, y",
    ]);
  });
});

describe("the report of a shared page", () => {
  it("names every place", () => {
    const lines = removedLines({
      secrets: 3,
      messages: [{ turn: "1a2b3c4d", message: 2, secrets: 1 }],
      files: [{ path: ".env", secrets: 2 }],
      files_left_out: ["dump.bin"],
      turns_without_events: 1,
      snapshots_missing: 2,
    });
    expect(lines).toEqual([
      "Message 2 of 1a2b3c4d held 1 secret and is left out",
      ".env: 2 secrets removed",
      "dump.bin: left out, too large to check or binary with a secret",
      "The model calls of 1 turn held a secret and are left out",
      "The files of 2 snapshots are not stored on this machine",
    ]);
  });
});
