/** What a search has lit, the same everywhere: words, and the turns that said them. */
import type { Place } from "./forest.ts";

export interface Light {
  readonly words: string;
  /** Positions by segment id, not by index: the forest may grow while they are lit. */
  readonly hits: readonly (readonly [segment: number, depth: number])[];
  readonly total: number;
  readonly isComplete: boolean;
}

export const DARK: Light = { words: "", hits: [], total: 0, isComplete: true };

let current = DARK;
const watchers = new Set<() => void>();

export const light = {
  get: (): Light => current,
  set(next: Light): void {
    if (next === current) return;
    current = next;
    for (const tell of watchers) tell();
  },
  watch(tell: () => void): () => void {
    watchers.add(tell);
    return () => {
      watchers.delete(tell);
    };
  },
};

/** The lit turns as places of a forest; unknown segments are left out. */
export function litPlaces(lit: Light, indexOfId: ReadonlyMap<number, number>): Place[] {
  const places: Place[] = [];
  for (const [id, depth] of lit.hits) {
    const segment = indexOfId.get(id);
    if (segment !== undefined) places.push({ segment, depth });
  }
  return places;
}
