/**
 * The lanes of a window of rows as paths, merged by colour.
 *
 * At a row in lane n the lanes 0 to n-1 pass through, so a window needs no row outside itself. An
 * edge has the colour of the turn it leads to: a lane changes colour where another agent goes on.
 */
import { type Forest, placeKey } from "../core/forest.ts";
import type { GraphRow, Layout, Rows } from "../core/layout.ts";

export type Glyph = "turn" | "head" | "compaction" | "failed" | "live";

export interface Strokes {
  /** Path data by tone. */
  solid: Map<number, string>;
  dashed: Map<number, string>;
  strong: Map<number, string>;
  strongDashed: Map<number, string>;
  dots: Map<number, string>;
  rings: Map<number, string>;
  diamonds: Map<number, string>;
  live: Map<number, string>;
  crosses: string;
}

export interface Measures {
  row: number;
  lane: number;
  edge: number;
}

export const laneX = (measures: Measures, lane: number): number => measures.edge + lane * measures.lane;

/** For each piece the piece that its lane left, or -1: what passes beside it leads there. */
export function forksOf(layout: Layout): Int32Array {
  const forks = new Int32Array(layout.size).fill(-1);
  for (const piece of layout.walk) {
    const parent = layout.parent[piece]!;
    if (parent >= 0) forks[piece] = layout.main[parent] === piece ? forks[parent]! : parent;
  }
  return forks;
}

export interface LaneScene {
  forest: Forest;
  layout: Layout;
  rows: Rows;
  forks: Int32Array;
  tones: readonly number[];
  /** How deep the strong thread goes in each segment. */
  thread: ReadonlyMap<number, number>;
  glyphs: ReadonlyMap<number, Glyph>;
  running: ReadonlySet<number>;
  from: number;
  to: number;
}

export function drawLanes(scene: LaneScene, measures: Measures): Strokes {
  const { layout, rows, forest } = scene;
  const strokes: Strokes = {
    solid: new Map(),
    dashed: new Map(),
    strong: new Map(),
    strongDashed: new Map(),
    dots: new Map(),
    rings: new Map(),
    diamonds: new Map(),
    live: new Map(),
    crosses: "",
  };
  const tone = (piece: number): number => scene.tones[forest.agent[layout.segment[piece]!]!] ?? 0;
  const isOn = (segment: number, depth: number): boolean => depth <= (scene.thread.get(segment) ?? -1);
  /** Lines that still grow downwards, by lane. */
  const open: (
    | { key: number; y0: number; y1: number; tone: number; dashed: boolean; strong: boolean }
    | undefined
  )[] = [];
  const close = (lane: number): void => {
    const line = open[lane];
    if (!line) return;
    const x = laneX(measures, lane);
    put(line.dashed, line.strong, line.tone, `M${x} ${line.y0}V${line.y1}`);
    open[lane] = undefined;
  };
  const put = (dashed: boolean, strong: boolean, at: number, d: string): void => {
    const group = strong
      ? dashed
        ? strokes.strongDashed
        : strokes.strong
      : dashed
        ? strokes.dashed
        : strokes.solid;
    group.set(at, (group.get(at) ?? "") + d);
  };
  const extend = (
    lane: number,
    key: number,
    y0: number,
    y1: number,
    at: number,
    dashed: boolean,
    strong: boolean,
  ): void => {
    const line = open[lane];
    if (line && line.key === key && line.strong === strong && line.dashed === dashed && line.y1 === y0) {
      line.y1 = y1;
      return;
    }
    close(lane);
    open[lane] = { key, y0, y1, tone: at, dashed, strong };
  };

  for (let index = scene.from; index < scene.to; index++) {
    const row = rows.at(index);
    const top = (index - scene.from) * measures.row;
    const middle = top + measures.row / 2;
    const bottom = top + measures.row;
    if (row.kind === "tree") {
      for (let lane = 0; lane < open.length; lane++) close(lane);
      continue;
    }
    for (let lane = row.lane + 1; lane < open.length; lane++) close(lane);
    for (let fork = scene.forks[row.piece]!; fork >= 0; fork = scene.forks[fork]!) {
      const child = layout.main[fork]!;
      const strong = isOn(layout.segment[child]!, layout.low[child]!);
      extend(layout.lane[fork]!, child, top, bottom, tone(child), layout.spawn[child] === 1, strong);
    }
    drawOwn(row, top, middle, bottom);
  }
  for (let lane = 0; lane < open.length; lane++) close(lane);
  return strokes;

  function drawOwn(row: GraphRow, top: number, middle: number, bottom: number): void {
    const { piece, lane, segment, depth } = row;
    const x = laneX(measures, lane);
    const last = row.oldestPiece;
    const on = isOn(segment, depth);
    const isTip = depth === layout.high[piece]!;
    const above = isTip ? layout.main[piece]! : piece;
    if (above >= 0) {
      const strong = isTip ? isOn(layout.segment[above]!, layout.low[above]!) : isOn(segment, depth + 1);
      const isDashed = row.kind === "run" || (isTip && layout.spawn[above] === 1);
      extend(lane, above, top, middle, tone(above), isDashed, strong);
    }
    const parent = layout.parent[last]!;
    const isFirst = row.oldest.depth === layout.low[last]!;
    if (!isFirst || (parent >= 0 && layout.main[parent] === last)) {
      const isDashed = row.spawn || row.kind === "run";
      extend(lane, last, middle, bottom, tone(last), isDashed, isOn(row.oldest.segment, row.oldest.depth));
    } else {
      close(lane);
      if (row.startsBranch) {
        const to = laneX(measures, lane - 1);
        const d = `M${x} ${middle}C${x} ${bottom} ${to} ${middle + 4} ${to} ${bottom}`;
        put(row.spawn, isOn(row.oldest.segment, row.oldest.depth), tone(last), d);
      }
    }
    if (row.kind === "run") return;
    const glyph = scene.glyphs.get(placeKey(segment, depth)) ?? (row.children === 0 ? "head" : "turn");
    const at = tone(piece);
    const add = (group: Map<number, string>, d: string): void => {
      group.set(at, (group.get(at) ?? "") + d);
    };
    if (glyph === "failed") strokes.crosses += `M${x - 3.6} ${middle - 3.6}l7.2 7.2m0 -7.2l-7.2 7.2`;
    else if (glyph === "compaction")
      add(strokes.diamonds, `M${x} ${middle - 5.6}l5.6 5.6l-5.6 5.6l-5.6 -5.6z`);
    else if (glyph === "head") add(strokes.rings, circle(x, middle, 4.4));
    else add(strokes.dots, circle(x, middle, on ? 4.6 : 3.9));
    if (scene.running.has(segment) && depth === forest.high[segment]) add(strokes.live, circle(x, middle, 8));
  }
}

const circle = (x: number, y: number, r: number): string =>
  `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;

/** What the shape of a turn's mark says: failures before compactions before heads. */
export function glyphsOf(forest: Forest): Map<number, Glyph> {
  const glyphs = new Map<number, Glyph>();
  for (const session of forest.sessions) {
    if (session.segment >= 0) glyphs.set(placeKey(session.segment, session.depth), "head");
  }
  for (const [segment, marks] of forest.marksAt) {
    for (const mark of marks)
      if (mark.kind === "compaction") glyphs.set(placeKey(segment, mark.depth), "compaction");
    for (const mark of marks) {
      if (mark.kind === "failed" || mark.kind === "stopped")
        glyphs.set(placeKey(segment, mark.depth), "failed");
    }
  }
  return glyphs;
}
