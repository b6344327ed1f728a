/** The searches of this browser, newest first. */

const KEY = "turntree.searches";
const LIMIT = 8;

export function recentSearches(store: Pick<Storage, "getItem">): string[] {
  try {
    const kept: unknown = JSON.parse(store.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((item) => typeof item === "string").slice(0, LIMIT) : [];
  } catch {
    return [];
  }
}

export function rememberSearch(store: Pick<Storage, "getItem" | "setItem">, words: string): void {
  const text = words.trim();
  if (text.length < 2) return;
  const rest = recentSearches(store).filter((item) => item !== text && !text.startsWith(item));
  store.setItem(KEY, JSON.stringify([text, ...rest].slice(0, LIMIT)));
}
