/** What was typed and not sent, kept for a reload in this tab alone; never in an address. */

export interface DraftStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const KEY = "turntree.drafts";
const DRAFTS_MAX = 12;
/** A longer text is not kept: half of it could be sent for the whole. */
export const DRAFT_CHARS_MAX = 60_000;
const ALL_CHARS_MAX = 400_000;

type Draft = readonly [place: string, text: string];

export function readDraft(storage: DraftStorage, place: string): string {
  return read(storage).find(([at]) => at === place)?.[1] ?? "";
}

/** Keeps a draft in place of the one before; the oldest of the others go where there are too many. */
export function keepDraft(storage: DraftStorage, place: string, text: string): void {
  const drafts = read(storage).filter(([at]) => at !== place);
  if (text && text.length <= DRAFT_CHARS_MAX) drafts.push([place, text]);
  let chars = drafts.reduce((sum, [at, draft]) => sum + at.length + draft.length, 0);
  while (drafts.length > DRAFTS_MAX || chars > ALL_CHARS_MAX) {
    const [at, draft] = drafts.shift()!;
    chars -= at.length + draft.length;
  }
  try {
    if (drafts.length) storage.setItem(KEY, JSON.stringify(drafts));
    else storage.removeItem(KEY);
  } catch {
    // The browser has no room, or keeps nothing: the text is still in its field.
  }
}

function read(storage: DraftStorage): Draft[] {
  try {
    const kept: unknown = JSON.parse(storage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isDraft) : [];
  } catch {
    return [];
  }
}

function isDraft(kept: unknown): kept is Draft {
  return Array.isArray(kept) && kept.length === 2 && kept.every((one) => typeof one === "string");
}
