/** A browser's storage, for tests. */

import type { WordStorage } from "./ownWords.ts";

export function storage(): WordStorage & { chars: () => number } {
  const kept = new Map<string, string>();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
    chars: () => [...kept.values()].join("").length,
  };
}
