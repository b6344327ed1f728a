/** An image of the canopy that can be shown to anyone: colours and lines, no titles, names or dates. */
import { figure } from "../core/format.ts";
import { saveFile } from "../parts/save.ts";
import { drawField } from "./drawField.ts";
import { type Days, drawStrip } from "./drawStrip.ts";
import type { Field } from "./field.ts";

const WIDTH = 1600;
const HEIGHT = 1000;
const EDGE = 56;

export function pictureWithoutWords(field: Field, days: Days | null): HTMLCanvasElement {
  const scene = {
    ...field.scene(WIDTH - 2 * EDGE, HEIGHT - 330),
    left: 0,
    words: false,
    path: null,
    chosen: null,
    lit: [],
    isLit: false,
    grown: 1,
    running: new Set<number>(),
  };
  const canvas = document.createElement("canvas");
  canvas.width = WIDTH * 2;
  canvas.height = HEIGHT * 2;
  const g = canvas.getContext("2d")!;
  g.scale(2, 2);
  g.fillStyle = scene.inks.paper;
  g.fillRect(0, 0, WIDTH, HEIGHT);
  g.fillStyle = scene.inks.ink;
  g.textBaseline = "alphabetic";
  g.font = '400 46px "Newsreader", Georgia, serif';
  g.fillText(`${figure(field.forest.turns)} turns`, EDGE, 104);
  g.textAlign = "right";
  g.font = '500 22px "Newsreader", Georgia, serif';
  g.fillStyle = scene.inks.ink3;
  g.fillText("Turntree", WIDTH - EDGE, 104);
  g.textAlign = "left";
  if (days) {
    g.save();
    g.translate(EDGE, 140);
    const { forest, inks, tones } = scene;
    drawStrip(g, {
      days,
      forest,
      tones,
      inks,
      width: WIDTH - 2 * EDGE,
      height: 96,
      lit: [],
      isLit: false,
      words: false,
    });
    g.restore();
  }
  g.save();
  g.translate(EDGE, 270);
  drawField(g, scene);
  g.restore();
  return canvas;
}

export function savePicture(canvas: HTMLCanvasElement): Promise<void> {
  return new Promise((resolve) => {
    canvas.toBlob((blob) => {
      if (blob) saveFile(blob, "turntree.png");
      resolve();
    }, "image/png");
  });
}
