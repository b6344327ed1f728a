/** Titles and figures of single turns, asked for by the page that shows them and kept. */
import { useSyncExternalStore } from "react";
import { type Forest, placeKey } from "../core/forest.ts";
import { read } from "./client.ts";
import type { RowDocument } from "./types.ts";

export type TurnRow = RowDocument;

/** As many turns as one question may name. */
const PAGE = 256;
const KEPT_MAX = 40_000;

const rows = new Map<number, TurnRow>();
const wanted = new Set<number>();
const asked = new Set<number>();
const watchers = new Set<() => void>();
let version = 0;
let isDue = false;

/** Redraws when rows arrive. */
export function useRowVersion(): number {
  return useSyncExternalStore(watchRows, () => version);
}

export function watchRows(tell: () => void): () => void {
  watchers.add(tell);
  return () => {
    watchers.delete(tell);
  };
}

/** What is known of a turn; if nothing is, it is asked for. */
export function rowAt(forest: Forest, segment: number, depth: number): TurnRow | undefined {
  const key = placeKey(forest.columns.segments.id[segment]!, depth);
  const row = rows.get(key);
  if (!row && !asked.has(key)) {
    wanted.add(key);
    if (!isDue) setTimeout(ask, 12);
    isDue = true;
  }
  return row;
}

/** What is known of a turn, without asking. */
export function knownRow(forest: Forest, segment: number, depth: number): TurnRow | undefined {
  return rows.get(placeKey(forest.columns.segments.id[segment]!, depth));
}

/** Find turns by their ids; those that are not there are left out. */
export async function findRows(turns: readonly string[]): Promise<TurnRow[]> {
  const answer = await read("/rows", { turns });
  keep(answer.rows);
  return answer.rows;
}

/** The row of a turn, read now if it is not known. */
export async function readPlace(
  forest: Forest,
  segment: number,
  depth: number,
): Promise<TurnRow | undefined> {
  const known = knownRow(forest, segment, depth);
  if (known) return known;
  const answer = await read("/rows", {
    at: `${forest.columns.segments.id[segment]!}.${depth}-${depth}`,
  });
  keep(answer.rows);
  return answer.rows[0];
}

/** Forget rows, so that they are read anew where they are shown. */
export function forgetRows(): void {
  asked.clear();
  rows.clear();
}

async function ask(): Promise<void> {
  isDue = false;
  // What is wanted last is in view now: a fling over a thousand rows must not wait for all of them.
  const keys = [...wanted].slice(-PAGE * 4).sort((a, b) => a - b);
  wanted.clear();
  for (const key of keys) asked.add(key);
  for (let from = 0; from < keys.length; from += PAGE) {
    const page = keys.slice(from, from + PAGE);
    try {
      const answer = await read("/rows", { at: rangesOf(page) });
      keep(answer.rows);
    } catch {
      for (const key of page) asked.delete(key);
    }
  }
}

function keep(found: readonly TurnRow[]): void {
  if (rows.size > KEPT_MAX) forgetRows();
  for (const row of found) {
    const key = placeKey(row.segment, row.depth);
    rows.set(key, row);
    asked.add(key);
  }
  version++;
  for (const tell of watchers) tell();
}

/** `12.3-9,14.1-1`: neighbouring turns of a segment are one range. */
function rangesOf(keys: readonly number[]): string[] {
  const depths = 2 ** 24;
  const ranges: string[] = [];
  for (let i = 0; i < keys.length; ) {
    const first = keys[i]!;
    let last = first;
    while (i + 1 < keys.length && keys[i + 1] === last + 1) last = keys[++i]!;
    i++;
    ranges.push(`${Math.floor(first / depths)}.${first % depths}-${last % depths}`);
  }
  return ranges;
}
