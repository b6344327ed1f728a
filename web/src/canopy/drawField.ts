/** Draws the strands of the canopy. Everything it needs is in the scene; it keeps nothing. */
import { type Canopy, laneKey, midnights, type Placement } from "../core/canopy.ts";
import { type Forest, type Place, titleOfSegment } from "../core/forest.ts";
import { short } from "../core/format.ts";
import type { Inks } from "./inks.ts";

export interface View {
  /** Busy times at both edges. */
  a: number;
  b: number;
  /** How far it is scrolled down. */
  y: number;
}

export interface Scene {
  forest: Forest;
  canopy: Canopy;
  view: View;
  width: number;
  height: number;
  /** The width of the column with the names of projects. */
  left: number;
  /** Where lanes and bands are now, on the way to their places. */
  laneY: ReadonlyMap<number, number>;
  bands: ReadonlyMap<number, { y: number; height: number }>;
  placement: Placement;
  /** Titles need room above their strand. */
  laneHeight: number;
  inks: Inks;
  tones: readonly number[];
  /** The thread of the turn under the pointer: how deep it goes in each segment. */
  path: ReadonlyMap<number, number> | null;
  chosen: Place | null;
  lit: readonly Place[];
  /** Whether a search is on, even one without hits. */
  isLit: boolean;
  running: ReadonlySet<number>;
  /** 0 to 1, for the ring of a running session. */
  pulse: number;
  nowMs: number;
  /** Titles, names and dates; a picture without words leaves them out. */
  words: boolean;
  /** How much of the picture is there yet, from 0 to 1. */
  grown: number;
}

export const AXIS = 28;
const SANS = '"IBM Plex Sans", system-ui, sans-serif';
const SERIF = '"Newsreader", Georgia, serif';
const LABEL_MIN = 26;
const ROOMY_SEGMENTS_MAX = 400;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Room at the right edge, so that the ring of the newest turn is whole. */
export const RIGHT = 20;

export const xOf = (scene: Scene, busy: number): number =>
  scene.left + ((busy - scene.view.a) / (scene.view.b - scene.view.a)) * (scene.width - scene.left - RIGHT);

export function yOf(scene: Scene, segment: number): number {
  const key = laneKey(scene.canopy.band[segment]!, scene.canopy.lane[segment]!);
  const y = scene.laneY.get(key) ?? scene.placement.y.get(key);
  return y === undefined ? Number.NaN : y - scene.view.y;
}

export function drawField(g: CanvasRenderingContext2D, scene: Scene): void {
  const { inks, width, height, left, view } = scene;
  const bottom = scene.words ? height - AXIS : height;
  g.fillStyle = inks.paper;
  g.fillRect(0, 0, width, height);
  g.lineCap = "round";
  g.lineJoin = "round";
  g.textBaseline = "middle";
  g.textAlign = "left";
  const days = dayLines(scene);
  g.save();
  g.beginPath();
  g.rect(left, 0, width - left, bottom);
  g.clip();
  g.fillStyle = inks.rule;
  for (const day of days) if (day.isDrawn) g.fillRect(Math.round(day.x), 0, 1, bottom);
  for (const { y, height: tall } of scene.bands.values()) {
    const line = Math.round(y - view.y + tall);
    if (line > 0 && line < bottom) g.fillRect(left, line, width - left, 1);
  }
  drawStrands(g, scene, bottom);
  drawLights(g, scene, bottom);
  if (scene.chosen) drawChosen(g, scene, scene.chosen);
  drawNow(g, scene, bottom);
  g.restore();
  if (!scene.words) return;
  drawProjects(g, scene, bottom);
  drawAxis(g, scene, days, bottom);
}

function drawStrands(g: CanvasRenderingContext2D, scene: Scene, bottom: number): void {
  const { forest, canopy, view, inks, path } = scene;
  const reveal = view.a + (view.b - view.a) * scene.grown;
  const scale = (scene.width - scene.left - RIGHT) / (view.b - view.a);
  const isDim = path !== null || scene.isLit;
  const hasLabels = scene.words && scene.grown >= 1 && scene.laneHeight >= 21;
  // A session of one turn is as good as any, as long as there is room for its ring and its title.
  const isRoomy = hasLabels && canopy.order.length <= ROOMY_SEGMENTS_MAX;
  const ticks = scene.inks.tones.map(() => new Path2D());
  const taken = new Set<number>();
  const labels: { x: number; y: number; lane: number; text: string; isOn: boolean }[] = [];
  for (const s of canopy.order) {
    const from = canopy.from[s]!;
    const to = canopy.to[s]!;
    if (from > view.b || from > reveal) break;
    if (to < view.a) continue;
    const y = yOf(scene, s);
    if (Number.isNaN(y) || y < -40 || y > bottom + 40) continue;
    const tone = scene.tones[forest.agent[s]!] ?? 0;
    const x0 = xOf(scene, from);
    const x1 = Math.min(xOf(scene, to), xOf(scene, reveal));
    const isOn = path?.has(s) ?? false;
    const isSession = isRoomy && canopy.thin[s] !== 1 && forest.sessionsAt.has(s);
    if (x1 - x0 < 3.5 && !isOn && !isSession) {
      // From far away a strand is a tick; ticks that fall on one pixel are one.
      const cell = Math.round(x0) * 65_536 + Math.round(y);
      if (!taken.has(cell)) {
        taken.add(cell);
        ticks[tone]!.rect(x0, y - 1.5, Math.max(1.6, x1 - x0), 3);
      }
      continue;
    }
    const color = inks.tones[tone]!;
    const thin = canopy.thin[s] === 1;
    g.globalAlpha = isDim && !isOn ? 0.2 : 1;
    g.strokeStyle = color;
    g.lineWidth = thin ? 1.5 : 2.5;
    drawLeaving(g, scene, s, x0, y, thin);
    drawStretches(g, scene, s, y, x1, thin);
    drawTurns(g, scene, s, y, x1, scale, color, thin);
    g.globalAlpha = 1;
    if (!thin && hasLabels && (isSession || x1 - x0 > LABEL_MIN)) {
      const text = titleOfSegment(forest, s);
      if (text) {
        const lane = laneKey(canopy.band[s]!, canopy.lane[s]!);
        labels.push({
          x: Math.max(scene.left + 8, x0 + (canopy.source[s]! < 0 ? -2 : 5)),
          y,
          lane,
          text,
          isOn,
        });
      }
    }
  }
  g.globalAlpha = isDim ? 0.22 : 1;
  ticks.forEach((tick, tone) => {
    g.fillStyle = inks.tones[tone]!;
    g.fill(tick);
  });
  g.globalAlpha = 1;
  if (path) drawPath(g, scene);
  drawLabels(g, scene, labels, isDim);
}

/** The curve from the turn that a strand leaves. */
function drawLeaving(
  g: CanvasRenderingContext2D,
  scene: Scene,
  s: number,
  x0: number,
  y: number,
  thin: boolean,
): void {
  const source = scene.canopy.source[s]!;
  if (source < 0) return;
  const sourceY = yOf(scene, source);
  if (Number.isNaN(sourceY)) return;
  const x = Math.min(xOf(scene, scene.canopy.leaves[s]!), x0);
  const bend = Math.min(24, Math.max(8, Math.abs(y - sourceY) * 0.5));
  const end = Math.min(x0, x + bend * 1.5);
  g.beginPath();
  if (thin) g.setLineDash([1.5, 3.5]);
  g.moveTo(x, sourceY);
  if (end - x < 3) g.lineTo(end, y);
  else g.bezierCurveTo(x + (end - x) * 0.7, sourceY, x + (end - x) * 0.3, y, end, y);
  g.stroke();
  g.setLineDash([]);
  if (x0 - end > 4) dots(g, end, x0, y);
}

function dots(g: CanvasRenderingContext2D, from: number, to: number, y: number): void {
  const width = g.lineWidth;
  g.lineWidth = Math.min(2, width);
  g.setLineDash([0.1, 5]);
  g.beginPath();
  g.moveTo(from, y);
  g.lineTo(to, y);
  g.stroke();
  g.setLineDash([]);
  g.lineWidth = width;
}

/** The work as a line; a pause inside it as dots. */
function drawStretches(
  g: CanvasRenderingContext2D,
  scene: Scene,
  s: number,
  y: number,
  x1: number,
  thin: boolean,
): void {
  const { canopy, forest } = scene;
  const edge = scene.width + 20;
  let x = Math.max(scene.left - 20, xOf(scene, canopy.from[s]!));
  g.lineWidth = thin ? 1.5 : 2.5;
  for (const pause of forest.pausesAt.get(s) ?? []) {
    const from = xOf(scene, canopy.axis.toBusy(pause.fromMs));
    const to = xOf(scene, canopy.axis.toBusy(pause.toMs));
    if (to - from < 9 || to < scene.left || from > edge) continue;
    line(g, x, Math.min(from, x1), y);
    if (to > x1) return;
    dots(g, from + 5, to - 4, y);
    x = to;
  }
  line(g, x, Math.min(x1, edge), y);
}

function line(g: CanvasRenderingContext2D, from: number, to: number, y: number): void {
  g.beginPath();
  g.moveTo(from, y);
  g.lineTo(Math.max(from + 0.1, to), y);
  g.stroke();
}

/** Dots where there is room for them; compactions, failures and heads wherever they can be told apart. */
function drawTurns(
  g: CanvasRenderingContext2D,
  scene: Scene,
  s: number,
  y: number,
  x1: number,
  scale: number,
  color: string,
  thin: boolean,
): void {
  const { canopy, forest, inks, view } = scene;
  const low = forest.low[s]!;
  const high = forest.high[s]!;
  const perTurn = ((canopy.to[s]! - canopy.from[s]!) * scale) / (high - low + 1);
  if (perTurn > 5.5) {
    const radius = Math.min(thin ? 2.4 : 3.6, perTurn * 0.32);
    g.fillStyle = color;
    for (let d = firstInView(scene, s); d <= high; d++) {
      const busy = canopy.at(s, d);
      if (busy > view.b) break;
      const x = xOf(scene, busy);
      if (x > x1) break;
      g.beginPath();
      g.arc(x, y, radius, 0, 7);
      g.fill();
    }
  }
  if (perTurn > 0.7) {
    for (const mark of forest.marksAt.get(s) ?? []) {
      if (mark.kind === "files") continue;
      const busy = canopy.at(s, mark.depth);
      if (busy < view.a || busy > view.b) continue;
      const x = xOf(scene, busy);
      if (x > x1) break;
      if (mark.kind === "compaction") diamond(g, x, y, thin ? 3.4 : 4.8, color, inks.paper);
      else if (mark.kind === "tag") flag(g, x, y, color);
      else cross(g, x, y, thin ? 2.4 : 3.1, inks.bad, inks.paper);
    }
  }
  if (scene.grown < 1) return;
  g.strokeStyle = color;
  for (const session of forest.sessionsAt.get(s) ?? []) {
    const isEnd = session.depth >= high;
    if (!isEnd && perTurn < 3) continue;
    const x = isEnd ? x1 : xOf(scene, canopy.at(s, session.depth));
    const isFar = scene.laneHeight < 16;
    ring(g, x, y, thin ? 2.7 : isFar ? 3.1 : 4.4, thin || isFar ? 1.5 : 2.2, color, inks.paper);
    if (isEnd && scene.running.has(s)) pulse(g, scene, x, y, color);
  }
}

function firstInView(scene: Scene, s: number): number {
  const { canopy, forest, view } = scene;
  let a = forest.low[s]!;
  let b = forest.high[s]!;
  while (a < b) {
    const middle = (a + b) >> 1;
    if (canopy.at(s, middle) < view.a) a = middle + 1;
    else b = middle;
  }
  return Math.max(forest.low[s]!, a - 1);
}

function pulse(g: CanvasRenderingContext2D, scene: Scene, x: number, y: number, color: string): void {
  g.strokeStyle = color;
  g.lineWidth = 1.6;
  const alpha = g.globalAlpha;
  g.globalAlpha = alpha * (1 - scene.pulse * 0.85);
  g.beginPath();
  g.arc(x, y, 7 + scene.pulse * 8, 0, 7);
  g.stroke();
  g.globalAlpha = alpha;
}

function ring(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  radius: number,
  width: number,
  color: string,
  paper: string,
): void {
  g.fillStyle = paper;
  g.strokeStyle = color;
  g.lineWidth = width;
  g.beginPath();
  g.arc(x, y, radius, 0, 7);
  g.fill();
  g.stroke();
}

function diamond(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  r: number,
  color: string,
  paper: string,
): void {
  g.fillStyle = paper;
  g.strokeStyle = color;
  g.lineWidth = 2;
  g.beginPath();
  g.moveTo(x, y - r);
  g.lineTo(x + r, y);
  g.lineTo(x, y + r);
  g.lineTo(x - r, y);
  g.closePath();
  g.fill();
  g.stroke();
}

function cross(
  g: CanvasRenderingContext2D,
  x: number,
  y: number,
  r: number,
  color: string,
  paper: string,
): void {
  g.beginPath();
  g.moveTo(x - r, y - r);
  g.lineTo(x + r, y + r);
  g.moveTo(x + r, y - r);
  g.lineTo(x - r, y + r);
  g.strokeStyle = paper;
  g.lineWidth = 5.5;
  g.stroke();
  g.strokeStyle = color;
  g.lineWidth = 2;
  g.stroke();
}

function flag(g: CanvasRenderingContext2D, x: number, y: number, color: string): void {
  g.fillStyle = color;
  g.beginPath();
  g.moveTo(x - 0.8, y);
  g.lineTo(x - 0.8, y - 10);
  g.lineTo(x + 6, y - 7.4);
  g.lineTo(x + 0.8, y - 5);
  g.lineTo(x + 0.8, y);
  g.fill();
}

/** The thread of the chosen turn, strong, back to its root. */
function drawPath(g: CanvasRenderingContext2D, scene: Scene): void {
  const { canopy, forest, inks } = scene;
  for (const [s, depth] of scene.path!) {
    const y = yOf(scene, s);
    if (Number.isNaN(y)) continue;
    const color = inks.tones[scene.tones[forest.agent[s]!] ?? 0]!;
    const x0 = xOf(scene, canopy.from[s]!);
    const x1 = depth >= forest.high[s]! ? xOf(scene, canopy.to[s]!) : xOf(scene, canopy.at(s, depth));
    g.strokeStyle = color;
    g.lineWidth = 4.4;
    line(g, x0, Math.max(x0, x1), y);
    const thin = canopy.thin[s] === 1;
    g.lineWidth = thin ? 2.4 : 4.4;
    drawLeaving(g, scene, s, x0, y, thin);
  }
}

function drawChosen(g: CanvasRenderingContext2D, scene: Scene, { segment, depth }: Place): void {
  const y = yOf(scene, segment);
  if (Number.isNaN(y)) return;
  const x = xOf(scene, scene.canopy.at(segment, depth));
  ring(g, x, y, 7.5, 2.2, scene.inks.ink, scene.inks.paper);
  g.fillStyle = scene.inks.tones[scene.tones[scene.forest.agent[segment]!] ?? 0]!;
  g.beginPath();
  g.arc(x, y, 3.8, 0, 7);
  g.fill();
}

function drawLights(g: CanvasRenderingContext2D, scene: Scene, bottom: number): void {
  if (scene.lit.length === 0) return;
  const { canopy, view, inks } = scene;
  const taken = new Set<number>();
  const spots: [number, number][] = [];
  for (const { segment, depth } of scene.lit) {
    // Of thousands of hits few are in view, and where a turn is takes a search among the pauses.
    if (canopy.to[segment]! < view.a || canopy.from[segment]! > view.b) continue;
    const busy = canopy.at(segment, depth);
    if (busy < view.a || busy > view.b) continue;
    const y = yOf(scene, segment);
    if (Number.isNaN(y) || y < -20 || y > bottom + 20) continue;
    const x = xOf(scene, busy);
    const cell = Math.round(x / 2) * 65_536 + Math.round(y / 2);
    if (taken.has(cell)) continue;
    taken.add(cell);
    spots.push([x, y]);
  }
  const halo = haloOf(inks.glow);
  g.globalAlpha = 0.9;
  for (const [x, y] of spots) g.drawImage(halo, x - 18, y - 18, 36, 36);
  g.globalAlpha = 1;
  g.fillStyle = inks.ink;
  for (const [x, y] of spots) {
    g.beginPath();
    g.arc(x, y, 3.6, 0, 7);
    g.fill();
  }
}

let halo: { color: string; canvas: HTMLCanvasElement } | null = null;

/** A soft spot, drawn once: a thousand gradients a frame would be too slow. */
function haloOf(color: string): HTMLCanvasElement {
  if (halo?.color === color) return halo.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = 72;
  canvas.height = 72;
  const g = canvas.getContext("2d")!;
  const fade = g.createRadialGradient(36, 36, 0, 36, 36, 36);
  fade.addColorStop(0, color);
  fade.addColorStop(0.45, withAlpha(color, 0.45));
  fade.addColorStop(1, withAlpha(color, 0));
  g.fillStyle = fade;
  g.fillRect(0, 0, 72, 72);
  halo = { color, canvas };
  return canvas;
}

function withAlpha(color: string, alpha: number): string {
  const inner = color.slice(color.indexOf("(") + 1, color.lastIndexOf(")"));
  if (color.startsWith("rgb(")) return `rgba(${inner}, ${alpha})`;
  return `${color.slice(0, color.indexOf("("))}(${inner.split("/")[0]!.trim()} / ${alpha})`;
}

function drawLabels(
  g: CanvasRenderingContext2D,
  scene: Scene,
  labels: { x: number; y: number; lane: number; text: string; isOn: boolean }[],
  isDim: boolean,
): void {
  const { inks } = scene;
  g.font = `450 11.5px ${SANS}`;
  labels.sort((a, b) => a.lane - b.lane || a.x - b.x);
  let lane = -1;
  let taken = 0;
  labels.forEach((label, i) => {
    if (label.lane !== lane) taken = scene.left;
    lane = label.lane;
    const next = labels[i + 1];
    const edge = (next?.lane === lane ? next.x : scene.width) - 14;
    const wanted = Math.min(320, g.measureText(label.text.slice(0, 200)).width);
    // At the right edge a title may begin before its strand.
    const x = next?.lane === lane ? label.x : Math.max(taken + 8, Math.min(label.x, edge + 8 - wanted));
    const room = Math.min(320, edge + 8 - x);
    if (room < 56) return;
    const text = clipped(g, label.text, room);
    taken = x + Math.min(room, wanted) + 8;
    g.globalAlpha = isDim && !label.isOn ? 0.3 : 1;
    g.lineWidth = 4;
    g.strokeStyle = inks.paper;
    g.strokeText(text, x, label.y - 13);
    g.fillStyle = label.isOn ? inks.ink : inks.ink2;
    g.fillText(text, x, label.y - 13);
  });
  g.globalAlpha = 1;
}

/** A text that fits into a width; a bidi mark or a line break has no power here. */
function clipped(g: CanvasRenderingContext2D, text: string, room: number): string {
  const plain = text.slice(0, 200).replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, " ");
  const width = g.measureText(plain).width;
  if (width <= room) return plain;
  // Letters differ in width: the share of the room is only where to begin.
  let end = Math.max(3, Math.floor((plain.length * room) / width));
  while (end > 3 && g.measureText(`${plain.slice(0, end)}…`).width > room) end--;
  return `${plain.slice(0, end).trimEnd()}…`;
}

function drawNow(g: CanvasRenderingContext2D, scene: Scene, bottom: number): void {
  const x = xOf(scene, scene.canopy.axis.toBusy(scene.nowMs));
  if (!scene.words || x > scene.width || x < scene.left) return;
  g.strokeStyle = scene.inks.accent;
  g.lineWidth = 1.2;
  g.setLineDash([2, 5]);
  g.beginPath();
  g.moveTo(x, 0);
  g.lineTo(x, bottom);
  g.stroke();
  g.setLineDash([]);
}

function drawProjects(g: CanvasRenderingContext2D, scene: Scene, bottom: number): void {
  const { inks, left, forest, canopy, view } = scene;
  const isNarrow = left < 120;
  const pad = isNarrow ? 10 : 20;
  g.fillStyle = inks.paper2;
  g.fillRect(0, 0, left, scene.height);
  g.save();
  g.beginPath();
  g.rect(0, 0, left - 6, bottom);
  g.clip();
  for (const [band, { y, height }] of scene.bands) {
    const top = y - view.y;
    if (top > bottom || top + height < 0) continue;
    g.fillStyle = inks.rule;
    g.fillRect(0, Math.round(top + height), left, 1);
    const one = canopy.bands[band]!;
    const at = Math.min(Math.max(20, top + 21), top + height - (height > 46 ? 26 : 12));
    g.font = `500 ${isNarrow ? 13.5 : 15}px ${SERIF}`;
    g.fillStyle = inks.ink;
    g.fillText(clipped(g, forest.projects[one.project] ?? "No project", left - pad - 10), pad, at);
    if (height > 46) {
      g.font = `400 11px ${SANS}`;
      g.fillStyle = inks.ink3;
      g.fillText(`${short(one.turns)} ${one.turns === 1 ? "turn" : "turns"}`, pad, at + 17);
    }
  }
  g.restore();
  g.fillStyle = inks.rule;
  g.fillRect(left - 1, 0, 1, scene.height);
}

interface DayLine {
  x: number;
  ms: number;
  isDrawn: boolean;
}

/** The beginnings of days in view; those that fall together are one, far away only some are drawn. */
function dayLines(scene: Scene): DayLine[] {
  const { axis } = scene.canopy;
  const from = axis.toClock(scene.view.a);
  const to = axis.toClock(scene.view.b);
  const lines: DayLine[] = [];
  for (const ms of midnights(from, to)) {
    const x = xOf(scene, axis.toBusy(ms));
    const last = lines[lines.length - 1];
    if (last && x - last.x < 1.5) last.ms = ms;
    else lines.push({ x, ms, isDrawn: true });
  }
  let drawnAt = Number.NEGATIVE_INFINITY;
  const least = lines.length > 45 ? 64 : 22;
  for (const one of lines) {
    one.isDrawn = one.x - drawnAt >= least;
    if (one.isDrawn) drawnAt = one.x;
  }
  return lines;
}

const dayName = new Intl.DateTimeFormat("en", { weekday: "short", day: "numeric", month: "short" });
const dateName = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
const yearName = new Intl.DateTimeFormat("en", { month: "short", year: "numeric" });
const hourName = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

function drawAxis(g: CanvasRenderingContext2D, scene: Scene, days: readonly DayLine[], bottom: number): void {
  const { inks, width, left, canopy, view } = scene;
  g.fillStyle = inks.paper;
  g.fillRect(left, bottom, width - left, AXIS);
  g.fillStyle = inks.rule;
  g.fillRect(0, bottom, width, 1);
  g.font = `400 11.5px ${SANS}`;
  g.fillStyle = inks.ink3;
  const from = canopy.axis.toClock(view.a);
  const to = canopy.axis.toClock(view.b);
  const y = bottom + AXIS / 2 + 0.5;
  const name = to - from > 400 * DAY ? yearName : to - from > 24 * DAY ? dateName : dayName;
  const room = name === dayName ? 84 : 66;
  let end = Number.NEGATIVE_INFINITY;
  const spoken: number[] = [];
  const firstX = days[0]?.x ?? Number.POSITIVE_INFINITY;
  // The day that began before the picture does.
  if (firstX - left > room) {
    g.fillText(name.format(from), left + 8, y);
    end = left + 8 + room;
    spoken.push(left);
  }
  for (const day of days) {
    if (day.x < end || day.x > width - room + 20) continue;
    g.fillText(name.format(day.ms), day.x + 8, y);
    spoken.push(day.x);
    end = day.x + room;
  }
  if (to - from > 3 * DAY) return;
  const step =
    to - from > DAY
      ? 6 * HOUR
      : to - from > 8 * HOUR
        ? 2 * HOUR
        : to - from > 2 * HOUR
          ? HOUR
          : to - from > HOUR / 2
            ? HOUR / 4
            : HOUR / 12;
  let lastX = Number.NEGATIVE_INFINITY;
  for (let ms = Math.ceil(from / step) * step; ms < to; ms += step) {
    const x = xOf(scene, canopy.axis.toBusy(ms));
    if (x - lastX < 56 || x < left + 20 || x > width - 30) continue;
    if (spoken.some((at) => x > at - 46 && x < at + room + 22)) continue;
    g.globalAlpha = 0.85;
    g.fillText(hourName.format(ms), x - 14, y);
    g.globalAlpha = 1;
    g.fillStyle = inks.rule2;
    g.fillRect(Math.round(x), bottom, 1, 4);
    g.fillStyle = inks.ink3;
    lastX = x;
  }
}
