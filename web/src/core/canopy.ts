/**
 * Where the strands of the canopy run: one strand a segment, a band a project.
 *
 * The axis is busy time. What lies between two turns counts at least 30 seconds and at most 12
 * minutes, not by the clock: nights take no room, and an hour with five agents takes more
 * than an hour with one.
 */
import { endOf, type Forest, parentOf, placeKey, timeOf } from "./forest.ts";

export const GAP_MIN = 30;
export const GAP_MAX = 12 * 60;
/** Beyond this many turns the axis keeps only every so-manieth of them, and both ends of gaps. */
const KNOTS_MAX = 120_000;
/** Busy seconds that a lane stays taken after its strand, so that neighbours do not touch. */
const REST = 420;

/** Goes between the clock (milliseconds) and busy time (seconds from the first turn). */
export interface Axis {
  readonly end: number;
  toBusy(ms: number): number;
  toClock(busy: number): number;
}

export function axisOf(times: Float64Array): Axis {
  const count = times.length;
  if (count === 0) return { end: GAP_MAX, toBusy: () => 0, toClock: () => 0 };
  const step = Math.max(1, Math.ceil(count / KNOTS_MAX));
  const clock: number[] = [times[0]!];
  const busy: number[] = [0];
  let at = 0;
  for (let i = 1; i < count; i++) {
    const gap = (times[i]! - times[i - 1]!) / 1000;
    const isGap = gap > GAP_MAX;
    if (isGap && clock[clock.length - 1] !== times[i - 1]) {
      clock.push(times[i - 1]!);
      busy.push(at);
    }
    at += Math.min(GAP_MAX, Math.max(GAP_MIN, gap));
    if (isGap || i % step === 0 || i === count - 1) {
      if (clock[clock.length - 1] === times[i]) busy[busy.length - 1] = at;
      else {
        clock.push(times[i]!);
        busy.push(at);
      }
    }
  }
  const clocks = Float64Array.from(clock);
  const busies = Float64Array.from(busy);
  const last = clocks.length - 1;
  return {
    end: at + GAP_MAX,
    toBusy(ms) {
      if (ms <= clocks[0]!) return 0;
      const i = before(clocks, ms);
      if (i === last) return busies[i]! + Math.min(GAP_MAX, (ms - clocks[i]!) / 1000);
      return busies[i]! + ((busies[i + 1]! - busies[i]!) * (ms - clocks[i]!)) / (clocks[i + 1]! - clocks[i]!);
    },
    toClock(value) {
      if (value <= 0) return clocks[0]!;
      const i = before(busies, value);
      if (i === last) return clocks[i]! + (value - busies[i]!) * 1000;
      const width = busies[i + 1]! - busies[i]!;
      return clocks[i]! + (width > 0 ? ((clocks[i + 1]! - clocks[i]!) * (value - busies[i]!)) / width : 0);
    },
  };
}

/** The last place whose value is at most `x`. */
function before(values: Float64Array, x: number): number {
  let a = 0;
  let b = values.length - 1;
  while (a < b) {
    const middle = (a + b + 1) >> 1;
    if (values[middle]! <= x) a = middle;
    else b = middle - 1;
  }
  return a;
}

export interface Band {
  project: number;
  lanes: number;
  turns: number;
}

export interface Canopy {
  readonly axis: Axis;
  /** One entry a segment. */
  readonly from: Float64Array;
  readonly to: Float64Array;
  readonly band: Int32Array;
  readonly lane: Int32Array;
  /** 1 for subagents and what forks from them. */
  readonly thin: Uint8Array;
  /** The turn a strand leaves, in busy time, or -1. */
  readonly leaves: Float64Array;
  /** The segment it leaves, or -1. */
  readonly source: Int32Array;
  /** Busy time at the end of the last strand that stands on this one. */
  readonly bands: readonly Band[];
  /** Segments in the order in which they begin. */
  readonly order: Int32Array;
  /** Busy time of a turn, between those of its segment. */
  at(segment: number, depth: number): number;
}

export function canopyOf(forest: Forest): Canopy {
  const n = forest.size;
  let turns = 0;
  for (let s = 0; s < n; s++) turns += forest.high[s]! - forest.low[s]! + 1;
  const times = new Float64Array(turns);
  let filled = 0;
  for (let s = 0; s < n; s++) {
    const low = forest.low[s]!;
    const count = forest.high[s]! - low + 1;
    if (forest.pausesAt.has(s)) for (let k = 0; k < count; k++) times[filled++] = timeOf(forest, s, low + k);
    else {
      const begin = forest.firstMs[s]!;
      const step = (forest.lastMs[s]! - begin) / count;
      for (let k = 0; k < count; k++) times[filled++] = begin + step * k;
    }
  }
  times.sort();
  const axis = axisOf(times);

  const from = new Float64Array(n);
  const to = new Float64Array(n);
  const thin = new Uint8Array(n);
  const leaves = new Float64Array(n).fill(-1);
  const source = new Int32Array(n).fill(-1);
  const order = new Int32Array(n);
  for (let s = 0; s < n; s++) {
    order[s] = s;
    from[s] = axis.toBusy(forest.firstMs[s]!);
    to[s] = Math.max(from[s]! + GAP_MIN / 2, axis.toBusy(forest.lastMs[s]!));
    const spawn = forest.spawned.get(placeKey(s, forest.low[s]!));
    const parent = parentOf(forest, { segment: s, depth: forest.low[s]! });
    if (parent) {
      source[s] = parent.segment;
      leaves[s] = axis.toBusy(
        spawn ? timeOf(forest, parent.segment, parent.depth) : endOf(forest, parent.segment, parent.depth),
      );
    }
    thin[s] = spawn ? 1 : parent && parent.segment < s ? thin[parent.segment]! : 0;
  }
  order.sort((a, b) => from[a]! - from[b]! || a - b);

  const bandOfProject = new Map<number, number>();
  const bands: Band[] = [];
  const band = new Int32Array(n);
  for (let s = 0; s < n; s++) {
    const project = forest.project[s]!;
    let at = bandOfProject.get(project);
    if (at === undefined) {
      at = bands.length;
      bandOfProject.set(project, at);
      bands.push({ project, lanes: 0, turns: 0 });
    }
    band[s] = at;
    bands[at]!.turns += forest.high[s]! - forest.low[s]! + 1;
  }
  const lane = new Int32Array(n).fill(-1);
  const free: number[][] = bands.map(() => []);
  for (const s of order) {
    const ends = free[band[s]!]!;
    const under = source[s]!;
    const near = under >= 0 && band[under] === band[s] && lane[under]! >= 0;
    // A branch stands below the strand that it leaves, and its lane is taken from there on.
    let at = near ? lane[under]! + 1 : 0;
    const begin = near ? Math.min(from[s]!, leaves[s]!) : from[s]!;
    while (at < ends.length && ends[at]! > begin) at++;
    while (ends.length < at) ends.push(Number.NEGATIVE_INFINITY);
    ends[at] = to[s]! + REST;
    lane[s] = at;
    const of = bands[band[s]!]!;
    if (at >= of.lanes) of.lanes = at + 1;
  }
  // Largest project first; the band of those without a project last.
  const rank = bands
    .map((_, i) => i)
    .sort(
      (a, b) =>
        Number(bands[a]!.project < 0) - Number(bands[b]!.project < 0) ||
        bands[b]!.turns - bands[a]!.turns ||
        a - b,
    );
  const place = new Int32Array(bands.length);
  rank.forEach((old, now) => {
    place[old] = now;
  });
  for (let s = 0; s < n; s++) band[s] = place[band[s]!]!;
  return {
    axis,
    from,
    to,
    band,
    lane,
    thin,
    leaves,
    source,
    bands: rank.map((i) => bands[i]!),
    order,
    at(segment, depth) {
      const busy = axis.toBusy(timeOf(forest, segment, depth));
      return Math.min(to[segment]!, Math.max(from[segment]!, busy));
    },
  };
}

export interface LaneHeights {
  wide: number;
  thin: number;
  head: number;
  foot: number;
}

export interface Placement {
  /** Where each used lane is drawn, by band * 4096 + lane. */
  readonly y: ReadonlyMap<number, number>;
  readonly bands: readonly { band: number; y: number; height: number }[];
  readonly height: number;
}

export const laneKey = (band: number, lane: number): number => band * 4096 + lane;

/** Heights of the strands between two busy times; lanes that none of them uses take no room. */
export function placed(canopy: Canopy, a: number, b: number, heights: LaneHeights): Placement {
  const used = new Map<number, number>();
  for (let s = 0; s < canopy.from.length; s++) {
    if (canopy.from[s]! > b || canopy.to[s]! < a) continue;
    const key = laneKey(canopy.band[s]!, canopy.lane[s]!);
    const thin = used.get(key);
    used.set(key, thin === undefined ? canopy.thin[s]! : thin & canopy.thin[s]!);
  }
  const y = new Map<number, number>();
  const bands: { band: number; y: number; height: number }[] = [];
  let top = 0;
  canopy.bands.forEach((one, band) => {
    let height = heights.head;
    let any = false;
    for (let lane = 0; lane < one.lanes; lane++) {
      const thin = used.get(laneKey(band, lane));
      if (thin === undefined) continue;
      any = true;
      const tall = thin ? heights.thin : heights.wide;
      height += tall;
      y.set(laneKey(band, lane), top + height - (thin ? 4 : 6));
    }
    if (!any) return;
    height += heights.foot;
    bands.push({ band, y: top, height });
    top += height;
  });
  return { y, bands, height: top };
}

/** Midnights between two moments in the viewer's time zone, in milliseconds. */
export function midnights(fromMs: number, toMs: number, max = 4000): number[] {
  const day = new Date(fromMs);
  day.setHours(0, 0, 0, 0);
  const found: number[] = [];
  while (day.getTime() <= toMs && found.length < max) {
    if (day.getTime() >= fromMs) found.push(day.getTime());
    day.setDate(day.getDate() + 1);
  }
  return found;
}
