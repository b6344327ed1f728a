/**
 * The state of the picture between two frames: what is in view, what moves, what the pointer is on.
 *
 * React draws the words around it; dragging and zooming touch only this object and its canvas.
 */
import { toneOf } from "../core/agents.ts";
import { type Canopy, canopyOf, type Placement, placed } from "../core/canopy.ts";
import { type Forest, type Place, threadOf } from "../core/forest.ts";
import { AXIS, drawField, RIGHT, type Scene, type View, xOf, yOf } from "./drawField.ts";
import { canvasContext, type Inks, readInks } from "./inks.ts";

const VIEW_MIN = 90;
const TURNS_PER_PIXEL = 0.31;
const GROW_MS = 900;
const PULSE_MS = 1600;
const EASE = 0.26;

export class Field {
  canopy: Canopy;
  view: View = { a: 0, b: 1, y: 0 };
  width = 0;
  height = 0;
  chosen: Place | null = null;
  onView: () => void = () => undefined;
  onDrawn: () => void = () => undefined;
  forest: Forest;
  private canvas: HTMLCanvasElement;
  private inks: Inks = readInks();
  private tones: number[] = [];
  private placement: Placement = { y: new Map(), bands: [], height: 0 };
  private placedFor = "";
  private laneHeight = 28;
  private laneY = new Map<number, number>();
  private bands = new Map<number, { y: number; height: number }>();
  private path: Map<number, number> | null = null;
  private lit: readonly Place[] = [];
  private isLit = false;
  private running: ReadonlySet<number> = new Set();
  private frame = 0;
  private bornAt: number;
  private isStill: boolean;

  constructor(canvas: HTMLCanvasElement, forest: Forest, isStill: boolean) {
    this.canvas = canvas;
    this.forest = forest;
    this.canopy = canopyOf(forest);
    this.tones = forest.agents.map(toneOf);
    this.isStill = isStill;
    this.bornAt = isStill ? Number.NEGATIVE_INFINITY : performance.now();
    this.view = this.newest(330);
  }

  get left(): number {
    return this.width < 700 ? 96 : 144;
  }

  /** How many pixels the time in view has. */
  get room(): number {
    return Math.max(1, this.width - this.left - RIGHT);
  }

  get end(): number {
    return this.canopy.axis.end;
  }

  /** The view of about so many newest turns. */
  newest(turns: number): View {
    const width = (this.end * turns) / Math.max(1, this.forest.turns);
    return { a: Math.max(0, this.end - Math.max(VIEW_MIN, width)), b: this.end, y: 0 };
  }

  /** The view of the last so many days before the newest turn. */
  lastDays(days: number): void {
    const lastMs = this.canopy.axis.toClock(this.end);
    const a = this.canopy.axis.toBusy(lastMs - days * 86_400_000);
    this.look({ a: Math.min(a, this.end - VIEW_MIN), b: this.end, y: 0 });
  }

  all(): void {
    this.look({ a: 0, b: this.end, y: 0 });
  }

  /** The smallest view that has all of these turns. */
  showAll(places: readonly Place[]): void {
    let a = Number.POSITIVE_INFINITY;
    let b = Number.NEGATIVE_INFINITY;
    for (const { segment, depth } of places) {
      const busy = this.canopy.at(segment, depth);
      a = Math.min(a, busy);
      b = Math.max(b, busy);
    }
    if (a > b) return;
    const edge = Math.max(VIEW_MIN, (b - a) * 0.04);
    this.look({ a: a - edge, b: b + edge, y: 0 });
  }

  setForest(forest: Forest): void {
    if (forest === this.forest) return;
    const { axis } = this.canopy;
    const wasAtEnd = this.view.b >= this.end - 1;
    const wasAll = wasAtEnd && this.view.a <= 0;
    const fromMs = axis.toClock(this.view.a);
    const toMs = axis.toClock(this.view.b);
    this.forest = forest;
    this.canopy = canopyOf(forest);
    this.tones = forest.agents.map(toneOf);
    this.placedFor = "";
    const now = this.canopy.axis;
    const a = wasAll ? 0 : now.toBusy(fromMs);
    const b = wasAtEnd ? this.end : now.toBusy(toMs);
    this.choose(null);
    this.look({ a, b: Math.max(b, a + VIEW_MIN), y: this.view.y });
  }

  setLit(lit: readonly Place[], isLit: boolean): void {
    this.lit = lit;
    this.isLit = isLit;
    this.draw();
  }

  setRunning(running: ReadonlySet<number>): void {
    this.running = running;
    this.draw();
  }

  setTheme(): void {
    this.inks = readInks();
    this.draw();
  }

  setSize(width: number, height: number): void {
    // A wide screen shows more of the past, not larger turns.
    const isFirst = this.width === 0;
    this.width = width;
    this.height = height;
    this.look(isFirst ? this.newest(Math.max(90, this.room * TURNS_PER_PIXEL)) : this.view);
    this.paint();
  }

  look(next: View): void {
    const width = Math.min(this.end, Math.max(VIEW_MIN, next.b - next.a));
    const a = Math.max(0, Math.min(next.a, this.end - width));
    this.view = { a, b: a + width, y: next.y };
    this.place();
    const room = Math.max(0, this.placement.height - (this.height - AXIS) + 8);
    this.view.y = Math.max(0, Math.min(next.y, room));
    this.onView();
    this.draw();
  }

  pan(dx: number, dy: number): void {
    const { a, b, y } = this.view;
    const shift = (dx / this.room) * (b - a);
    this.look({ a: a + shift, b: b + shift, y: y + dy });
  }

  /** Make the view so many times as wide; the time at `x` stays where it is. */
  zoom(factor: number, x = (this.width + this.left) / 2): void {
    const { a, b, y } = this.view;
    const share = Math.max(0, Math.min(1, (x - this.left) / this.room));
    const at = a + share * (b - a);
    const width = Math.min(this.end, Math.max(VIEW_MIN, (b - a) * factor));
    this.look({ a: at - share * width, b: at + (1 - share) * width, y });
  }

  /** Choose a turn and light its thread back to its root. */
  choose(place: Place | null): void {
    this.chosen = place;
    this.path = place
      ? new Map(threadOf(this.forest, place).map(({ segment, high }) => [segment, high]))
      : null;
    this.draw();
  }

  /** How many turns the chosen thread has. */
  threadTurns(): number {
    if (!this.chosen) return 0;
    return this.chosen.depth;
  }

  /** The turn under a point, or null. */
  hit(x: number, y: number): Place | null {
    if (x < this.left || y > this.height - AXIS) return null;
    const scene = this.scene(this.width, this.height);
    const scale = (this.view.b - this.view.a) / this.room;
    const busy = this.view.a + (x - this.left) * scale;
    let best: Place | null = null;
    let near = 17;
    for (let s = 0; s < this.forest.size; s++) {
      if (this.canopy.from[s]! - 14 * scale > busy || this.canopy.to[s]! + 14 * scale < busy) continue;
      const dy = Math.abs(yOf(scene, s) - y);
      if (!(dy < 12)) continue;
      const depth = this.depthAt(s, busy);
      const dx = Math.abs((this.canopy.at(s, depth) - busy) / scale);
      const distance = Math.min(dx, 6) + dy;
      if (distance < near) {
        near = distance;
        best = { segment: s, depth };
      }
    }
    return best;
  }

  /** Where a turn is drawn. */
  point(place: Place): { x: number; y: number } {
    const scene = this.scene(this.width, this.height);
    return { x: xOf(scene, this.canopy.at(place.segment, place.depth)), y: yOf(scene, place.segment) };
  }

  /** The newest turns of the strands in view, from the newest to the oldest. */
  heads(): Place[] {
    const found: number[] = [];
    for (let s = 0; s < this.forest.size; s++) {
      const isIn = this.canopy.to[s]! >= this.view.a && this.canopy.to[s]! <= this.view.b + 1;
      if (isIn && !this.canopy.thin[s]) found.push(s);
    }
    found.sort((a, b) => this.canopy.to[b]! - this.canopy.to[a]!);
    return found.map((segment) => ({ segment, depth: this.forest.high[segment]! }));
  }

  /** Scroll until a turn is in view. */
  reveal(place: Place): void {
    const { x, y } = this.point(place);
    const { a, b } = this.view;
    const busy = this.canopy.at(place.segment, place.depth);
    const isAside = x < this.left || x > this.width;
    const isAbove = y < 40 || y > this.height - AXIS - 30;
    if (!isAside && !isAbove) return;
    const shift = isAside ? busy - (a + b) / 2 : 0;
    this.look({ a: a + shift, b: b + shift, y: isAbove ? this.view.y + y - this.height / 2 : this.view.y });
  }

  draw(): void {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  /** What a picture of another size would show. */
  scene(width: number, height: number): Scene {
    const now = performance.now();
    const age = Math.min(1, (now - this.bornAt) / GROW_MS);
    return {
      forest: this.forest,
      canopy: this.canopy,
      view: this.view,
      width,
      height,
      left: this.left,
      laneY: this.laneY,
      bands: this.bands,
      placement: this.placement,
      laneHeight: this.laneHeight,
      inks: this.inks,
      tones: this.tones,
      path: this.path,
      chosen: this.chosen,
      lit: this.lit,
      isLit: this.isLit,
      running: this.running,
      pulse: this.isStill ? 0.35 : (now % PULSE_MS) / PULSE_MS,
      nowMs: Date.now(),
      words: true,
      grown: this.isStill ? 1 : 1 - (1 - age) ** 3,
    };
  }

  private paint(): void {
    this.frame = 0;
    if (this.width < 2 || this.height < 2) return;
    const isMoving = this.settle();
    const scene = this.scene(this.width, this.height);
    drawField(canvasContext(this.canvas, this.width, this.height, devicePixelRatio), scene);
    this.onDrawn();
    if (isMoving || scene.grown < 1 || (this.running.size > 0 && !this.isStill)) this.draw();
  }

  private depthAt(segment: number, busy: number): number {
    let a = this.forest.low[segment]!;
    let b = this.forest.high[segment]!;
    while (a < b) {
      const middle = (a + b) >> 1;
      if (this.canopy.at(segment, middle) < busy) a = middle + 1;
      else b = middle;
    }
    if (a === this.forest.low[segment]) return a;
    const before = busy - this.canopy.at(segment, a - 1);
    return before < this.canopy.at(segment, a) - busy ? a - 1 : a;
  }

  private place(): void {
    const { a, b } = this.view;
    const key = `${a} ${b} ${this.width} ${this.height}`;
    if (key === this.placedFor) return;
    this.placedFor = key;
    // Titles need room; from far away there are none, and lanes move together.
    const turnsInView = (this.forest.turns * (b - a)) / this.end;
    const perTurn = this.room / Math.max(1, turnsInView);
    const near = Math.max(0, Math.min(1, (Math.log2(perTurn) + 3) / 3.5));
    const heights = { wide: 13 + near * 15, thin: 8 + near * 4, head: 10 + near * 8, foot: 12 };
    const least = placed(this.canopy, a, b, heights);
    // A picture with few strands uses the room it has; a wide view of many moves them together.
    const fit = (this.height - AXIS) / Math.max(1, least.height);
    const stretch = fit < 1 ? Math.max(fit, 0.45 + near) : Math.min(1.6, fit);
    this.laneHeight = heights.wide * Math.min(stretch, 1.6);
    if (stretch > 0.98 && stretch < 1.02) this.placement = least;
    else {
      const { wide, thin, head, foot } = heights;
      const tall = {
        wide: wide * stretch,
        thin: thin * stretch,
        head: Math.max(10, head * stretch),
        foot: foot * stretch,
      };
      this.placement = fit < 1 && near >= 0.55 ? least : placed(this.canopy, a, b, tall);
    }
    if (this.placement === least) this.laneHeight = heights.wide;
  }

  /** Move lanes and bands towards their places; says whether any is still under way. */
  private settle(): boolean {
    let isMoving = false;
    const lanes = new Map<number, number>();
    for (const [key, y] of this.placement.y) {
      const now = this.laneY.get(key);
      if (now === undefined || this.isStill || Math.abs(now - y) < 0.6) lanes.set(key, y);
      else {
        lanes.set(key, now + (y - now) * EASE);
        isMoving = true;
      }
    }
    const bands = new Map<number, { y: number; height: number }>();
    for (const { band, y, height } of this.placement.bands) {
      const now = this.bands.get(band);
      if (!now || this.isStill || Math.abs(now.y - y) + Math.abs(now.height - height) < 0.8)
        bands.set(band, { y, height });
      else {
        bands.set(band, { y: now.y + (y - now.y) * EASE, height: now.height + (height - now.height) * EASE });
        isMoving = true;
      }
    }
    this.laneY = lanes;
    this.bands = bands;
    return isMoving;
  }
}
