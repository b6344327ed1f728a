import { useNavigate, useSearch } from "@tanstack/react-router";
import { FoldVertical, GitFork, Sprout } from "lucide-react";
import { startTransition, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { useActKeys } from "../act/useActs.ts";
import { refreshForest, useForest } from "../api/forest.ts";
import { findRows, knownRow, readPlace } from "../api/rows.ts";
import { lightWords, useLight } from "../canopy/lightWords.ts";
import { useRunning } from "../canopy/useRunning.ts";
import { agentName } from "../core/agents.ts";
import { countForks, type Forest, type Place, type SessionRow } from "../core/forest.ts";
import { bareDigest, count, figure } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { useTitle } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useHotkeys } from "../parts/useHotkeys.ts";
import type { Address } from "../shell/address.ts";
import { Begin } from "../shell/Begin.tsx";
import { afterPaint, Cursor } from "./cursor.ts";
import { GraphList, type ListHandle } from "./GraphList.tsx";
import { TurnPanel } from "./TurnPanel.tsx";
import { keyOf, neighbour, useGraph } from "./useGraph.ts";
import "./graph.css";

export default function GraphPage() {
  useTitle("Graph");
  const { forest, error } = useForest();
  if (forest && forest.turns > 0) return <GraphView forest={forest} />;
  return (
    <div className="page">
      <h1 className="visually-hidden">Graph</h1>
      {forest ? (
        <Empty icon={<Sprout aria-hidden="true" />} title="No turns yet" action={<Begin />}>
          The graph shows every turn of every session, and where branches leave.
        </Empty>
      ) : error ? (
        <Failure error={error} retry={() => void refreshForest()} />
      ) : (
        <Skeleton label="Reading your history" rows={14} />
      )}
    </div>
  );
}

/** A turn by its segment's id, which stays the same when the forest grows. */
interface Selection {
  id: number;
  depth: number;
}

const NONE_OPEN: ReadonlySet<number> = new Set();
const FOLD_ALL = "Z";
const LET_GO = "Escape";

function GraphView({ forest }: { forest: Forest }) {
  const search = useSearch({ strict: false }) as Address;
  const navigate = useNavigate();
  const light = useLight();
  const running = useRunning(forest);
  const [open, setOpen] = useState<ReadonlySet<number>>(NONE_OPEN);
  const [cursor] = useState(() => new Cursor());
  const [selection, setSelection] = useState<Selection | null>(null);
  const list = useRef<ListHandle>(null);
  const isFolded = search.fold !== "off";
  const filters = {
    project: search.project ?? "",
    agent: search.agent ?? "",
    isFailed: search.view === "failed",
    label: search.session ?? "",
  };
  const graph = useGraph(forest, filters, isFolded, open, light);
  const { rows } = graph;

  const change = useCallback(
    (next: Partial<Address>) => {
      void navigate({
        to: "/graph",
        search: (old: Address) => {
          const joined: Address = { ...old, ...next };
          for (const name of Object.keys(joined) as (keyof Address)[]) if (!joined[name]) delete joined[name];
          return joined;
        },
        replace: true,
      });
    },
    [navigate],
  );
  useEffect(() => {
    if (search.q) lightWords(search.q);
  }, [search.q]);

  const selected = useMemo((): Place | null => {
    if (selection) {
      const segment = forest.indexOfId.get(selection.id);
      if (segment !== undefined && selection.depth <= forest.high[segment]!)
        return { segment, depth: selection.depth };
    }
    // Nothing is named: the newest turn of the first tree.
    const first = rows.length > 1 ? rows.at(1) : null;
    return first ? { segment: first.segment, depth: first.depth } : null;
  }, [selection, forest, rows]);

  // The cursor is ahead of the selection while keys are pressed; otherwise it is where the selection is.
  const latest = useRef(selection);
  useLayoutEffect(() => {
    if (selection === latest.current) cursor.move(selected);
  }, [cursor, selection, selected]);
  const select = useCallback(
    (place: Place, isTold = true) => {
      const next = { id: forest.columns.segments.id[place.segment]!, depth: place.depth };
      latest.current = next;
      cursor.move(place);
      // The thread, its lanes and the panel are drawn after the cursor is painted.
      afterPaint(() => startTransition(() => setSelection(next)));
      if (!isTold) return;
      void readPlace(forest, place.segment, place.depth).then((row) => {
        if (row) tellLater(() => change({ turn: row.turn }));
      });
    },
    [cursor, forest, change],
  );

  // A turn that the address names, once: afterwards the page itself writes the address.
  const named = useRef<string | null>(null);
  useEffect(() => {
    const { turn } = search;
    if (!turn || named.current !== null) {
      named.current ??= "";
      return;
    }
    named.current = turn;
    void findRows([turn])
      .then(([row]) => {
        if (!row) return;
        latest.current = { id: row.segment, depth: row.depth };
        setSelection(latest.current);
      })
      .catch(() => undefined);
  }, [search]);

  /** Where the cursor is: a key may come before the last one is drawn. */
  const here = () => {
    const place = cursor.get();
    const row = place ? rows.rowOf(place.segment, place.depth) : -1;
    return { place, row, line: row >= 0 ? rows.at(row) : null };
  };
  const selectRow = (next: number, direction = 1) => {
    let at = Math.max(0, Math.min(rows.length - 1, next));
    // A heading is no turn: go on to the next row, or back from the edge.
    while (at > 0 && at < rows.length - 1 && rows.at(at).kind === "tree") at += direction;
    if (rows.at(at).kind === "tree") at = Math.min(rows.length - 1, at + 1);
    const target = rows.at(at);
    select({ segment: target.segment, depth: target.depth });
    list.current?.focus();
  };
  const step = (by: number) => selectRow(here().row + by, by < 0 ? -1 : 1);
  const goto = (to: Parameters<typeof neighbour>[2]) => {
    const { place, line } = here();
    if (!place) return;
    // From a folded run the way back starts at its oldest turn.
    const from = to === "parent" && line?.kind === "run" ? line.oldest : place;
    const next = neighbour(graph, from, to);
    if (next) select(next);
    list.current?.focus();
  };
  const toggleRun = useCallback(
    (place: Place) => {
      const key = graph.rows.openRun(place.segment, place.depth) ?? keyOf(place);
      setOpen((old) => {
        const next = new Set(old);
        if (!next.delete(key)) next.add(key);
        return next;
      });
    },
    [graph.rows],
  );
  const openTurn = useCallback(
    async (place: Place) => {
      const found = await readPlace(forest, place.segment, place.depth);
      if (found) void navigate({ to: "/t/$turn", params: { turn: found.turn } });
    },
    [forest, navigate],
  );
  const mark = async () => {
    const { place } = here();
    if (!place) return;
    const found = await readPlace(forest, place.segment, place.depth);
    if (!found) return;
    if (!search.mark) change({ mark: found.turn });
    else if (search.mark === found.turn) change({ mark: "" });
    else void navigate({ to: "/compare/$pair", params: { pair: `${search.mark}...${found.turn}` } });
  };
  const latestMark = useRef(mark);
  latestMark.current = mark;
  const markSelected = useCallback(() => void latestMark.current(), []);
  const enter = useCallback(
    (place: Place, kind: "turn" | "run" | "tree") => {
      if (kind === "run") toggleRun(place);
      else void openTurn(place);
    },
    [toggleRun, openTurn],
  );
  const nextHit = (direction: 1 | -1) => {
    const hits = [...graph.litRows.keys()].sort((a, b) => a - b);
    if (hits.length === 0) return;
    const { row } = here();
    const next = direction > 0 ? hits.find((one) => one > row) : hits.findLast((one) => one < row);
    selectRow(next ?? (direction > 0 ? hits[0]! : hits[hits.length - 1]!));
  };
  useHotkeys({
    j: () => step(1),
    k: () => step(-1),
    h: () => goto("parent"),
    l: () => goto("main"),
    "[": () => goto("older fork"),
    "]": () => goto("newer fork"),
    ".": () => nextHit(1),
    ",": () => nextHit(-1),
    z: () => {
      const { place, line } = here();
      if (place && (line?.kind === "run" || rows.openRun(place.segment, place.depth) !== null))
        toggleRun(place);
      else change({ fold: isFolded ? "off" : "" });
    },
    [FOLD_ALL]: () => change({ fold: isFolded ? "off" : "" }),
    c: () => void mark(),
    [LET_GO]: () => change({ mark: "" }),
  });

  useActKeys(() => {
    const { place } = here();
    const found = place ? knownRow(forest, place.segment, place.depth) : undefined;
    if (!place || !found) return null;
    const session = sessionOf(forest, place);
    const head = session ? knownHead(forest, session) : null;
    return {
      turn: { id: found.turn, digest: bareDigest(found.digest), title: found.title },
      session: session?.label ?? null,
      ...(head ? { head } : {}),
    };
  });

  const forks = useMemo(() => countForks(forest), [forest]);
  return (
    <div className="graph">
      <h1 className="visually-hidden">Graph</h1>
      <section className="graph-main" aria-label="Turns">
        <div className="graph-bar" role="toolbar" aria-label="What the graph shows">
          <Button
            icon={<FoldVertical aria-hidden="true" />}
            aria-pressed={isFolded}
            onClick={() => change({ fold: isFolded ? "off" : "" })}
            title="Draw unbranched quiet turns as one row (z)"
          >
            Fold quiet runs
          </Button>
          <Choice
            label="Project"
            none="All projects"
            value={filters.project}
            options={forest.projects.map((project) => [project, project])}
            pick={(project) => change({ project })}
          />
          <Choice
            label="Agent"
            none="Every agent"
            value={filters.agent}
            options={forest.agents.map((agent) => [agent, agentName(agent)])}
            pick={(agent) => change({ agent })}
          />
          <Button
            aria-pressed={filters.isFailed}
            onClick={() => change({ view: filters.isFailed ? "" : "failed" })}
          >
            With failures
          </Button>
          <input
            type="search"
            className="graph-label"
            aria-label="Sessions whose label or title has these words"
            placeholder="Label or title"
            value={filters.label}
            onChange={(event) => change({ session: event.target.value })}
          />
          <span className="graph-grow" />
          {search.mark ? (
            <span className="graph-mark" role="status">
              <GitFork aria-hidden="true" />
              One turn marked: <kbd>c</kbd> on another compares
            </span>
          ) : null}
          {light.words ? (
            <span className="graph-mark" role="status">
              {count(light.hits.length, "turn")} lit for <q>{light.words}</q>
              <Button
                kind="quiet"
                onClick={() => {
                  lightWords("");
                  change({ q: "" });
                }}
              >
                Put out
              </Button>
            </span>
          ) : null}
        </div>
        {rows.length === 0 ? (
          <Empty
            title="No tree matches"
            action={
              <Button onClick={() => change({ project: "", agent: "", view: "", session: "" })}>
                Show all trees
              </Button>
            }
          >
            No tree of turns passes the filters.
          </Empty>
        ) : (
          <GraphList
            ref={list}
            graph={graph}
            cursor={cursor}
            selected={selected}
            running={running}
            marked={search.mark ?? ""}
            hasLanes={search.lanes !== "off"}
            select={select}
            enter={enter}
            step={step}
            goto={goto}
          />
        )}
        <footer className="status">
          <span>{count(rows.turns, "turn")}</span>
          <span>{count(rows.trees, "tree")}</span>
          <span className="graph-wide">{figure(rows.length)} rows</span>
          <span className="graph-wide">{count(forks, "fork")}</span>
          <span className="graph-wide">{count(graph.layout.lanes, "lane")} at most</span>
          <span className="keys">
            <span>
              <kbd>j</kbd>
              <kbd>k</kbd>move
            </span>
            <span>
              <kbd>h</kbd>
              <kbd>l</kbd>parent, child
            </span>
            <span>
              <kbd>[</kbd>
              <kbd>]</kbd>fork
            </span>
            <span>
              <kbd>z</kbd>fold
            </span>
            <span>
              <kbd>↵</kbd>open
            </span>
          </span>
        </footer>
      </section>
      <aside className="graph-panel" aria-label="The selected turn">
        {selected ? (
          <TurnPanel graph={graph} place={selected} mark={markSelected} isMarked={Boolean(search.mark)} />
        ) : null}
      </aside>
    </div>
  );
}

/** The session whose thread ends at or after a turn in the same segment. */
function sessionOf(forest: Forest, place: Place): SessionRow | null {
  const sessions = forest.sessionsAt.get(place.segment) ?? [];
  return sessions.findLast((session) => session.depth >= place.depth) ?? null;
}

function knownHead(forest: Forest, { segment, depth }: SessionRow): string | null {
  if (depth === forest.high[segment]) return forest.lastTurn[segment] ?? null;
  return knownRow(forest, segment, depth)?.turn ?? null;
}

let telling: ReturnType<typeof setTimeout> | undefined;

/** The address follows the selection when it rests: the browser allows only so many changes. */
function tellLater(tell: () => void): void {
  clearTimeout(telling);
  telling = setTimeout(tell, 180);
}

function Choice(props: {
  label: string;
  none: string;
  value: string;
  options: readonly (readonly [string, string])[];
  pick: (value: string) => void;
}) {
  return (
    <select
      className="graph-choice"
      data-on={props.value !== ""}
      aria-label={props.label}
      value={props.value}
      onChange={(event) => props.pick(event.target.value)}
    >
      <option value="">{props.none}</option>
      {props.options.map(([value, name]) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  );
}
