/** Lights every turn that says the words, in all pictures at once. */
import { useSyncExternalStore } from "react";
import { read } from "../api/client.ts";
import { DARK, type Light, light } from "../core/light.ts";

const DELAY_MS = 60;
let timer: ReturnType<typeof setTimeout> | undefined;
let question: AbortController | undefined;
let words = "";

/** Call it at every key of a search; empty words put the light out. */
export function lightWords(text: string): void {
  const next = text.trim();
  if (next === words) return;
  words = next;
  clearTimeout(timer);
  question?.abort();
  if (!next) {
    light.set(DARK);
    return;
  }
  timer = setTimeout(() => void ask(next), DELAY_MS);
}

export function useLight(): Light {
  return useSyncExternalStore(light.watch, light.get);
}

async function ask(text: string): Promise<void> {
  const own = new AbortController();
  question = own;
  try {
    const answer = await read<{ hits: [number, number][]; total: number; is_complete: boolean }>(
      "/search/places",
      { q: text },
      own.signal,
    );
    if (words === text) {
      light.set({ words: text, hits: answer.hits, total: answer.total, isComplete: answer.is_complete });
    }
  } catch {
    // The palette shows why a search fails; the picture only stays dark.
    if (words === text && !own.signal.aborted) light.set({ ...DARK, words: text });
  }
}
