/** Draws the days as bars, a colour for each agent. */
import { type Forest, type Place, timeOf } from "../core/forest.ts";
import type { Inks } from "./inks.ts";

export interface Days {
  /** Midnight of the first day, in milliseconds, and how many days there are. */
  startMs: number;
  count: number;
  /** Turns by day * agents + agent. */
  cells: Uint32Array;
  agents: number;
  most: number;
}

const DAY = 86_400_000;
/** A strip of fewer days would be a few wide blocks. */
const DAYS_MIN = 28;
const SANS = '"IBM Plex Sans", system-ui, sans-serif';

/** Days from the answer about activity: `days` are dates, `cells` are [day, agent, turns]. */
export function daysOf(
  activity: {
    days: readonly string[];
    agents: readonly string[];
    cells: readonly (readonly [number, number, number])[];
  },
  agents: readonly string[],
): Days | null {
  if (activity.days.length === 0) return null;
  const places = activity.days.map((day) => Date.parse(`${day}T00:00:00`));
  const lastMs = places.reduce((a, b) => Math.max(a, b));
  const first = new Date(lastMs);
  first.setDate(first.getDate() - DAYS_MIN + 1);
  const startMs = Math.min(
    first.getTime(),
    places.reduce((a, b) => Math.min(a, b)),
  );
  const count = Math.round((lastMs - startMs) / DAY) + 1;
  const width = Math.max(1, agents.length);
  const cells = new Uint32Array(count * width);
  const agentOf = activity.agents.map((agent) => Math.max(0, agents.indexOf(agent)));
  const sums = new Uint32Array(count);
  let most = 1;
  for (const [day, agent, turns] of activity.cells) {
    const at = Math.round((places[day]! - startMs) / DAY);
    cells[at * width + agentOf[agent]!]! += turns;
    sums[at]! += turns;
    if (sums[at]! > most) most = sums[at]!;
  }
  return { startMs, count, cells, agents: width, most };
}

export interface StripScene {
  days: Days;
  forest: Forest;
  tones: readonly number[];
  inks: Inks;
  width: number;
  height: number;
  lit: readonly Place[];
  isLit: boolean;
  words: boolean;
}

export const stripX = (days: Days, width: number, ms: number): number =>
  ((ms - days.startMs) / (days.count * DAY)) * width;
export const stripMs = (days: Days, share: number): number => days.startMs + share * days.count * DAY;

export function drawStrip(g: CanvasRenderingContext2D, scene: StripScene): void {
  const { days, inks, width, height, tones } = scene;
  const foot = scene.words ? 17 : 2;
  g.fillStyle = inks.paper;
  g.fillRect(0, 0, width, height);
  // A few days are no wide blocks: a bar is at most 18 pixels.
  const step = width / days.count;
  const bar = Math.min(18, Math.max(1, step - (step > 4 ? 1.5 : step > 2 ? 0.6 : 0)));
  g.fillStyle = inks.rule;
  g.fillRect(0, height - foot, width, 1);
  g.globalAlpha = scene.isLit ? 0.24 : 0.94;
  const tall = height - foot - 4;
  for (let day = 0; day < days.count; day++) {
    let y = height - foot;
    for (let agent = 0; agent < days.agents; agent++) {
      const turns = days.cells[day * days.agents + agent]!;
      if (!turns) continue;
      const rise = Math.max(1, (turns / days.most) * tall);
      g.fillStyle = inks.tones[tones[agent] ?? 0]!;
      g.fillRect(day * step + (step - bar) / 2, y - rise, bar, rise - (rise > 3 ? 0.6 : 0));
      y -= rise;
    }
  }
  g.globalAlpha = 1;
  if (scene.lit.length) {
    g.fillStyle = inks.glow;
    const taken = new Set<number>();
    for (const { segment, depth } of scene.lit) {
      const x = Math.round(stripX(days, width, timeOf(scene.forest, segment, depth)));
      if (taken.has(x)) continue;
      taken.add(x);
      g.fillRect(x - 1, 2, 2.4, height - foot - 2);
    }
  }
  if (scene.words) drawMonths(g, scene, height);
}

const monthName = new Intl.DateTimeFormat("en", { month: "short" });
const dayName = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });

function drawMonths(g: CanvasRenderingContext2D, scene: StripScene, height: number): void {
  const { days, width, inks } = scene;
  g.fillStyle = inks.ink3;
  g.font = `400 11px ${SANS}`;
  g.textBaseline = "alphabetic";
  const isShort = days.count < 45;
  let end = Number.NEGATIVE_INFINITY;
  const date = new Date(days.startMs);
  for (let day = 0; day < days.count; day++) {
    const x = (day / days.count) * width;
    const isMonth = date.getDate() === 1;
    const isTold = isShort ? true : isMonth || (day === 0 && date.getDate() < 20);
    if (isTold && x >= end && x < width - 30) {
      const isYear = isMonth && date.getMonth() === 0;
      const text = isShort
        ? dayName.format(date)
        : isYear
          ? String(date.getFullYear())
          : monthName.format(date);
      g.fillText(text, x + 1, height - 3);
      end = x + g.measureText(text).width + 18;
    }
    date.setDate(date.getDate() + 1);
  }
}
