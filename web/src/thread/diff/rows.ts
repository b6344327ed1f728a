/** Changes as rows: one per line, with the words that differ marked and long quiet runs folded. */
import { diffLines, diffWordsWithSpace } from "diff";

export interface Row {
  op: " " | "+" | "-";
  old: number | null;
  new: number | null;
  text: string;
  /** Pieces of the text; null where the whole line is new, gone or too different to compare. */
  words: { text: string; differs: boolean }[] | null;
}

export interface Fold {
  op: "fold";
  rows: Row[];
}

export interface Change {
  rows: Row[];
  added: number;
  removed: number;
}

export interface Hunk {
  old_start: number;
  new_start: number;
  lines: readonly { op: string; text: string }[];
}

/** Longer texts are shown as all of the old and then all of the new: a comparison would take seconds. */
const COMPARE_CHARS_MAX = 400_000;
const EDITS_MAX = 4_000;
const WORDS_CHARS_MAX = 600;
/** With less than this in common, marks of words say less than the two lines do. */
const COMMON_MIN = 0.35;
const CONTEXT_LINES = 3;
const MARKED_PAIRS_MAX = 500;

export function changeOf(old: string, next: string): Change {
  const parts =
    old.length + next.length > COMPARE_CHARS_MAX
      ? undefined
      : diffLines(old, next, { maxEditLength: EDITS_MAX });
  const rows: Row[] = [];
  const at = { old: 1, new: 1 };
  if (parts)
    for (const part of parts)
      append(rows, at, part.added ? "+" : part.removed ? "-" : " ", linesOf(part.value));
  else {
    append(rows, at, "-", linesOf(old));
    append(rows, at, "+", linesOf(next));
  }
  return marked(rows);
}

/** The same rows from hunks, as the server gives them. A gap between hunks is a fold without rows. */
export function changeOfHunks(hunks: readonly Hunk[]): Change {
  const rows: Row[] = [];
  for (const hunk of hunks) {
    const at = { old: hunk.old_start, new: hunk.new_start };
    for (const line of hunk.lines)
      append(rows, at, line.op === "+" || line.op === "-" ? line.op : " ", [line.text]);
  }
  return marked(rows);
}

/** The files of a patch as Codex writes it (`*** Update File:`), or of a unified diff. */
export function changesOfPatch(
  patch: string,
): { path: string; use: "added" | "changed" | "removed"; change: Change }[] {
  const files: { path: string; use: "added" | "changed" | "removed"; rows: Row[] }[] = [];
  let at = { old: 1, new: 1 };
  for (const line of patch.split("\n")) {
    const named =
      /^\*\*\* (Add|Update|Delete) File: (.+)$/.exec(line) ?? /^(\+\+\+) (?:b\/)?(.+?)(?:\t.*)?$/.exec(line);
    if (named) {
      const use = named[1] === "Add" ? "added" : named[1] === "Delete" ? "removed" : "changed";
      files.push({ path: named[2] ?? "", use, rows: [] });
      at = { old: 1, new: 1 };
      continue;
    }
    const file = files.at(-1);
    const moved = /^\*\*\* Move to: (.+)$/.exec(line);
    if (file && moved) file.path += ` → ${moved[1]}`;
    const numbers = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (numbers) at = { old: Number(numbers[1]), new: Number(numbers[2]) };
    if (!file || /^(\*\*\*|@@|--- |diff |index |\\)/.test(line)) continue;
    const op = line[0];
    if (op === "+" || op === "-" || op === " ") append(file.rows, at, op, [line.slice(1)]);
  }
  return files.map(({ path, use, rows }) => ({ path, use, change: marked(rows) }));
}

/** The rows with runs of unchanged lines folded, except next to a change. */
export function folded(rows: Row[]): (Row | Fold)[] {
  const out: (Row | Fold)[] = [];
  for (let at = 0; at < rows.length; ) {
    let end = at;
    while (end < rows.length && rows[end]?.op === " ") end++;
    const head = at === 0 ? 0 : CONTEXT_LINES;
    const tail = end === rows.length ? 0 : CONTEXT_LINES;
    const isWhole = at === 0 && end === rows.length;
    if (!isWhole && end - at > head + tail + 2) {
      out.push(...rows.slice(at, at + head), { op: "fold", rows: rows.slice(at + head, end - tail) });
      out.push(...rows.slice(end - tail, end));
    } else out.push(...rows.slice(at, end));
    for (at = end; at < rows.length && rows[at]?.op !== " "; at++) out.push(rows[at] as Row);
  }
  return out;
}

function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

function append(rows: Row[], at: { old: number; new: number }, op: Row["op"], lines: string[]): void {
  for (const text of lines)
    rows.push({
      op,
      old: op === "+" ? null : at.old++,
      new: op === "-" ? null : at.new++,
      text,
      words: null,
    });
}

/** Compare the words of lines that replaced one another, pair by pair. */
function marked(rows: Row[]): Change {
  let added = 0;
  let removed = 0;
  let pairs = 0;
  for (let at = 0; at < rows.length; at++) {
    const start = at;
    while (rows[at]?.op === "-") at++;
    const middle = at;
    while (rows[at]?.op === "+") at++;
    removed += middle - start;
    added += at - middle;
    for (
      let pair = 0;
      pair < Math.min(middle - start, at - middle) && pairs < MARKED_PAIRS_MAX;
      pair++, pairs++
    ) {
      const before = rows[start + pair];
      const after = rows[middle + pair];
      if (before && after) markWords(before, after);
    }
  }
  return { rows, added, removed };
}

function markWords(before: Row, after: Row): void {
  if (before.text.length > WORDS_CHARS_MAX || after.text.length > WORDS_CHARS_MAX) return;
  const parts = diffWordsWithSpace(before.text, after.text);
  let common = 0;
  for (const part of parts) if (!part.added && !part.removed) common += part.value.trim().length;
  const longest = Math.max(before.text.trim().length, after.text.trim().length);
  if (longest === 0 || common / longest < COMMON_MIN) return;
  before.words = parts
    .filter((part) => !part.added)
    .map((part) => ({ text: part.value, differs: part.removed === true }));
  after.words = parts
    .filter((part) => !part.removed)
    .map((part) => ({ text: part.value, differs: part.added === true }));
}
