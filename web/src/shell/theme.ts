/** Light, dark, or as the machine is set. A choice is kept in this browser. */

export type Theme = "light" | "dark" | "auto";

const KEY = "turntree.theme";
const listeners = new Set<() => void>();
const machine = () => matchMedia("(prefers-color-scheme: dark)");

/** Sets the kept choice on the document; call it before the first paint. */
export function startTheme(): void {
  apply(chosen());
  machine().addEventListener("change", tell);
}

export function chosen(): Theme {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : "auto";
}

/** What is seen now. */
export function shown(): "light" | "dark" {
  const theme = chosen();
  if (theme !== "auto") return theme;
  return machine().matches ? "dark" : "light";
}

export function choose(theme: Theme): void {
  if (theme === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, theme);
  apply(theme);
  tell();
}

/** Calls the listener whenever the colours change; a canvas draws again then. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function apply(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function tell(): void {
  for (const listener of listeners) listener();
}
