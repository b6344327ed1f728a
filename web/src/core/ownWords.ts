/**
 * What a person typed, kept in the browser for that person alone. Several people may log in with one browser, one
 * after the other: what the one typed is gone as soon as another one asks for theirs.
 */

export interface WordStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** What is kept under a name for a person; null if nothing is, or if it is of another one. */
export function readOwn(storage: WordStorage, name: string, person: string): unknown {
  try {
    const kept: unknown = JSON.parse(storage.getItem(name) ?? "null");
    if (typeof kept === "object" && kept !== null && "person" in kept && kept.person === person)
      return (kept as { words?: unknown }).words ?? null;
    if (kept !== null) storage.removeItem(name);
  } catch {
    // Not ours, or the browser keeps nothing.
  }
  return null;
}

/** Keeps words in place of those before; null keeps nothing. */
export function keepOwn(storage: WordStorage, name: string, person: string, words: unknown): void {
  try {
    if (words === null) storage.removeItem(name);
    else storage.setItem(name, JSON.stringify({ person, words }));
  } catch {
    // The browser has no room, or keeps nothing.
  }
}
