/** Lights every turn that says the words, in all pictures at once. */
import { useSyncExternalStore } from "react";
import { read } from "../api/client.ts";
import { DARK, type Light, light } from "../core/light.ts";

/** The words of the question that is on its way; the newest wait until it is answered. */
let asking: string | null = null;
let words = "";

/** Call it at every key of a search; empty words put the light out. */
export function lightWords(text: string): void {
  const next = text.trim();
  if (next === words) return;
  words = next;
  if (!next) light.set(DARK);
  else if (asking === null) void ask(next);
}

export function useLight(): Light {
  return useSyncExternalStore(light.watch, light.get);
}

async function ask(text: string): Promise<void> {
  asking = text;
  try {
    const answer = await read("/search/places", { q: text, typing: true });
    // Hits of words that were typed on are better than none: the next answer is near.
    if (words.startsWith(text)) {
      light.set({ words: text, hits: answer.hits, total: answer.total, isComplete: answer.is_complete });
    }
  } catch {
    // The palette shows why a search fails; the picture only stays dark.
    if (words === text) light.set({ ...DARK, words: text });
  }
  asking = null;
  if (words && words !== text) void ask(words);
}
