import { memo, type ReactNode, useMemo, useState } from "react";
import { count } from "../../core/format.ts";
import type { Piece } from "../code/highlight.ts";
import { useHighlight } from "../code/useHighlight.ts";
import { visible } from "../text.ts";
import { type Change, type Fold, folded, type Row } from "./rows.ts";

const ROWS_FIRST = 400;
const LINE_CHARS_MAX = 4_000;

/** A change line by line, its words marked, quiet runs folded until they are asked for. */
export const Diff = memo(function Diff(props: {
  change: Change;
  language: string;
  label: string;
  isWhole?: boolean;
}) {
  const { rows } = props.change;
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const [isAll, setAll] = useState(false);
  const sides = useMemo(() => {
    const side = (op: "-" | "+") =>
      visible(
        rows
          .filter((row) => row.op !== op)
          .map((row) => row.text)
          .join("\n"),
      );
    return { old: side("+"), next: side("-") };
  }, [rows]);
  const oldLines = useHighlight(sides.old, props.language);
  const newLines = useHighlight(sides.next, props.language);
  const pieces = useMemo(() => {
    const found = new Map<Row, Piece[]>();
    let old = 0;
    let next = 0;
    for (const row of rows) {
      const line = row.op === "-" ? oldLines?.[old] : newLines?.[next];
      if (row.op !== "+") old++;
      if (row.op !== "-") next++;
      if (line) found.set(row, line);
    }
    return found;
  }, [rows, oldLines, newLines]);
  const items = useMemo(() => (props.isWhole ? rows : folded(rows)), [rows, props.isWhole]);
  if (rows.length === 0) return <p className="note">Nothing differs.</p>;
  const shown = isAll ? items : items.slice(0, ROWS_FIRST);
  return (
    <div className="diff" role="group" aria-label={props.label} tabIndex={0}>
      <div className="diff-lines">
        {shown.map((item, index) =>
          item.op === "fold" && !opened.has(index) ? (
            <FoldButton key={index} fold={item} open={() => setOpened(new Set(opened).add(index))} />
          ) : (
            (item.op === "fold" ? item.rows : [item]).map((row) => (
              <DiffLine
                key={`${row.op}${row.old ?? ""}.${row.new ?? ""}`}
                row={row}
                pieces={pieces.get(row)}
              />
            ))
          ),
        )}
      </div>
      {shown.length < items.length ? (
        <button type="button" className="button quiet" onClick={() => setAll(true)}>
          Show {count(items.length - shown.length, "more line")}
        </button>
      ) : null}
    </div>
  );
});

function FoldButton(props: { fold: Fold; open: () => void }) {
  return (
    <button type="button" className="diff-fold" onClick={props.open}>
      {count(props.fold.rows.length, "unchanged line")}
    </button>
  );
}

const SIGN = {
  "+": { className: "added", word: "added" },
  "-": { className: "removed", word: "removed" },
  " ": { className: "", word: "" },
};

function DiffLine({ row, pieces }: { row: Row; pieces: Piece[] | undefined }) {
  const { className, word } = SIGN[row.op];
  return (
    <div className={`diff-line ${className}`}>
      <span className="number">{row.new ?? row.old}</span>
      <span className="sign" aria-hidden="true">
        {row.op === "-" ? "−" : row.op}
      </span>
      {word ? <span className="visually-hidden">{word}: </span> : null}
      <code>{lineElements(row, pieces)}</code>
    </div>
  );
}

function lineElements(row: Row, pieces: Piece[] | undefined): ReactNode {
  if (row.text.length > LINE_CHARS_MAX) return `${visible(row.text.slice(0, LINE_CHARS_MAX))} …`;
  const text = visible(row.text);
  if (!row.words && !pieces) return text;
  // Colours and marks are two cuts of one line: each piece lies in one of both.
  const cuts: { text: string; className: string | undefined; differs: boolean }[] = [];
  const words = (row.words ?? [{ text, differs: false }]).map((word) => ({
    ...word,
    text: visible(word.text),
  }));
  const colours =
    pieces && pieces.reduce((sum, piece) => sum + piece.text.length, 0) === text.length
      ? pieces
      : [{ text, className: undefined }];
  for (let word = 0, colour = 0, wordAt = 0, colourAt = 0; word < words.length && colour < colours.length; ) {
    const inWord = words[word]!.text.length - wordAt;
    const inColour = colours[colour]!.text.length - colourAt;
    const length = Math.min(inWord, inColour);
    if (length > 0)
      cuts.push({
        text: words[word]!.text.slice(wordAt, wordAt + length),
        className: colours[colour]!.className,
        differs: words[word]!.differs,
      });
    wordAt += length;
    colourAt += length;
    if (length === inWord) {
      word++;
      wordAt = 0;
    }
    if (length === inColour) {
      colour++;
      colourAt = 0;
    }
  }
  return cuts.map((cut, index) => {
    const Cut = cut.differs ? "mark" : "span";
    return (
      <Cut key={index} className={cut.className}>
        {cut.text}
      </Cut>
    );
  });
}

/** `+3 −1`, with words for those who do not see it. */
export function ChangeCount(props: { added: number; removed: number }) {
  return (
    <span className="change-count">
      <span className="plus">
        <span aria-hidden="true">+{props.added}</span>
        <span className="visually-hidden">{count(props.added, "line")} added, </span>
      </span>
      <span className="minus">
        <span aria-hidden="true">−{props.removed}</span>
        <span className="visually-hidden">{props.removed} removed</span>
      </span>
    </span>
  );
}
