import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { grown, placeKey } from "./forest.ts";
import { layOut, lines, rowsOf } from "./layout.ts";
import { type Choice, type SampleTurn, sampleForest } from "./sampleForest.ts";

const choice: fc.Arbitrary<Choice> = fc.record({
  parent: fc.nat(100_000),
  shape: fc.nat(99),
  mark: fc.nat(99),
});
const forests = fc.array(choice, { minLength: 1, maxLength: 90 }).map(sampleForest);

interface Line {
  turn: number;
  lane: number;
  startsBranch: boolean;
  turns: number;
}

/** The rule of the terminal, turn by turn. */
function reference(turns: readonly SampleTurn[], folded: boolean, pinned: readonly number[] = []): Line[] {
  const children = turns.map((_, i) => turns.flatMap((turn, k) => (turn.parent === i ? [k] : [])));
  const size = turns.map(() => 1);
  for (let i = turns.length - 1; i >= 0; i--) {
    const up = turns[i]!.parent;
    if (up >= 0) size[up]! += size[i]!;
  }
  const main = children.map((list) => {
    const weight = (i: number) => (turns[i]!.spawn ? 0 : 1e9) + size[i]!;
    return list.reduce((best, i) => (best < 0 || weight(i) > weight(best) ? i : best), -1);
  });
  const claimed = new Set<number>();
  for (const head of pinned) {
    let child = head;
    for (let up = turns[head]!.parent; up >= 0 && !claimed.has(up); up = turns[up]!.parent) {
      claimed.add(up);
      main[up] = child;
      child = up;
    }
  }
  const newest = (i: number): number => Math.max(i, ...children[i]!.map(newest));
  const roots = turns
    .flatMap((turn, i) => (turn.parent < 0 ? [i] : []))
    .sort((a, b) => newest(a) - newest(b));
  const walk: { turn: number; lane: number }[] = [];
  const visit = (turn: number, lane: number): void => {
    walk.push({ turn, lane });
    for (const child of children[turn]!) if (child !== main[turn]) visit(child, lane + 1);
    if (main[turn]! >= 0) visit(main[turn]!, lane);
  };
  for (const root of roots) visit(root, 0);
  walk.reverse();
  const rows: Line[] = [];
  let run: Line[] = [];
  const flush = (): void => {
    const last = run[run.length - 1];
    if (last && run.length >= 2) rows.push({ ...last, turn: run[0]!.turn, turns: run.length });
    else rows.push(...run);
    run = [];
  };
  for (const { turn, lane } of walk) {
    const { parent, spawn, stays } = turns[turn]!;
    const line = { turn, lane, startsBranch: parent >= 0 && main[parent] !== turn, turns: 1 };
    if (folded && children[turn]!.length === 1 && parent >= 0 && !spawn && !stays) run.push(line);
    else {
      flush();
      rows.push(line);
    }
  }
  flush();
  return rows;
}

describe("rows", () => {
  test.each([false, true])("are those of the terminal (folded: %s)", (folded) => {
    fc.assert(
      fc.property(forests, ({ turns, places, forest }) => {
        const index = new Map(places.map((place, i) => [placeKey(place.segment, place.depth), i]));
        const rows = rowsOf(forest, layOut(forest), { folded });
        const drawn = [...lines(rows)].map(({ segment, depth, lane, startsBranch, turns: number }) => ({
          turn: index.get(placeKey(segment, depth)),
          lane,
          startsBranch,
          turns: number,
        }));
        expect(drawn).toEqual(reference(turns, folded));
      }),
      { numRuns: 400 },
    );
  });

  test("keep pinned threads straight as the terminal does", () => {
    fc.assert(
      fc.property(forests, fc.array(fc.nat(1000), { maxLength: 3 }), ({ turns, places, forest }, picks) => {
        const pinned = picks.map((pick) => pick % turns.length);
        const layout = layOut(
          forest,
          pinned.map((i) => places[i]!),
        );
        const drawn = [...lines(rowsOf(forest, layout, { folded: false }))].map((line) => line.lane);
        expect(drawn).toEqual(reference(turns, false, pinned).map((line) => line.lane));
      }),
    );
  });

  test("find every turn again, folded or opened", () => {
    fc.assert(
      fc.property(forests, fc.boolean(), ({ forest, places }, folded) => {
        const layout = layOut(forest);
        const closed = rowsOf(forest, layout, { folded });
        const runs = [...lines(closed)].filter((line) => line.kind === "run");
        const open = new Set(runs.slice(0, 1).map((line) => placeKey(line.segment, line.depth)));
        for (const rows of [closed, rowsOf(forest, layout, { folded, open })]) {
          for (const { segment, depth } of places) {
            const row = rows.at(rows.rowOf(segment, depth));
            expect(row.kind).not.toBe("tree");
            if (row.kind === "turn") expect([row.segment, row.depth]).toEqual([segment, depth]);
          }
          let shown = 0;
          for (const line of lines(rows)) shown += line.turns;
          expect(shown).toBe(places.length);
        }
        for (const run of runs.slice(0, 1)) {
          const rows = rowsOf(forest, layout, { folded, open });
          expect(rows.at(rows.rowOf(run.segment, run.depth)).kind).toBe("turn");
          expect(rows.openRun(run.oldest.segment, run.oldest.depth)).toBe(placeKey(run.segment, run.depth));
        }
      }),
    );
  });

  test("have one heading a tree, and only the trees that are kept", () => {
    fc.assert(
      fc.property(forests, ({ turns, forest }) => {
        const layout = layOut(forest);
        const rows = rowsOf(forest, layout, { folded: true });
        const roots = turns.filter((turn) => turn.parent < 0).length;
        let headings = 0;
        for (let row = 0; row < rows.length; row++) if (rows.at(row).kind === "tree") headings++;
        expect([headings, rows.trees, layout.trees]).toEqual([roots, roots, roots]);
        const first = rows.at(0).piece;
        const one = rowsOf(forest, layout, { folded: true, keeps: (root) => root === first });
        expect(one.trees).toBe(1);
        expect(one.turns).toBe(layout.turns[first]);
      }),
    );
  });
});

test("lanes grow with the logarithm of the turns", () => {
  fc.assert(
    fc.property(forests, ({ forest, turns }) => {
      const plain = turns.filter((turn) => !turn.spawn).length === turns.length;
      fc.pre(plain);
      expect(layOut(forest).lanes).toBeLessThanOrEqual(Math.log2(turns.length) + 1);
    }),
  );
});

test("a forest that grows by parts equals the forest that came at once", () => {
  fc.assert(
    fc.property(fc.array(choice, { minLength: 2, maxLength: 60 }), fc.nat(1000), (choices, cut) => {
      const early = sampleForest(choices.slice(0, 1 + (cut % (choices.length - 1))));
      const all = sampleForest(choices);
      const late = grown(early.forest, { ...all.columns, whole: false, position: "2" });
      const show = (forest: typeof late) => [...lines(rowsOf(forest, layOut(forest), { folded: true }))];
      expect(show(late)).toEqual(show(all.forest));
      expect(late.turns).toBe(all.turns.length);
    }),
  );
});

test("a million turns are laid out without an array of turns", () => {
  const columns = sampleForest([]).columns;
  const { segments } = columns;
  for (let i = 0; i < 70_000; i++) {
    const parent = i < 700 ? -1 : Math.floor(i / 3);
    const low = parent < 0 ? 1 : segments.low[parent]! + 5;
    segments.id.push(i);
    segments.parent.push(parent);
    segments.parent_depth.push(parent < 0 ? 0 : low - 1);
    segments.low.push(low);
    segments.high.push(low + 14);
    segments.first_ms.push(i * 1000);
    segments.last_ms.push(i * 1000 + 600_000);
    segments.agent.push(0);
    segments.project.push(0);
    segments.first_turn.push(`t${String(i).padStart(8, "0")}`);
    segments.last_turn.push(`t${String(i).padStart(8, "0")}`);
  }
  const forest = grown(sampleForest([]).forest, { ...columns, whole: true });
  const rows = rowsOf(forest, layOut(forest), { folded: false, headings: false });
  expect(rows.length).toBe(70_000 * 15);
  expect(rows.rowOf(69_999, forest.high[69_999]!)).toBeGreaterThanOrEqual(0);
});
