/** What an address may hold besides its path: selection, search and filters, all of them words. */

export interface Address {
  /** The words that are searched for and lit. */
  q?: string;
  /** The selected turn. */
  turn?: string;
  /** The open tab of the inspector, or the way a table is grouped. */
  tab?: string;
  /** The open file. */
  path?: string;
  project?: string;
  agent?: string;
  model?: string;
  session?: string;
  /** Days, as 2026-11-16. */
  from?: string;
  to?: string;
  by?: string;
  archived?: string;
  /** What else a page keeps: a view, a fold, a mark. */
  view?: string;
  fold?: string;
  /** "off" for the graph as a plain list. */
  lanes?: string;
  mark?: string;
  /** A turn in view, by its depth. */
  depth?: string;
  /** A post of a conversation, by its number. */
  post?: string;
}

const NAMES: readonly (keyof Address)[] = [
  "q",
  "turn",
  "tab",
  "path",
  "project",
  "agent",
  "model",
  "session",
  "from",
  "to",
  "by",
  "archived",
  "view",
  "fold",
  "lanes",
  "mark",
  "depth",
  "post",
];

/** The known words of an address; empty ones and others are dropped. */
export function validAddress(search: Record<string, unknown>): Address {
  const address: Address = {};
  for (const name of NAMES) {
    const value = search[name];
    if (typeof value === "string" && value) address[name] = value;
  }
  return address;
}

/** Words stay words: a search for `123` is no number. */
export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(search))
    if (typeof value === "string" && value) words.set(name, value);
  const text = words.toString();
  return text ? `?${text}` : "";
}
