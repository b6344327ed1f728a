/** The searches of a person in this browser, newest first. */

import { keepOwn, readOwn, type WordStorage } from "./ownWords.ts";

const LIMIT = 8;

export function recentSearches(storage: WordStorage, name: string, person: string): string[] {
  const kept = readOwn(storage, name, person);
  return Array.isArray(kept) ? kept.filter((item) => typeof item === "string").slice(0, LIMIT) : [];
}

export function rememberSearch(storage: WordStorage, name: string, person: string, words: string): void {
  const text = words.trim();
  if (text.length < 2) return;
  const rest = recentSearches(storage, name, person).filter(
    (item) => item !== text && !text.startsWith(item),
  );
  keepOwn(storage, name, person, [text, ...rest].slice(0, LIMIT));
}
