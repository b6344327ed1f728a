/** The colours of a canvas, read from the tokens once for each theme. */
import { TONES } from "../core/agents.ts";
import { paint } from "../parts/paint.ts";

export interface Inks {
  ink: string;
  ink2: string;
  ink3: string;
  rule: string;
  rule2: string;
  paper: string;
  paper2: string;
  accent: string;
  bad: string;
  glow: string;
  tones: readonly string[];
}

export function readInks(): Inks {
  return {
    ink: paint("--ink"),
    ink2: paint("--ink-2"),
    ink3: paint("--ink-3"),
    rule: paint("--rule"),
    rule2: paint("--rule-2"),
    paper: paint("--paper"),
    paper2: paint("--paper-2"),
    accent: paint("--accent"),
    bad: paint("--bad"),
    glow: paint("--glow"),
    tones: Array.from({ length: TONES }, (_, tone) => paint(`--tone-${tone}`)),
  };
}

/** Set a canvas to the size it has on the page, and return what draws on it in CSS pixels. */
export function canvasContext(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  ratio: number,
): CanvasRenderingContext2D {
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
