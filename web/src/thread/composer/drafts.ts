/** What a person typed and did not send, kept for a reload in this tab alone; never in an address. */

import { keepOwn, readOwn, type WordStorage } from "../../core/ownWords.ts";

const DRAFTS_MAX = 12;
/** A longer text is not kept: half of it could be sent for the whole. */
export const DRAFT_CHARS_MAX = 60_000;
const ALL_CHARS_MAX = 400_000;

type Draft = readonly [place: string, text: string];

/** Where drafts are kept, and whose they are. */
export interface DraftStore {
  storage: WordStorage;
  name: string;
  person: string;
}

export function readDraft(store: DraftStore, place: string): string {
  return read(store).find(([at]) => at === place)?.[1] ?? "";
}

/** Keeps a draft in place of the one before; the oldest of the others go where there are too many. */
export function keepDraft(store: DraftStore, place: string, text: string): void {
  const drafts = read(store).filter(([at]) => at !== place);
  if (text && text.length <= DRAFT_CHARS_MAX) drafts.push([place, text]);
  let chars = drafts.reduce((sum, [at, draft]) => sum + at.length + draft.length, 0);
  while (drafts.length > DRAFTS_MAX || chars > ALL_CHARS_MAX) {
    const [at, draft] = drafts.shift()!;
    chars -= at.length + draft.length;
  }
  keepOwn(store.storage, store.name, store.person, drafts.length ? drafts : null);
}

function read({ storage, name, person }: DraftStore): Draft[] {
  const kept = readOwn(storage, name, person);
  return Array.isArray(kept) ? kept.filter(isDraft) : [];
}

function isDraft(kept: unknown): kept is Draft {
  return Array.isArray(kept) && kept.length === 2 && kept.every((one) => typeof one === "string");
}
