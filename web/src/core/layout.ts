/**
 * Lanes and rows of a forest: the rows of `turntree log --graph`, for any number of turns.
 *
 * Rows are a depth-first walk in which every turn's largest child comes last. That child keeps
 * its parent's lane; every other child opens the next lane to the right. So a lane is at most
 * log2(turns), and at a row in lane n the lanes 0 to n-1 pass through: any window of rows can be
 * drawn without its neighbours.
 *
 * The walk goes over pieces: parts of segments between two branching turns. Nothing here has an
 * entry for each turn.
 */
import { type Forest, type Place, placeKey, placeOfKey } from "./forest.ts";

/** A run of fewer turns takes no more space than the row that would replace it. */
export const RUN_TURNS_MIN = 2;

export interface Layout {
  /** How many pieces there are; the columns below have one entry for each. */
  readonly size: number;
  readonly segment: Int32Array;
  readonly low: Int32Array;
  readonly high: Int32Array;
  /** The piece it is drawn under, whose newest turn is its parent, or -1. */
  readonly parent: Int32Array;
  readonly children: Int32Array;
  /** The child that keeps the lane, or -1. */
  readonly main: Int32Array;
  readonly lane: Uint8Array;
  /** 1 where its first turn is a subagent's. */
  readonly spawn: Uint8Array;
  /** The first piece of its tree. */
  readonly root: Int32Array;
  /** How many turns stand on it, with itself. */
  readonly turns: Float64Array;
  /** Pieces from the bottom row to the top row. */
  readonly walk: Int32Array;
  readonly lanes: number;
  readonly trees: number;
  pieceAt(segment: number, depth: number): number;
  childrenOf(piece: number): readonly number[];
}

/** Lay out a forest; the threads of `pinned` turns stay straight, the first of them in lane 0. */
export function layOut(forest: Forest, pinned: readonly Place[] = []): Layout {
  const cuts = cutsOf(forest);
  const firstPiece = new Int32Array(forest.size + 1);
  for (let s = 0; s < forest.size; s++) firstPiece[s + 1] = firstPiece[s]! + (cuts.get(s)?.length ?? 0) + 1;
  const size = firstPiece[forest.size]!;
  const segment = new Int32Array(size);
  const low = new Int32Array(size);
  const high = new Int32Array(size);
  for (let s = 0; s < forest.size; s++) {
    let from = forest.low[s]!;
    let piece = firstPiece[s]!;
    for (const cut of [...(cuts.get(s) ?? []), forest.high[s]!]) {
      segment[piece] = s;
      low[piece] = from;
      high[piece++] = cut;
      from = cut + 1;
    }
  }
  const pieceAt = (s: number, depth: number): number => {
    let a = firstPiece[s]!;
    let b = firstPiece[s + 1]! - 1;
    while (a < b) {
      const middle = (a + b) >> 1;
      if (high[middle]! < depth) a = middle + 1;
      else b = middle;
    }
    return a;
  };

  const parent = new Int32Array(size).fill(-1);
  const spawn = new Uint8Array(size);
  const children = new Int32Array(size);
  for (let piece = 0; piece < size; piece++) {
    const s = segment[piece]!;
    const link = forest.spawned.get(placeKey(s, low[piece]!));
    if (link) {
      spawn[piece] = 1;
      parent[piece] = pieceAt(link.segment, link.depth);
    } else if (piece > firstPiece[s]!) parent[piece] = piece - 1;
    else if (forest.parent[s]! >= 0) parent[piece] = pieceAt(forest.parent[s]!, forest.parentDepth[s]!);
    if (parent[piece]! >= 0) children[parent[piece]!]!++;
  }

  // Children in the order of their ids: a piece's are childList[childStart[piece] …].
  const childStart = new Int32Array(size + 1);
  for (let piece = 0; piece < size; piece++) childStart[piece + 1] = childStart[piece]! + children[piece]!;
  const fill = childStart.slice();
  const childList = new Int32Array(childStart[size]!);
  const roots: number[] = [];
  for (let piece = 0; piece < size; piece++) {
    if (parent[piece]! < 0) roots.push(piece);
    else childList[fill[parent[piece]!]!++] = piece;
  }
  // A turn that continues a segment has no id here unless it is told; it was there first.
  const idOf = (piece: number): string => {
    const s = segment[piece]!;
    if (piece === firstPiece[s]) return forest.firstTurn[s] ?? "";
    return forest.turningIds.get(placeKey(s, low[piece]!)) ?? "";
  };
  for (let piece = 0; piece < size; piece++) {
    if (children[piece]! < 2) continue;
    const list = Array.from(childList.subarray(childStart[piece]!, childStart[piece + 1]!));
    list.sort((a, b) => compareIds(idOf(a), idOf(b)));
    childList.set(list, childStart[piece]!);
  }

  const order = new Int32Array(size);
  const root = new Int32Array(size).fill(-1);
  let known = 0;
  for (const one of roots) {
    root[one] = one;
    order[known++] = one;
  }
  for (let at = 0; at < known; at++) {
    const piece = order[at]!;
    for (let i = childStart[piece]!; i < childStart[piece + 1]!; i++) {
      const child = childList[i]!;
      root[child] = root[piece]!;
      order[known++] = child;
    }
  }
  const turns = new Float64Array(size);
  const newest: string[] = new Array<string>(size);
  for (let at = known - 1; at >= 0; at--) {
    const piece = order[at]!;
    turns[piece]! += high[piece]! - low[piece]! + 1;
    const s = segment[piece]!;
    const first = idOf(piece);
    const last = high[piece] === forest.high[s] ? forest.lastTurn[s]! : "";
    for (const id of [first, last]) {
      if (newest[piece] === undefined || id > newest[piece]!) newest[piece] = id;
    }
    const under = parent[piece]!;
    if (under >= 0) {
      turns[under]! += turns[piece]!;
      if (newest[under] === undefined || newest[piece]! > newest[under]!) newest[under] = newest[piece]!;
    }
  }

  const main = new Int32Array(size).fill(-1);
  for (let piece = 0; piece < size; piece++) {
    for (let i = childStart[piece]!; i < childStart[piece + 1]!; i++) {
      const child = childList[i]!;
      const best = main[piece]!;
      const isBetter =
        best < 0 ||
        spawn[child]! < spawn[best]! ||
        (spawn[child] === spawn[best] && turns[child]! > turns[best]!);
      if (isBetter) main[piece] = child;
    }
  }
  const claimed = new Set<number>();
  for (const place of pinned) {
    let child = pieceAt(place.segment, place.depth);
    for (let under = parent[child]!; under >= 0 && !claimed.has(under); under = parent[child]!) {
      claimed.add(under);
      main[under] = child;
      child = under;
    }
  }

  roots.sort((a, b) => compareIds(newest[a]!, newest[b]!));
  const lane = new Uint8Array(size);
  const walk = new Int32Array(known);
  let walked = 0;
  let lanes = 0;
  const stack: number[] = [];
  for (const one of roots) {
    stack.push(one);
    while (stack.length) {
      const piece = stack.pop()!;
      walk[walked++] = piece;
      if (lane[piece]! >= lanes) lanes = lane[piece]! + 1;
      const heavy = main[piece]!;
      if (heavy < 0) continue;
      lane[heavy] = lane[piece]!;
      stack.push(heavy);
      for (let i = childStart[piece + 1]! - 1; i >= childStart[piece]!; i--) {
        const child = childList[i]!;
        if (child === heavy) continue;
        lane[child] = Math.min(255, lane[piece]! + 1);
        stack.push(child);
      }
    }
  }
  return {
    size,
    segment,
    low,
    high,
    parent,
    children,
    main,
    lane,
    spawn,
    root,
    turns,
    walk,
    lanes,
    trees: roots.length,
    pieceAt,
    childrenOf: (piece) => Array.from(childList.subarray(childStart[piece]!, childStart[piece + 1]!)),
  };
}

/** Depths after which each segment is cut: its turns that branch or spawn, except the last one. */
function cutsOf(forest: Forest): Map<number, number[]> {
  const found = new Map<number, Set<number>>();
  const cut = (segment: number, depth: number): void => {
    if (depth < forest.low[segment]! || depth >= forest.high[segment]!) return;
    const depths = found.get(segment);
    if (depths) depths.add(depth);
    else found.set(segment, new Set([depth]));
  };
  for (let s = 0; s < forest.size; s++) {
    if (forest.parent[s]! >= 0) cut(forest.parent[s]!, forest.parentDepth[s]!);
  }
  for (const [key, spawn] of forest.spawned) {
    cut(spawn.segment, spawn.depth);
    const first = placeOfKey(key);
    cut(first.segment, first.depth - 1);
  }
  const cuts = new Map<number, number[]>();
  for (const [segment, depths] of found)
    cuts.set(
      segment,
      [...depths].sort((a, b) => a - b),
    );
  return cuts;
}

const compareIds = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

export type RowKind = "turn" | "run" | "tree";

/** One row of the picture. */
export interface GraphRow {
  kind: RowKind;
  row: number;
  piece: number;
  segment: number;
  /** Of a run: its newest turn. */
  depth: number;
  lane: number;
  children: number;
  startsBranch: boolean;
  spawn: boolean;
  /** Of a run: how many turns it holds; of a heading: how many its tree has. */
  turns: number;
  /** Of a run: its oldest turn; else the turn itself. */
  oldest: Place;
  oldestPiece: number;
}

export interface RowOptions {
  /** Draw every unbranched quiet run as one row. */
  folded: boolean;
  /** Runs that stay open, by the key of their newest turn. */
  open?: ReadonlySet<number>;
  /** Which trees are shown, by the piece of their root. */
  keeps?: (root: number) => boolean;
  /** Whether each tree has a heading. */
  headings?: boolean;
}

const TURNS = 0;
const RUN = 1;
const TREE = 2;

/** Rows from the newest to the oldest. Neighbouring single rows of one piece share an entry. */
export interface Rows {
  readonly length: number;
  readonly trees: number;
  readonly turns: number;
  at(row: number): GraphRow;
  /** The row that shows a turn, or -1 if its tree is hidden. */
  rowOf(segment: number, depth: number): number;
  /** The opened run that a turn belongs to, or null. */
  openRun(segment: number, depth: number): number | null;
}

export function rowsOf(forest: Forest, layout: Layout, options: RowOptions): Rows {
  const { folded, open, keeps, headings = true } = options;
  const type: number[] = [];
  const piece: number[] = [];
  const high: number[] = [];
  const count: number[] = [];
  const oldPiece: number[] = [];
  const oldDepth: number[] = [];
  const start: number[] = [];
  const firstEntry = new Int32Array(layout.size).fill(-1);
  const lastEntry = new Int32Array(layout.size).fill(-1);
  const opened: { key: number; parts: [number, number, number][] }[] = [];
  let rows = 0;
  let trees = 0;
  let turns = 0;

  const touch = (p: number): void => {
    const entry = type.length - 1;
    if (firstEntry[p]! < 0) firstEntry[p] = entry;
    lastEntry[p] = entry;
  };
  const addTurns = (p: number, from: number, to: number): void => {
    const last = type.length - 1;
    const joins =
      last >= 0 && type[last] === TURNS && piece[last] === p && high[last]! - count[last]! === from;
    const number = from - to + 1;
    if (joins) count[last]! += number;
    else {
      type.push(TURNS);
      piece.push(p);
      high.push(from);
      count.push(number);
      oldPiece.push(p);
      oldDepth.push(to);
      start.push(rows);
      touch(p);
    }
    oldDepth[type.length - 1] = to;
    rows += number;
  };

  let parts: [number, number, number][] = [];
  let quiet = 0;
  const addQuiet = (p: number, from: number, to: number): void => {
    parts.push([p, from, to]);
    quiet += from - to + 1;
  };
  const flush = (): void => {
    if (quiet === 0) return;
    const [p, from] = parts[0]!;
    const key = placeKey(layout.segment[p]!, from);
    const isOpen = open?.has(key) ?? false;
    if (quiet < RUN_TURNS_MIN || isOpen) {
      if (isOpen) opened.push({ key, parts });
      for (const [q, a, b] of parts) addTurns(q, a, b);
    } else {
      const last = parts[parts.length - 1]!;
      type.push(RUN);
      piece.push(p);
      high.push(from);
      count.push(quiet);
      oldPiece.push(last[0]);
      oldDepth.push(last[2]);
      start.push(rows++);
      for (const [q] of parts) touch(q);
    }
    parts = [];
    quiet = 0;
  };

  const stays = folded ? staysOf(forest) : null;
  let tree = -1;
  for (let i = layout.walk.length - 1; i >= 0; i--) {
    const p = layout.walk[i]!;
    const root = layout.root[p]!;
    if (keeps && !keeps(root)) continue;
    if (root !== tree) {
      flush();
      tree = root;
      trees++;
      turns += layout.turns[root]!;
      if (headings) {
        type.push(TREE);
        piece.push(root);
        high.push(layout.low[root]!);
        count.push(layout.turns[root]!);
        oldPiece.push(root);
        oldDepth.push(layout.low[root]!);
        start.push(rows++);
      }
    }
    const top = layout.high[p]!;
    const bottom = layout.low[p]!;
    if (!stays) {
      addTurns(p, top, bottom);
      continue;
    }
    let from = top;
    const stay = (depth: number): void => {
      if (from > depth) addQuiet(p, from, depth + 1);
      flush();
      addTurns(p, depth, depth);
      from = depth - 1;
    };
    if (layout.children[p] !== 1) stay(top);
    const list = stays.get(layout.segment[p]!);
    if (list) {
      for (let k = upTo(list, from); k >= 0 && list[k]! >= bottom; k--) stay(list[k]!);
    }
    if (from >= bottom && (layout.parent[p]! < 0 || layout.spawn[p])) stay(bottom);
    if (from >= bottom) addQuiet(p, from, bottom);
  }
  flush();

  const starts = Int32Array.from(start);
  const entryAt = (row: number): number => {
    let a = 0;
    let b = starts.length - 1;
    while (a < b) {
      const middle = (a + b + 1) >> 1;
      if (starts[middle]! <= row) a = middle;
      else b = middle - 1;
    }
    return a;
  };
  const entryOf = (segment: number, depth: number): number => {
    const p = layout.pieceAt(segment, depth);
    let a = firstEntry[p]!;
    let b = lastEntry[p]!;
    if (a < 0) return -1;
    while (a < b) {
      const middle = (a + b) >> 1;
      const reach = oldPiece[middle] === p ? oldDepth[middle]! : layout.low[p]!;
      if (reach <= depth) b = middle;
      else a = middle + 1;
    }
    return a;
  };
  return {
    length: rows,
    trees,
    turns,
    at(row) {
      const entry = entryAt(row);
      const p = piece[entry]!;
      const kind = type[entry] === TURNS ? "turn" : type[entry] === RUN ? "run" : "tree";
      const depth = kind === "turn" ? high[entry]! - (row - starts[entry]!) : high[entry]!;
      const last = kind === "run" ? oldPiece[entry]! : p;
      const lowest = kind === "run" ? oldDepth[entry]! : depth;
      const isFirst = kind !== "tree" && lowest === layout.low[last]!;
      const under = layout.parent[last]!;
      return {
        kind,
        row,
        piece: p,
        segment: layout.segment[p]!,
        depth,
        lane: layout.lane[p]!,
        children: kind === "turn" && depth === layout.high[p] ? layout.children[p]! : 1,
        startsBranch: isFirst && under >= 0 && layout.main[under] !== last,
        spawn: isFirst && layout.spawn[last] === 1,
        turns: kind === "turn" ? 1 : count[entry]!,
        oldest: { segment: layout.segment[last]!, depth: lowest },
        oldestPiece: last,
      };
    },
    rowOf(segment, depth) {
      const entry = entryOf(segment, depth);
      if (entry < 0) return -1;
      return type[entry] === TURNS ? starts[entry]! + high[entry]! - depth : starts[entry]!;
    },
    openRun(segment, depth) {
      const p = layout.pieceAt(segment, depth);
      const run = opened.find((one) =>
        one.parts.some(([q, from, to]) => q === p && depth <= from && depth >= to),
      );
      return run?.key ?? null;
    },
  };
}

/** The rows without headings, from the newest to the oldest, for comparison with the terminal. */
export function* lines(rows: Rows): Generator<GraphRow> {
  for (let row = 0; row < rows.length; row++) {
    const line = rows.at(row);
    if (line.kind !== "tree") yield line;
  }
}

/** Depths that are never folded, by segment, ascending: heads, tags, compactions, failures. */
function staysOf(forest: Forest): Map<number, number[]> {
  const found = new Map<number, Set<number>>();
  const add = (segment: number, depth: number): void => {
    const depths = found.get(segment);
    if (depths) depths.add(depth);
    else found.set(segment, new Set([depth]));
  };
  for (const session of forest.sessions) if (session.segment >= 0) add(session.segment, session.depth);
  for (const [segment, marks] of forest.marksAt) {
    for (const mark of marks) if (mark.kind !== "files") add(segment, mark.depth);
  }
  const stays = new Map<number, number[]>();
  for (const [segment, depths] of found)
    stays.set(
      segment,
      [...depths].sort((a, b) => a - b),
    );
  return stays;
}

/** The last place in a sorted list whose value is at most `limit`, or -1. */
function upTo(list: readonly number[], limit: number): number {
  let a = -1;
  let b = list.length - 1;
  while (a < b) {
    const middle = (a + b + 1) >> 1;
    if (list[middle]! <= limit) a = middle;
    else b = middle - 1;
  }
  return a;
}
