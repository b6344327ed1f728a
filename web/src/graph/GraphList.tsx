import { GitFork, Tag } from "lucide-react";
import {
  memo,
  type Ref,
  useCallback,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { rowAt, type TurnRow, useRowVersion } from "../api/rows.ts";
import { agentName, toneOf } from "../core/agents.ts";
import { type Place, placeKey, timeOf, titleOfSegment } from "../core/forest.ts";
import { age, count, figure, moment, short, shortId, titled } from "../core/format.ts";
import type { GraphRow } from "../core/layout.ts";
import { useNow } from "../parts/useNow.ts";
import { type Cursor, useCursor } from "./cursor.ts";
import { drawLanes, laneX, type Measures } from "./drawLanes.ts";
import { Minimap } from "./Minimap.tsx";
import { type Graph, threadMap } from "./useGraph.ts";

const ROW = 30;
const HEAD = 28;
const OVER = 6;
/** Lanes are drawn by tiles, so that scrolling draws only what comes in; dashes go on from tile to tile. */
const TILE = 8;
/** Browsers clamp an element at some 17 to 33 million pixels; beyond this, positions are mapped. */
const SPACER_MAX = 15_000_000;

export interface ListHandle {
  focus(): void;
}

interface Props {
  ref: Ref<ListHandle>;
  graph: Graph;
  cursor: Cursor;
  selected: Place | null;
  running: ReadonlySet<number>;
  marked: string;
  /** Without lanes it is a plain list of the same rows. */
  hasLanes: boolean;
  select: (place: Place) => void;
  enter: (place: Place, kind: GraphRow["kind"]) => void;
  step: (by: number) => void;
  goto: (to: "parent" | "main") => void;
}

/** A window of rows over one drawing of their lanes. */
export function GraphList(props: Props) {
  const { ref, graph, cursor, selected, running, marked, hasLanes, select, enter, step, goto } = props;
  const { rows, layout } = graph;
  const now = useNow();
  const version = useRowVersion();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [size, setSize] = useState({ width: 900, height: 600 });
  useImperativeHandle(ref, () => ({ focus: () => box.current?.focus({ preventScroll: true }) }), []);

  const whole = rows.length * ROW;
  const spacer = Math.min(whole, SPACER_MAX);
  const view = Math.max(ROW, size.height - HEAD);
  const ratio = spacer > view ? (whole - view) / (spacer - view) : 1;
  /** The position in the whole list, and how far what is drawn is shifted into the spacer. */
  const at = Math.max(0, Math.min(top * ratio, whole - view));
  const shift = Math.round(top - at);
  const first = Math.max(0, Math.floor(at / ROW) - OVER);
  const last = Math.min(rows.length, Math.ceil((at + view) / ROW) + OVER);

  useLayoutEffect(() => {
    const element = box.current!;
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry!.contentRect;
      setSize({ width, height });
    });
    observer.observe(element);
    performance.mark("graph-ready");
    return () => observer.disconnect();
  }, []);
  const scrollTo = useCallback(
    (position: number) => {
      if (box.current) box.current.scrollTop = position / ratio;
    },
    [ratio],
  );

  const row = selected ? rows.rowOf(selected.segment, selected.depth) : -1;
  const latest = useRef({ at, view });
  latest.current = { at, view };
  // When rows come or fold, what the reader looks at stays where it is.
  const anchor = useRef<{ rows: Graph["rows"]; place: Place; offset: number } | null>(null);
  useLayoutEffect(() => {
    const before = anchor.current;
    if (!before || before.rows === rows) return;
    const now = rows.rowOf(before.place.segment, before.place.depth);
    if (now >= 0) scrollTo(now * ROW - before.offset);
  }, [rows, scrollTo]);
  useLayoutEffect(() => {
    const isSeen = row * ROW >= at && (row + 1) * ROW <= at + view;
    const top = isSeen ? row : Math.min(rows.length - 1, Math.ceil(at / ROW));
    const line = top >= 0 && (isSeen || at > 0) ? rows.at(top) : null;
    anchor.current = line ? { rows, place: line, offset: top * ROW - at } : null;
  });
  // The cursor comes into view when it moves, not when the reader scrolls.
  const reveal = useCallback(
    (chosen: number) => {
      const { at: from, view: room } = latest.current;
      const y = chosen * ROW;
      if (y < from + ROW) scrollTo(y - ROW * 3);
      else if (y + ROW > from + room - ROW) scrollTo(y + ROW * 4 - room);
    },
    [scrollTo],
  );

  const laneWidth = Math.max(5, Math.min(16, (size.width * 0.34) / Math.max(1, layout.lanes)));
  const measures: Measures = useMemo(() => ({ row: ROW, lane: laneWidth, edge: 20 }), [laneWidth]);
  const gutter = laneX(measures, Math.max(1, layout.lanes - 1)) + 20;
  const thread = useMemo(() => threadMap(graph.forest, selected), [graph.forest, selected]);
  const tiles = [];
  for (let from = first - (first % TILE); hasLanes && from < last; from += TILE) {
    tiles.push(
      <Lanes
        key={from}
        graph={graph}
        thread={thread}
        running={running}
        from={from}
        measures={measures}
        width={gutter}
        y={from * ROW + shift}
      />,
    );
  }

  const pick = useCallback(
    (place: Place) => {
      select(place);
      box.current?.focus({ preventScroll: true });
    },
    [select],
  );
  const items = [];
  let isMissing = false;
  for (let index = first; index < last; index++) {
    const line = rows.at(index);
    // Asking is part of drawing: what is not in view is never asked for.
    const data = line.kind === "run" ? undefined : rowAt(graph.forest, line.segment, line.depth);
    if (line.kind === "turn" && !data) isMissing = true;
    items.push(
      <Row
        key={`${line.kind} ${placeKey(line.segment, line.depth)}`}
        graph={graph}
        index={index}
        y={index * ROW + shift}
        data={data}
        now={now}
        isSelected={index === row}
        isOnThread={line.kind !== "tree" && line.depth <= (thread.get(line.segment) ?? -1)}
        isMarked={marked !== "" && data?.turn === marked}
        hits={graph.litRows.get(index) ?? 0}
        isDim={graph.litRows.size > 0}
        isRunning={running.has(line.segment) && line.depth === graph.forest.high[line.segment]}
        gutter={gutter}
        select={pick}
        enter={enter}
      />,
    );
  }
  void version;
  const page = Math.max(1, Math.floor(view / ROW) - 2);
  const onKey = (event: React.KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    // The cursor is ahead of the selection while keys are pressed.
    const at = cursor.get();
    const index = at ? rows.rowOf(at.segment, at.depth) : -1;
    const line = index >= 0 ? rows.at(index) : null;
    const place = line ? { segment: line.segment, depth: line.depth } : null;
    const actions = new Map([
      ["ArrowDown", () => step(1)],
      ["ArrowUp", () => step(-1)],
      ["PageDown", () => step(page)],
      ["PageUp", () => step(-page)],
      ["Home", () => step(-rows.length)],
      ["End", () => step(rows.length)],
      ["ArrowLeft", () => goto("parent")],
      ["ArrowRight", () => (line?.kind === "run" && place ? enter(place, "run") : goto("main"))],
      ["Enter", () => void (line && place && enter(place, line.kind))],
    ]);
    const action = actions.get(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  };
  return (
    <div className="graph-body">
      <div
        ref={box}
        className="graph-rows"
        role="treegrid"
        aria-label="Turns, newest first"
        aria-rowcount={rows.length + 1}
        aria-colcount={6}
        aria-busy={isMissing}
        aria-activedescendant={row >= first && row < last ? `graph-row-${row}` : undefined}
        tabIndex={0}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={onKey}
      >
        {/* biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus, its rows are descendants */}
        <div className="graph-heads" role="row" aria-rowindex={1}>
          <span
            role="columnheader"
            tabIndex={-1}
            style={{ paddingInlineStart: gutter }}
            className="graph-title"
          >
            Turn
          </span>
          <span role="columnheader" tabIndex={-1} className="graph-who">
            Agent
          </span>
          <span role="columnheader" tabIndex={-1} className="graph-model">
            Model
          </span>
          <span role="columnheader" tabIndex={-1} className="graph-tokens">
            Tokens
          </span>
          <span role="columnheader" tabIndex={-1} className="graph-age">
            Age
          </span>
          <span role="columnheader" tabIndex={-1} className="graph-address">
            Address
          </span>
        </div>
        <div className="graph-spacer" role="rowgroup" style={{ height: spacer }}>
          <CursorBar cursor={cursor} rows={rows} shift={shift} reveal={reveal} />
          {tiles}
          {items}
        </div>
      </div>
      <Minimap
        graph={graph}
        at={at / Math.max(1, whole)}
        share={Math.min(1, view / Math.max(1, whole))}
        go={(part) => scrollTo(part * whole - view / 2)}
      />
    </div>
  );
}

const tone = (at: number): string => `var(--tone-${at})`;

/** The turn that is selected. A key moves this first, and the rest of the page after the paint. */
function CursorBar(props: {
  cursor: Cursor;
  rows: Graph["rows"];
  shift: number;
  reveal: (row: number) => void;
}) {
  const { rows, reveal } = props;
  const place = useCursor(props.cursor);
  const row = place ? rows.rowOf(place.segment, place.depth) : -1;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another place, not another list, is a move
  useLayoutEffect(() => {
    if (row >= 0) reveal(row);
  }, [place]);
  return row < 0 ? null : <div className="graph-cursor" style={{ top: row * ROW + props.shift }} />;
}

const Lanes = memo(function Lanes(props: {
  graph: Graph;
  thread: ReadonlyMap<number, number>;
  running: ReadonlySet<number>;
  from: number;
  measures: Measures;
  width: number;
  y: number;
}) {
  const { graph, thread, running, from, measures } = props;
  const to = Math.min(from + TILE, graph.rows.length);
  const strokes = useMemo(
    () => drawLanes({ ...graph, thread, running, from, to }, measures),
    [graph, thread, running, from, to, measures],
  );
  const paths = (group: ReadonlyMap<number, string>, more: React.SVGProps<SVGPathElement>) =>
    [...group].map(([at, d]) => <path key={at} d={d} stroke={tone(at)} {...more} />);
  return (
    <svg
      className="graph-lanes"
      width={props.width}
      height={(to - from) * ROW}
      style={{ top: props.y }}
      aria-hidden="true"
      fill="none"
      strokeLinecap="round"
      strokeWidth={2}
    >
      {paths(strokes.solid, {})}
      {paths(strokes.dashed, { strokeDasharray: "1.5 4.5" })}
      {paths(strokes.strong, { strokeWidth: 4.4 })}
      {paths(strokes.strongDashed, { strokeWidth: 4, strokeDasharray: "2 6" })}
      {[...strokes.dots].map(([at, d]) => (
        <path key={at} d={d} fill={tone(at)} stroke="var(--paper)" strokeWidth={1.2} />
      ))}
      {paths(strokes.rings, { fill: "var(--paper)", strokeWidth: 2.2 })}
      {paths(strokes.diamonds, { fill: "var(--paper)", strokeWidth: 2.2, strokeLinejoin: "round" })}
      {strokes.crosses ? <path d={strokes.crosses} stroke="var(--paper)" strokeWidth={7} /> : null}
      {strokes.crosses ? <path d={strokes.crosses} stroke="var(--bad)" strokeWidth={2.4} /> : null}
      {paths(strokes.live, { className: "graph-live", strokeWidth: 1.6 })}
    </svg>
  );
});

interface RowProps {
  graph: Graph;
  index: number;
  y: number;
  data: TurnRow | undefined;
  now: number;
  isSelected: boolean;
  isOnThread: boolean;
  isMarked: boolean;
  hits: number;
  isDim: boolean;
  isRunning: boolean;
  gutter: number;
  select: (place: Place) => void;
  enter: (place: Place, kind: GraphRow["kind"]) => void;
}

const Row = memo(function Row(props: RowProps) {
  const { graph, index, data, isSelected, hits } = props;
  const line = graph.rows.at(index);
  const place = { segment: line.segment, depth: line.depth };
  // Not a transform: each would be a layer of its own to the browser, at every paint.
  const style = { top: props.y };
  if (line.kind === "tree") return <TreeRow {...props} line={line} style={style} />;
  const names = [
    "graph-row",
    line.kind,
    isSelected ? "selected" : "",
    props.isOnThread ? "thread" : "",
    hits ? "lit" : props.isDim ? "dim" : "",
    props.isMarked ? "marked" : "",
  ];
  const common = {
    id: `graph-row-${index}`,
    className: names.filter(Boolean).join(" "),
    "aria-rowindex": index + 2,
    "aria-level": line.lane + 2,
    "aria-selected": isSelected,
    style,
    // The grid keeps the focus: a row that has it would take it away when it scrolls out of view.
    onMouseDown: (event: React.MouseEvent) => event.preventDefault(),
    onClick: () => {
      props.select(place);
      if (line.kind === "run") props.enter(place, "run");
    },
    onDoubleClick: () => {
      if (line.kind === "turn") props.enter(place, "turn");
    },
  };
  if (line.kind === "run") {
    const words = `${count(line.turns, "turn")}${hits ? `, ${count(hits, "hit")}` : ""}`;
    return (
      <div
        role="row"
        tabIndex={-1}
        {...common}
        aria-expanded={false}
        aria-label={`${words}, folded, lane ${line.lane + 1}`}
      >
        <span
          role="gridcell"
          tabIndex={-1}
          className="graph-title"
          style={{ paddingInlineStart: props.gutter }}
        >
          <span className="graph-run">{words}</span>
        </span>
      </div>
    );
  }
  return (
    <div role="row" tabIndex={-1} {...common} aria-label={nameOf(graph, line, data, props)}>
      <TurnCells {...props} line={line} />
    </div>
  );
});

function TurnCells(props: RowProps & { line: GraphRow }) {
  const { graph, line, data, now } = props;
  const { forest } = graph;
  const key = placeKey(line.segment, line.depth);
  const agent = data?.agent ?? forest.agents[forest.agent[line.segment]!];
  const sessions = (forest.sessionsAt.get(line.segment) ?? []).filter(
    (session) => session.depth === line.depth,
  );
  const tags = (forest.marksAt.get(line.segment) ?? []).filter(
    (mark) => mark.kind === "tag" && mark.depth === line.depth,
  );
  const glyph = graph.glyphs.get(key);
  const isBad = glyph === "failed";
  const at = data?.at_ms ?? timeOf(forest, line.segment, line.depth);
  return (
    <>
      <span
        role="gridcell"
        tabIndex={-1}
        className={`graph-title tone-${toneOf(agent)}`}
        style={{ paddingInlineStart: props.gutter }}
      >
        {line.children > 1 ? (
          <span className="graph-forks" title={`${line.children} branches leave here`}>
            <GitFork aria-hidden="true" />
            {line.children}
          </span>
        ) : null}
        {sessions.slice(0, 2).map((session) => (
          <span
            key={session.id}
            className={session.archived ? "graph-session archived" : "graph-session"}
            title={session.label}
          >
            {nameFor(session.label)}
          </span>
        ))}
        {tags.map((tag) => (
          <span key={tag.name} className="graph-tag">
            <Tag aria-hidden="true" />
            {tag.name}
          </span>
        ))}
        {glyph === "compaction" && !data?.title.toLowerCase().startsWith("compaction") ? (
          <span className="graph-word">compaction</span>
        ) : null}
        {isBad ? <span className="graph-word bad">{data?.outcome ?? "failed"}</span> : null}
        {props.isRunning ? <span className="graph-word live">at work</span> : null}
        <span className="graph-text">
          {data ? titled(data.title) : (titleAtEnd(graph, line) ?? <i className="graph-wait" />)}
        </span>
      </span>
      <span role="gridcell" tabIndex={-1} className="graph-who">
        {agentName(agent)}
      </span>
      <span role="gridcell" tabIndex={-1} className="graph-model">
        {data?.model ?? ""}
      </span>
      <span role="gridcell" tabIndex={-1} className={`graph-tokens tone-${toneOf(agent)}`}>
        {data?.tokens ? (
          <>
            <i style={{ width: Math.max(2, Math.min(30, Math.sqrt(data.tokens) / 22)) }} aria-hidden="true" />
            <b>{short(data.tokens)}</b>
          </>
        ) : null}
      </span>
      <span role="gridcell" tabIndex={-1} className="graph-age" title={moment(at, now)}>
        {age(at, now)}
      </span>
      <span role="gridcell" tabIndex={-1} className="graph-address">
        {data ? shortId(data.digest) : ""}
      </span>
    </>
  );
}

function TreeRow(props: RowProps & { line: GraphRow; style: React.CSSProperties }) {
  const { graph, line, index, now } = props;
  const { forest, layout } = graph;
  const project = forest.projects[forest.project[line.segment]!];
  const root = layout.segment[line.piece]!;
  const title = props.data ? titled(props.data.title) : titleOfSegment(forest, root);
  const newest = graph.newest.get(line.piece);
  const words = count(line.turns, "turn");
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the grid has the focus, its rows are descendants
    <div
      id={`graph-row-${index}`}
      className="graph-row tree"
      role="row"
      aria-rowindex={index + 2}
      aria-level={1}
      aria-expanded={true}
      aria-label={`Tree ${title ?? ""}${project ? ` in ${project}` : ""}, ${words}`}
      style={props.style}
    >
      <span role="gridcell" tabIndex={-1} className="graph-title">
        <b>{project ?? "No project"}</b>
        <em>{title ?? ""}</em>
        <span className="graph-count">
          {words}
          {newest ? `, ${age(newest, now)}` : ""}
        </span>
      </span>
    </div>
  );
}

/** Imported labels end in hexadecimal digits and begin with the tool; what is between names the work. */
function nameFor(label: string): string {
  const parts = label.split("/");
  return parts[parts.length - 1] || label;
}

function titleAtEnd(graph: Graph, line: GraphRow): string | null {
  const session = graph.forest.sessionsAt.get(line.segment)?.find((one) => one.depth === line.depth);
  return session && line.depth === graph.forest.low[line.segment] ? session.title || null : null;
}

/** The whole row as words: nothing is told by colour or place alone. */
function nameOf(graph: Graph, line: GraphRow, data: TurnRow | undefined, props: RowProps): string {
  const { forest } = graph;
  const glyph = graph.glyphs.get(placeKey(line.segment, line.depth));
  const sessions = (forest.sessionsAt.get(line.segment) ?? []).filter(
    (session) => session.depth === line.depth,
  );
  const words = [
    data ? titled(data.title) : "Turn",
    agentName(data?.agent ?? forest.agents[forest.agent[line.segment]!]),
    `${age(data?.at_ms ?? timeOf(forest, line.segment, line.depth), props.now)} old`,
    `turn ${figure(line.depth)}`,
    `lane ${line.lane + 1}`,
  ];
  if (line.startsBranch) words.push(line.spawn ? "first turn of a subagent" : "first turn of a branch");
  if (line.children > 1) words.push(`${line.children} branches leave here`);
  if (sessions.length) words.push(`head of ${sessions.map((session) => session.label).join(" and ")}`);
  else if (line.children === 0) words.push("end of a branch");
  if (glyph === "compaction") words.push("compaction");
  if (glyph === "failed") words.push(data?.outcome ?? "failed");
  if (props.isRunning) words.push("at work");
  if (props.isMarked) words.push("marked for comparison");
  if (props.hits) words.push("found by the search");
  return words.join(", ");
}
