/** Which turns of a thread are known and which pages are missing. A turn's depth is its place: the root has 1. */

export const PAGE_TURNS = 40;

export interface PlacedTurn {
  id: string;
  depth: number;
  parent: string | null;
}

/** The pages that hold these depths, from 0: page k begins after depth k × 40. */
export function pagesAround(first: number, last: number): number[] {
  const pages: number[] = [];
  for (let page = pageOf(Math.max(1, first)); page <= pageOf(Math.max(1, last)); page++) pages.push(page);
  return pages;
}

export function pageOf(depth: number): number {
  return Math.floor((depth - 1) / PAGE_TURNS);
}

/** The turns of one thread that are known, by depth. */
export interface Known<T> {
  head: string;
  turns: ReadonlyMap<number, T>;
}

/**
 * What is known once a page has come. Another head is another thread: what it shares with the one before stays, so
 * that a session that went on, or a branch that is switched to, keeps its older turns on the page.
 */
export function withPage<T extends PlacedTurn>(
  known: Known<T> | null,
  head: string,
  page: readonly T[],
): Known<T> {
  const turns = new Map<number, T>();
  if (known?.head === head) for (const [depth, turn] of known.turns) turns.set(depth, turn);
  else if (known && page[0]) {
    const isShared =
      known.turns.get(page[0].depth)?.id === page[0].id ||
      known.turns.get(page[0].depth - 1)?.id === page[0].parent;
    if (isShared) for (const [depth, turn] of known.turns) if (depth < page[0].depth) turns.set(depth, turn);
  }
  for (const turn of page) turns.set(turn.depth, turn);
  return { head, turns };
}
