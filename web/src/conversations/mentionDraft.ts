/**
 * A post while it is written. In the field a mention is `@Ana Ruiz`; what is sent is `@[Ana Ruiz](user:ana)`. A draft is
 * kept as it would be sent, so that it means the same after a reload.
 */

import { placedMentions } from "../thread/markdown/blocks.ts";
import { visible } from "../thread/text.ts";

/** A mention that the writer chose, by how the field shows it. */
export interface ChosenMention {
  shown: string;
  mention: string;
}

export interface PostDraft {
  text: string;
  chosen: readonly ChosenMention[];
}

/** What is typed after an `@` at the caret. */
export interface TypedMention {
  /** Where the `@` is. */
  start: number;
  typed: string;
}

const TYPED_CHARS_MAX = 60;
/** A name of three words is found by its first two. */
const SPACES_MAX = 2;

/** The name that is being typed at the caret; null where no mention begins. */
export function typedMention(text: string, caret: number): TypedMention | null {
  const before = text.slice(Math.max(0, caret - TYPED_CHARS_MAX - 1), caret);
  const at = before.lastIndexOf("@");
  if (at < 0) return null;
  const typed = before.slice(at + 1);
  const previous = before.charAt(at - 1);
  if (/[\p{L}\p{N}_\\@.]/u.test(previous) || /[\n[\]()]/.test(typed)) return null;
  if (typed.startsWith(" ") || typed.split(" ").length > SPACES_MAX + 1) return null;
  return { start: caret - typed.length - 1, typed };
}

/** The draft with a mention in place of what was typed, and where the caret is then. */
export function withMention(
  draft: PostDraft,
  typed: TypedMention,
  caret: number,
  suggestion: { mention: string; name: string; id: string },
): { draft: PostDraft; caret: number } {
  const { shown, chosen } = chooseName(draft.chosen, suggestion);
  const rest = draft.text.slice(caret);
  const gap = /^[\s.,;:!?)]/.test(rest) ? "" : " ";
  const text = draft.text.slice(0, typed.start) + shown + gap + rest;
  return { draft: { text, chosen }, caret: typed.start + shown.length + 1 };
}

/**
 * A text after one more key. A mention comes with a space behind it, which gives way to a space or a full stop that is
 * typed there.
 */
export function withoutGap(
  before: string,
  after: string,
  gapAt: number | null,
  caret: number,
): { text: string; caret: number } {
  const isNext = gapAt !== null && caret === gapAt + 1 && after.length === before.length + 1;
  if (!isNext || before.charAt(gapAt - 1) !== " " || !/[\s.,;:!?)]/.test(after.charAt(gapAt)))
    return { text: after, caret };
  return { text: after.slice(0, gapAt - 1) + after.slice(gapAt), caret: gapAt };
}

/** The text as it is sent. */
export function toPost(draft: PostDraft): string {
  if (draft.chosen.length === 0) return draft.text;
  const byShown = new Map(draft.chosen.map((one) => [one.shown, one.mention]));
  // Of `@Ana` and `@Ana Ruiz`, the longer one is meant where both fit.
  const names = [...byShown.keys()].sort((a, b) => b.length - a.length).map(escaped);
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_@\\\\[])(?:${names.join("|")})(?![\\p{L}\\p{N}_])`, "gu");
  return draft.text.replace(pattern, (shown) => byShown.get(shown) ?? shown);
}

/** A draft that was kept, as the field shows it. */
export function fromPost(text: string): PostDraft {
  let chosen: readonly ChosenMention[] = [];
  let shownText = "";
  let at = 0;
  for (const { mention, start, end } of placedMentions(text)) {
    if (mention.silent) continue;
    const taken = chooseName(chosen, { ...mention, mention: text.slice(start, end) });
    chosen = taken.chosen;
    shownText += text.slice(at, start) + taken.shown;
    at = end;
  }
  return { text: shownText + text.slice(at), chosen };
}

/** How the field shows a mention: two people of one name are told apart by their ids. */
function chooseName(
  chosen: readonly ChosenMention[],
  one: { mention: string; name: string; id: string },
): { shown: string; chosen: readonly ChosenMention[] } {
  const name = visible(one.name).replace(/\s+/g, " ").trim();
  const plain = `@${name}`;
  const other = chosen.find((before) => before.shown === plain);
  const shown = other && other.mention !== one.mention ? `@${name} (${one.id})` : plain;
  if (chosen.some((before) => before.shown === shown)) return { shown, chosen };
  return { shown, chosen: [...chosen, { shown, mention: one.mention }] };
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
