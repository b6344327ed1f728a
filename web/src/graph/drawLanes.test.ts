import fc from "fast-check";
import { expect, test } from "vitest";
import { countForks } from "../core/forest.ts";
import { layOut, rowsOf } from "../core/layout.ts";
import { sampleForest } from "../core/sampleForest.ts";
import { drawLanes, forksOf, glyphsOf, type Strokes } from "./drawLanes.ts";
import { threadMap } from "./useGraph.ts";

const MEASURES = { row: 30, lane: 16, edge: 20 };
const forests = fc
  .array(fc.record({ parent: fc.nat(100_000), shape: fc.nat(99), mark: fc.nat(99) }), {
    minLength: 1,
    maxLength: 70,
  })
  .map(sampleForest);

/** Every straight line as the halves of rows that it covers, by lane. */
function halves(strokes: Strokes, from: number): Set<string> {
  const found = new Set<string>();
  for (const group of [strokes.solid, strokes.dashed, strokes.strong, strokes.strongDashed]) {
    for (const d of group.values()) {
      for (const [, x, y0, y1] of d.matchAll(/M(\d+) (\d+)V(\d+)/g)) {
        for (let y = Number(y0); y < Number(y1); y += 15) found.add(`${x} ${y + from * 30}`);
      }
    }
  }
  return found;
}

test("a window of rows is drawn as it is in the whole picture", () => {
  fc.assert(
    fc.property(forests, fc.boolean(), fc.nat(60), (sample, folded, start) => {
      const { forest } = sample;
      const layout = layOut(forest);
      const rows = rowsOf(forest, layout, { folded });
      const scene = {
        forest,
        layout,
        rows,
        forks: forksOf(layout),
        tones: [0, 1],
        thread: threadMap(forest, sample.places[sample.places.length - 1]!),
        glyphs: glyphsOf(forest),
        running: new Set<number>(),
      };
      const from = start % rows.length;
      const to = Math.min(rows.length, from + 12);
      const whole = halves(drawLanes({ ...scene, from: 0, to: rows.length }, MEASURES), 0);
      const part = halves(drawLanes({ ...scene, from, to }, MEASURES), from);
      const inside = [...whole].filter((half) => {
        const y = Number(half.split(" ")[1]);
        return y >= from * 30 && y < to * 30;
      });
      expect([...part].sort()).toEqual(inside.sort());
    }),
  );
});

test("forks are counted as turns with several branches", () => {
  fc.assert(
    fc.property(forests, ({ forest, turns }) => {
      const branches = turns.map(() => 0);
      for (const turn of turns) if (turn.parent >= 0 && !turn.spawn) branches[turn.parent]!++;
      expect(countForks(forest)).toBe(branches.filter((count) => count > 1).length);
    }),
  );
});
