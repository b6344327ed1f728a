/** What the graph shows, derived from the forest and the address. */
import { useMemo } from "react";
import { toneOf } from "../core/agents.ts";
import { type Forest, type Place, placeKey, threadOf } from "../core/forest.ts";
import { type Layout, layOut, type Rows, rowsOf } from "../core/layout.ts";
import { type Light, litPlaces } from "../core/light.ts";
import { forksOf, type Glyph, glyphsOf } from "./drawLanes.ts";
import { type Filters, keptTrees, newestOf } from "./keeps.ts";

export interface Graph {
  forest: Forest;
  layout: Layout;
  rows: Rows;
  forks: Int32Array;
  tones: readonly number[];
  glyphs: ReadonlyMap<number, Glyph>;
  newest: ReadonlyMap<number, number>;
  /** How many lit turns each row holds. */
  litRows: ReadonlyMap<number, number>;
  /** Rows of failed and stopped turns. */
  failedRows: readonly number[];
}

let kept: { forest: Forest; layout: Layout } | null = null;

/** The lanes of a forest, laid out once for every page that asks. */
function layoutOf(forest: Forest): Layout {
  if (kept?.forest.columns !== forest.columns) kept = { forest, layout: layOut(forest) };
  return kept.layout;
}

export function useGraph(
  forest: Forest,
  filters: Filters,
  isFolded: boolean,
  open: ReadonlySet<number>,
  light: Light,
): Graph {
  const layout = layoutOf(forest);
  const { project, agent, isFailed, label } = filters;
  const fixed = useMemo(
    () => ({
      forks: forksOf(layout),
      glyphs: glyphsOf(forest),
      tones: forest.agents.map(toneOf),
      newest: newestOf(forest, layout),
    }),
    [forest, layout],
  );
  const rows = useMemo(() => {
    const trees = keptTrees(forest, layout, { project, agent, isFailed, label });
    return rowsOf(forest, layout, {
      folded: isFolded,
      open,
      ...(trees ? { keeps: (root) => trees.has(root) } : {}),
    });
  }, [forest, layout, isFolded, open, project, agent, isFailed, label]);
  const litRows = useMemo(() => {
    const found = new Map<number, number>();
    for (const { segment, depth } of litPlaces(light, forest.indexOfId)) {
      const row = rows.rowOf(segment, depth);
      if (row >= 0) found.set(row, (found.get(row) ?? 0) + 1);
    }
    return found;
  }, [light, forest, rows]);
  const failedRows = useMemo(() => {
    const found: number[] = [];
    for (const [segment, marks] of forest.marksAt) {
      for (const mark of marks) {
        if (mark.kind !== "failed" && mark.kind !== "stopped") continue;
        const row = rows.rowOf(segment, mark.depth);
        if (row >= 0) found.push(row);
      }
    }
    return found;
  }, [forest, rows]);
  // The same value while nothing of it changes: a key moves the selection, and draws two rows anew.
  return useMemo(
    () => ({ forest, layout, rows, litRows, failedRows, ...fixed }),
    [forest, layout, rows, litRows, failedRows, fixed],
  );
}

/** The thread of a turn as the lanes want it: how deep it goes in each segment. */
export function threadMap(forest: Forest, place: Place | null): ReadonlyMap<number, number> {
  return new Map(place ? threadOf(forest, place).map(({ segment, high }) => [segment, high]) : []);
}

/** The turn that a key of the graph leads to, or null. */
export function neighbour(
  graph: Graph,
  from: Place,
  to: "parent" | "main" | "older fork" | "newer fork",
): Place | null {
  const { layout, rows } = graph;
  const piece = layout.pieceAt(from.segment, from.depth);
  if (to === "parent") {
    if (from.depth > layout.low[piece]!) return { segment: from.segment, depth: from.depth - 1 };
    const parent = layout.parent[piece]!;
    return parent < 0 ? null : { segment: layout.segment[parent]!, depth: layout.high[parent]! };
  }
  if (to === "main") {
    if (from.depth < layout.high[piece]!) return { segment: from.segment, depth: from.depth + 1 };
    const main = layout.main[piece]!;
    return main < 0 ? null : { segment: layout.segment[main]!, depth: layout.low[main]! };
  }
  const step = to === "older fork" ? 1 : -1;
  for (let row = rows.rowOf(from.segment, from.depth) + step; row >= 0 && row < rows.length; row += step) {
    const line = rows.at(row);
    if (line.kind === "turn" && line.children > 1) return { segment: line.segment, depth: line.depth };
  }
  return null;
}

export const keyOf = (place: Place): number => placeKey(place.segment, place.depth);
