import { describe, expect, test } from "vitest";
import { forksOf, outlineOf } from "./outline.ts";
import type { Spine, Turn } from "./wire.ts";

const node = (depth: number) => ({
  turn: `t${depth}`,
  depth,
  title: `Question ${depth}`,
  at_ms: 0,
  kind: "normal",
  outcome: "completed",
});
const branch = (from_depth: number, label: string): Spine["branches"][number] => ({
  from_turn: `t${from_depth}`,
  from_depth,
  turn: `${label}-1`,
  label,
  title: "Other",
  turns: 3,
  agent: "codex",
  last_ms: 0,
});
const turns = (...depths: number[]) =>
  new Map(
    depths.map((depth) => [
      depth,
      { depth, title: `Loaded ${depth}`, kind: "normal", outcome: "completed", agent: "codex" } as Turn,
    ]),
  );

describe("the spine", () => {
  test("a short thread shows every turn, its branches below the turn that they leave", () => {
    const rows = outlineOf(
      { nodes: [node(1), node(3)], branches: [branch(2, "b"), branch(2, "a")] },
      turns(1, 2),
      3,
      1,
    );
    expect(
      rows.map((row) => (row.is === "turn" ? row.title : row.is === "branch" ? row.label : "gap")),
    ).toEqual(["Loaded 1", "Loaded 2", "b", "a", "Question 3"]);
  });

  test("a long thread shows what branches and where the reader is; gaps count the rest", () => {
    const rows = outlineOf(
      { nodes: [node(1), node(400), node(1000)], branches: [branch(400, "a")] },
      turns(698, 699, 700, 701, 702),
      1000,
      700,
    );
    const gaps = rows.flatMap((row) => (row.is === "gap" ? [[row.from, row.to]] : []));
    expect(gaps).toEqual([
      [2, 399],
      [401, 697],
      [703, 999],
    ]);
    const covered = rows.reduce(
      (sum, row) => sum + (row.is === "gap" ? row.to - row.from + 1 : row.is === "turn" ? 1 : 0),
      0,
    );
    expect(covered).toBe(1000);
  });

  test("forks are depths in order, each once", () => {
    expect(forksOf({ branches: [branch(9, "a"), branch(2, "b"), branch(9, "c")] })).toEqual([2, 9]);
  });
});
