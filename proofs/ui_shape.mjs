// Draws shapes as the page does: a JSON line in, the rows of its graph as a JSON line out.
import { createInterface } from "node:readline";

const { forestOf } = await import("../web/src/core/forest.ts");
const { layOut, lines, rowsOf } = await import(process.argv[2] ?? "../web/src/core/layout.ts");

for await (const line of createInterface({ input: process.stdin })) {
  const { shape, folded, pinned } = JSON.parse(line);
  const forest = forestOf(shape);
  const ids = shape.segments.id;
  const places = pinned.map(([segment, depth]) => ({ segment: ids.indexOf(segment), depth }));
  const layout = layOut(forest, places);
  const rows = [...lines(rowsOf(forest, layout, { folded }))].map((row) => ({
    is_run: row.kind === "run",
    newest: [ids[row.segment], row.depth],
    oldest: [ids[row.oldest.segment], row.oldest.depth],
    turns: row.turns,
    lane: row.lane,
    starts_branch: row.startsBranch,
    spawn: row.spawn,
  }));
  process.stdout.write(`${JSON.stringify(rows)}\n`);
}
