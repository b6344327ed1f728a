import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { axisOf, canopyOf, GAP_MAX, GAP_MIN, laneKey, midnights, placed } from "./canopy.ts";
import { sampleForest } from "./sampleForest.ts";

const moments = fc
  .uniqueArray(fc.integer({ min: 0, max: 4_000_000 }), { minLength: 2, maxLength: 200 })
  .map((seconds) => Float64Array.from(seconds, (second) => second * 1000).sort());

describe("busy time", () => {
  test("counts each gap, but neither too little nor too much", () => {
    fc.assert(
      fc.property(moments, (times) => {
        const axis = axisOf(times);
        for (let i = 1; i < times.length; i++) {
          const gap = axis.toBusy(times[i]!) - axis.toBusy(times[i - 1]!);
          expect(gap).toBeGreaterThanOrEqual(GAP_MIN - 1e-6);
          expect(gap).toBeLessThanOrEqual(GAP_MAX + 1e-6);
        }
      }),
    );
  });

  test("goes back to the clock", () => {
    fc.assert(
      fc.property(moments, fc.double({ min: 0, max: 1, noNaN: true }), (times, share) => {
        const axis = axisOf(times);
        const ms = times[0]! + share * (times[times.length - 1]! - times[0]!);
        expect(axis.toClock(axis.toBusy(ms))).toBeCloseTo(ms, -1);
      }),
    );
  });

  test("has an end even where nothing happened", () => {
    expect(axisOf(new Float64Array()).end).toBe(GAP_MAX);
  });
});

const forests = fc
  .array(fc.record({ parent: fc.nat(100_000), shape: fc.nat(99), mark: fc.nat(99) }), {
    minLength: 1,
    maxLength: 80,
  })
  .map(sampleForest);

describe("strands", () => {
  test("of one lane never meet", () => {
    fc.assert(
      fc.property(forests, ({ forest }) => {
        const canopy = canopyOf(forest);
        for (let a = 0; a < forest.size; a++) {
          for (let b = 0; b < a; b++) {
            if (laneKey(canopy.band[a]!, canopy.lane[a]!) !== laneKey(canopy.band[b]!, canopy.lane[b]!))
              continue;
            const apart = canopy.from[a]! > canopy.to[b]! || canopy.from[b]! > canopy.to[a]!;
            expect(apart).toBe(true);
          }
        }
      }),
    );
  });

  test("of a branch stand below what they leave", () => {
    fc.assert(
      fc.property(forests, ({ forest }) => {
        const canopy = canopyOf(forest);
        for (let s = 0; s < forest.size; s++) {
          const source = canopy.source[s]!;
          if (source < 0 || canopy.band[source] !== canopy.band[s] || canopy.from[source]! > canopy.from[s]!)
            continue;
          expect(canopy.lane[s]!).toBeGreaterThan(canopy.lane[source]!);
        }
      }),
    );
  });

  test("take room only where they are in view", () => {
    fc.assert(
      fc.property(forests, ({ forest }) => {
        const canopy = canopyOf(forest);
        const heights = { wide: 20, thin: 10, head: 5, foot: 5 };
        const all = placed(canopy, 0, canopy.axis.end, heights);
        const part = placed(canopy, 0, canopy.axis.end / 3, heights);
        expect(part.height).toBeLessThanOrEqual(all.height);
        for (let s = 0; s < forest.size; s++)
          expect(all.y.has(laneKey(canopy.band[s]!, canopy.lane[s]!))).toBe(true);
        const none = placed(canopy, canopy.axis.end * 2, canopy.axis.end * 3, heights);
        expect(none.height).toBe(0);
      }),
    );
  });
});

test("midnights are those of the viewer", () => {
  const from = new Date(2026, 9, 24, 5).getTime();
  const days = midnights(from, new Date(2026, 9, 27, 5).getTime());
  expect(days.map((ms) => new Date(ms).getHours())).toEqual([0, 0, 0]);
});
