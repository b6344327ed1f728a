import { Link } from "@tanstack/react-router";
import { memo, useEffect, useMemo, useRef } from "react";
import { toneOf } from "../core/agents.ts";
import { count, figure, titled } from "../core/format.ts";
import { type OutlineRow, outlineOf } from "./outline.ts";
import { tail } from "./TurnArticle.tsx";
import { visible } from "./text.ts";
import type { Spine, Turn } from "./wire.ts";

interface Props {
  spine: Spine | undefined;
  turns: ReadonlyMap<number, Turn>;
  total: number;
  here: number;
  jump: (depth: number) => void;
}

const NOTHING = { nodes: [], branches: [] };

/** The thread as a line of turns, with every branch that leaves it, by name. */
export const SpineNav = memo(function SpineNav({ spine, turns, total, here, jump }: Props) {
  const rows = useMemo(() => outlineOf(spine ?? NOTHING, turns, total, here), [spine, turns, total, here]);
  const box = useRef<HTMLElement>(null);
  const branches = spine?.branches.length ?? 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever the reader is elsewhere, its row is kept in view.
  useEffect(() => {
    const row = box.current?.querySelector<HTMLElement>('[aria-current="true"]');
    if (row && box.current) keepInView(row, box.current);
  }, [here, rows]);
  return (
    <nav className="spine" aria-label="Turns of this thread" ref={box}>
      <p className="spine-head">
        <span>{count(total, "turn")}</span>
        <span>{branches > 0 ? count(branches, "branch", "branches") : ""}</span>
      </p>
      <ol>
        {rows.map((row, index) => (
          <li key={keyOf(row)}>
            <SpineRow
              row={row}
              isFirst={index === 0}
              isHere={row.is === "turn" && row.depth === here}
              jump={jump}
            />
          </li>
        ))}
      </ol>
    </nav>
  );
});

function keyOf(row: OutlineRow): string {
  return row.is === "branch" ? row.turn : row.is === "gap" ? `gap ${row.from}` : `turn ${row.depth}`;
}

function keepInView(row: HTMLElement, box: HTMLElement): void {
  const top = row.getBoundingClientRect().top - box.getBoundingClientRect().top;
  if (top < 40 || top > box.clientHeight - 60) box.scrollTop += top - box.clientHeight / 3;
}

interface SpineRowProps {
  row: OutlineRow;
  isFirst: boolean;
  isHere: boolean;
  jump: (depth: number) => void;
}

/** Rows are made anew for each turn that is read; most of them say the same as before. */
function isSameRow(before: SpineRowProps, now: SpineRowProps): boolean {
  if (before.isFirst !== now.isFirst || before.isHere !== now.isHere || before.jump !== now.jump)
    return false;
  const known = new Map(Object.entries(before.row));
  return Object.entries(now.row).every(([name, value]) => known.get(name) === value);
}

const SpineRow = memo(function SpineRow({ row, isFirst, isHere, jump }: SpineRowProps) {
  if (row.is === "branch") {
    const name = row.label ? tail(row.label) : "unnamed";
    const words = (
      <>
        <Rail is="branch" />
        <span className="spine-words">
          <b className="clip">{visible(name)}</b>
          <small className="clip">
            {count(row.turns, "turn")}
            {row.title ? `: ${visible(row.title)}` : ""}
          </small>
        </span>
      </>
    );
    const className = `spine-row branch tone-${toneOf(row.agent)}`;
    return row.label ? (
      <Link
        className={className}
        to="/s/$label"
        params={{ label: row.label }}
        search={{ turn: row.turn }}
        title={visible(row.label)}
      >
        {words}
      </Link>
    ) : (
      <Link className={className} to="/t/$turn" params={{ turn: row.turn }}>
        {words}
      </Link>
    );
  }
  if (row.is === "gap")
    return (
      <button type="button" className="spine-row gap" onClick={() => jump(row.from)}>
        <Rail is="gap" />
        <span className="spine-words">
          <small>{figure(row.to - row.from + 1)} turns</small>
        </span>
      </button>
    );
  const state = row.outcome === "failed" ? "failed" : row.outcome === "completed" ? "" : "stopped";
  return (
    <button
      type="button"
      className={`spine-row tone-${toneOf(row.agent)}`}
      aria-current={isHere ? "true" : undefined}
      onClick={() => jump(row.depth)}
    >
      <Rail
        is={
          row.kind === "compaction"
            ? "compaction"
            : state === "failed"
              ? "failed"
              : row.isHead
                ? "head"
                : "turn"
        }
        isFirst={isFirst}
        isLast={row.isHead}
      />
      <span className="spine-words">
        <span className="clip">{visible(row.kind === "compaction" ? "Summarized" : titled(row.title))}</span>
        {state ? <small className={state}>{state}</small> : null}
      </span>
    </button>
  );
}, isSameRow);

/** The line and its mark: hollow ends the thread, a diamond summarizes, a cross failed. */
function Rail(props: {
  is: "turn" | "head" | "compaction" | "failed" | "gap" | "branch";
  isFirst?: boolean;
  isLast?: boolean;
}) {
  return (
    <svg className="rail-mark" viewBox="0 0 44 30" aria-hidden="true" preserveAspectRatio="xMinYMid">
      {props.is === "branch" ? (
        <>
          <path className="line" d="M20 -30V60" />
          <path className="leaves" d="M20 -6C20 9 24 15 33 15" />
          <circle className="hollow" cx="36.5" cy="15" r="3.4" />
        </>
      ) : (
        <>
          <path
            className={props.is === "gap" ? "line dotted" : "line"}
            d={`M20 ${props.isFirst ? 15 : -30}V${props.isLast ? 15 : 60}`}
          />
          {props.is === "turn" ? <circle className="solid" cx="20" cy="15" r="4" /> : null}
          {props.is === "head" ? <circle className="hollow" cx="20" cy="15" r="4.6" /> : null}
          {props.is === "compaction" ? (
            <path className="hollow" d="M20 9.4l5.6 5.6l-5.6 5.6l-5.6 -5.6z" />
          ) : null}
          {props.is === "failed" ? (
            <>
              <circle className="blank" cx="20" cy="15" r="7" />
              <path className="cross" d="M16.4 11.4l7.2 7.2m0 -7.2l-7.2 7.2" />
            </>
          ) : null}
        </>
      )}
    </svg>
  );
}
