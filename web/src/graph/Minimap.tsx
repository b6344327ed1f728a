import { memo, useEffect, useLayoutEffect, useRef, useState } from "react";
import { canvasContext, readInks } from "../canopy/inks.ts";
import { onTheme } from "../shell/theme.ts";
import type { Graph } from "./useGraph.ts";

/** At most so many rows are looked at for one pixel. */
const SAMPLES = 4;

/** The whole list in a strip: where one is, what is lit, what failed. */
export const Minimap = memo(function Minimap(props: {
  graph: Graph;
  at: number;
  share: number;
  go: (part: number) => void;
}) {
  const { graph, at, share, go } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, setSize] = useState({ width: 0, height: 0, theme: 0 });
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      setSize((old) => ({ ...old, width, height }));
    });
    observer.observe(canvas.current!);
    const offTheme = onTheme(() => setSize((old) => ({ ...old, theme: old.theme + 1 })));
    return () => {
      observer.disconnect();
      offTheme();
    };
  }, []);
  useEffect(() => {
    const { width, height } = size;
    if (width < 2 || height < 2) return;
    const g = canvasContext(canvas.current!, width, height, devicePixelRatio);
    g.clearRect(0, 0, width, height);
    const inks = readInks();
    const { rows, layout, forest, tones } = graph;
    const rowHeight = Math.min(6, height / Math.max(1, rows.length));
    const lane = Math.min(6, (width - 20) / Math.max(1, layout.lanes));
    const isLit = graph.litRows.size > 0;
    g.globalAlpha = isLit ? 0.25 : 0.85;
    const perPixel = 1 / rowHeight;
    const step = Math.max(1, perPixel / SAMPLES);
    let lastCell = -1;
    for (let at = 0; at < rows.length; at += step) {
      const row = rows.at(Math.floor(at));
      if (row.kind === "tree") continue;
      const y = Math.floor(at * rowHeight);
      const cell = y * 64 + row.lane;
      if (cell === lastCell && rowHeight < 1) continue;
      lastCell = cell;
      g.fillStyle = inks.tones[tones[forest.agent[row.segment]!] ?? 0]!;
      g.fillRect(
        7 + row.lane * lane,
        at * rowHeight,
        Math.max(1.6, lane - 1),
        Math.max(1, rowHeight - (rowHeight > 2 ? 1 : 0)),
      );
    }
    g.globalAlpha = 1;
    g.fillStyle = inks.bad;
    // A longer tick where more have failed: a tick for each would be a wall.
    const failed = new Map<number, number>();
    for (const row of graph.failedRows) {
      const y = Math.floor(row * rowHeight * 0.5) * 2;
      failed.set(y, (failed.get(y) ?? 0) + 1);
    }
    for (const [y, number] of failed) {
      const long = Math.min(9, 2 + number * 1.5);
      g.fillRect(width - 2 - long, y, long, 1.4);
    }
    g.fillStyle = inks.glow;
    for (const row of graph.litRows.keys())
      g.fillRect(4, row * rowHeight - 0.5, width - 14, Math.max(2, rowHeight));
  }, [graph, size]);
  const rowsHeight = Math.min(size.height, graph.rows.length * 6);
  const move = (event: React.PointerEvent<HTMLDivElement>) => {
    const rect = event.currentTarget.getBoundingClientRect();
    go(Math.max(0, Math.min(1, (event.clientY - rect.top) / Math.max(1, rowsHeight))));
  };
  return (
    <div
      className="graph-minimap"
      aria-hidden="true"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        move(event);
      }}
      onPointerMove={(event) => {
        if (event.buttons) move(event);
      }}
    >
      <canvas ref={canvas} />
      {share < 1 ? <i style={{ top: at * rowsHeight, height: Math.max(8, share * rowsHeight) }} /> : null}
    </div>
  );
});
