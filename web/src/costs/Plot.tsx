import { useEffect, useRef, useSyncExternalStore } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { dayInUtc as day, dollars, short } from "../core/format.ts";
import type { Measure } from "../core/spending.ts";
import { paint } from "../parts/paint.ts";
import { onTheme, shown } from "../shell/theme.ts";

const HEIGHT = 220;
const DAY_S = 86_400;

interface Line {
  name: string;
  /** Null for what is too small for a colour of its own. */
  tone: number | null;
  values: readonly number[];
}

/** Days as stacked bars. Drawing over some of them chooses them; the fields above do the same by keys. */
export default function Plot(props: {
  days: readonly string[];
  lines: readonly Line[];
  measure: Measure;
  from: string | undefined;
  to: string | undefined;
  choose: (from: string | undefined, to: string | undefined) => void;
}) {
  const { days, lines, measure, from, to } = props;
  const box = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLParagraphElement>(null);
  const theme = useSyncExternalStore(onTheme, shown);
  const choose = useRef(props.choose);
  choose.current = props.choose;

  // biome-ignore lint/correctness/useExhaustiveDependencies: new colours draw it anew
  useEffect(() => {
    const element = box.current!;
    const times = days.map((day) => Date.parse(day) / 1000);
    const first = times[0] ?? 0;
    const last = times.at(-1) ?? 0;
    const dayAt = (time: number) => days[Math.round((time - first) / DAY_S)];
    const worth = (value: number) => (measure === "cost" ? dollars(value) : `${short(value)} tokens`);
    // The last sum is drawn first, so that each bar covers the one above it but for its own part.
    const sums = stacked(lines.map((line) => line.values));
    const isIn = (day: string | undefined) =>
      day !== undefined && (!from || day >= from) && (!to || day <= to);
    const ink = paint("--ink-3");
    const axis = {
      stroke: ink,
      font: `11.5px ${getComputedStyle(element).fontFamily}`,
      grid: { stroke: paint("--rule"), width: 1 },
      ticks: { show: false },
    };
    const bars = uPlot.paths.bars!({ size: [0.78, 34], radius: 0.08 });
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        tzDate: (time) => uPlot.tzDate(new Date(time * 1000), "UTC"),
        legend: { show: false },
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
        },
        scales: {
          x: { time: true, range: () => [first - DAY_S * 0.6, last + DAY_S * 0.6] },
          y: { range: (_plot, _low, high) => [0, Math.max(high * 1.08, measure === "cost" ? 0.01 : 1)] },
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            space: 70,
            incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((step) => step * DAY_S),
            values: (_plot, values) => values.map((value) => day(value * 1000, last * 1000)),
          },
          {
            ...axis,
            size: 62,
            values: (_plot, values) =>
              values.map((value) => (measure === "cost" ? dollars(value) : short(value))),
          },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.name,
            fill: paint(line.tone === null ? "--ink-4" : `--tone-${line.tone}`),
            width: 0,
            paths: bars,
            points: { show: false },
          })),
        ].map((series, index, all) => (index === 0 ? series : all[all.length - index]!)),
        hooks: {
          draw: [
            // What is not chosen is veiled, not hidden.
            (drawn) => {
              if (!from && !to) return;
              const { ctx, bbox } = drawn;
              const left = from ? drawn.valToPos(Date.parse(from) / 1000 - DAY_S / 2, "x", true) : bbox.left;
              const right = to
                ? drawn.valToPos(Date.parse(to) / 1000 + DAY_S / 2, "x", true)
                : bbox.left + bbox.width;
              ctx.save();
              ctx.globalAlpha = 0.72;
              ctx.fillStyle = paint("--paper");
              ctx.fillRect(bbox.left, bbox.top, Math.max(0, left - bbox.left), bbox.height);
              ctx.fillRect(right, bbox.top, Math.max(0, bbox.left + bbox.width - right), bbox.height);
              ctx.restore();
            },
          ],
          setSelect: [
            (drawn) => {
              if (drawn.select.width < 4) return;
              const low = dayAt(clamp(drawn.posToVal(drawn.select.left, "x"), first, last));
              const high = dayAt(
                clamp(drawn.posToVal(drawn.select.left + drawn.select.width, "x"), first, last),
              );
              drawn.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              choose.current(low, high);
            },
          ],
          setCursor: [
            (drawn) => {
              const at = drawn.cursor.idx;
              const told = tip.current;
              if (!told) return;
              const day = at === null || at === undefined ? undefined : days[at];
              told.hidden = day === undefined;
              if (at === null || at === undefined || day === undefined) return;
              const parts = lines
                .map((line) => ({ name: line.name, value: line.values[at] ?? 0 }))
                .filter((part) => part.value > 0)
                .map((part) => `${part.name} ${worth(part.value)}`);
              told.textContent = `${day}${isIn(day) ? "" : " (not chosen)"}: ${parts.join(", ") || "nothing"}`;
            },
          ],
        },
      },
      [times, ...sums.toReversed()],
      element,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [days, lines.map((line) => line.name).join(), lines[0]?.values, measure, from, to, theme]);

  const whole = lines.flatMap((line) => line.values).reduce((sum, value) => sum + value, 0);
  return (
    <figure className="plot">
      <div
        ref={box}
        role="img"
        aria-label={`${measure === "cost" ? dollars(whole) : `${short(whole)} tokens`} from ${days[0] ?? ""} to ${days.at(-1) ?? ""}, by day. The table below says the same.`}
      />
      <p className="plot-tip" ref={tip} hidden />
    </figure>
  );
}

function stacked(rows: readonly (readonly number[])[]): number[][] {
  const sums: number[][] = [];
  for (const row of rows) {
    const below = sums.at(-1);
    sums.push(row.map((value, index) => value + (below?.[index] ?? 0)));
  }
  return sums;
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
