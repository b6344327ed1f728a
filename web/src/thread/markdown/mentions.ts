/** Mentions in Markdown: `@[Atlas](agent:atlas)`, and `@_[Atlas](agent:atlas)` that calls no one.
 *
 * The rules are those of `turntree/conversations/mentions.py`, whose cases the tests of both read. The lexer
 * asks `mentionAt` at each `@[`; code, escapes and links around it are the lexer's business, those in the name
 * are read here.
 */
import { Hooks, type MarkedOptions, Tokenizer, type Tokens } from "marked";

export interface Mention {
  kind: "user" | "agent";
  id: string;
  /** As its author saw it. */
  name: string;
  silent: boolean;
}

export interface MentionToken extends Tokens.Generic, Mention {
  type: "mention";
}

const NAME_CHARS_MAX = 200;
/** A backslash may stand before each character of a name, and a character may be two units. */
const LABEL_CHARS_MAX = 2 * NAME_CHARS_MAX;
const WINDOW = 2 * LABEL_CHARS_MAX + NAME_CHARS_MAX + 16;
const OPENED = /@_?\[/;
const TARGET = /^\((user|agent):([A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,199})\)/;
const TARGETS = /\]\((user|agent):([A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,199})\)/g;
const MARK = /\\[!-/:-@[-`{-~]|`+|<|(?:@_?|!)?\[|\]/g;
const ESCAPED = /\\([!-/:-@[-`{-~])/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a name has no controls.
const BLANKS = /[\u0000-\u0020\u007f-\u00a0\u2028\u2029]+/g;
const ADDRESS_OR_TAG =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: an address has no controls.
  /^<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^<>\u0000-\u0020\u007f]*|[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9.-]+|\/?[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?)*\s*\/?)>/;
const DESTINATION =
  /^\(\s*(?:<(?:[^<>\\\n]|\\[^\n])*>|(?:[^\s()\\]|\\.|\([^\s()]*\))*)(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*\)/;

/** The mention that a text begins with, and its length; null if it begins with none. */
export function mentionAt(text: string): { mention: Mention; length: number } | null {
  if (!/^@_?\[/.test(text)) return null;
  const window = text.slice(0, WINDOW);
  const brackets: { mark: string; end: number }[] = [];
  let passed = 0;
  for (const found of window.matchAll(MARK)) {
    const mark = found[0];
    const end = found.index + mark.length;
    if (found.index < passed || mark.startsWith("\\")) continue;
    if (mark.startsWith("`")) passed = endOfCode(text, end, mark.length) ?? end;
    else if (mark === "<")
      passed = found.index + (ADDRESS_OR_TAG.exec(window.slice(found.index))?.[0].length ?? 1);
    else if (mark !== "]") brackets.push({ mark, end });
    else {
      const opened = brackets.pop();
      if (!opened) return null;
      const rest = window.slice(end);
      const target = opened.mark.startsWith("@") ? TARGET.exec(rest) : null;
      const name = target ? nameIn(window.slice(opened.end, found.index)) : null;
      if (target && name) {
        // Mentions do not nest: the inner one counts, and is found when the lexer gets there.
        if (brackets.length > 0) return null;
        const [whole, kind, id] = target as unknown as [string, Mention["kind"], string];
        const mention = { kind, id, name, silent: opened.mark === "@_[" };
        return { mention, length: end + whole.length };
      }
      if (brackets.length === 0) return null;
      passed = end + (DESTINATION.exec(rest)?.[0].length ?? 0);
    }
  }
  return null;
}

function endOfCode(text: string, at: number, length: number): number | null {
  for (const run of text.slice(at).matchAll(/`+/g)) {
    if (run[0].length === length) return at + run.index + length;
  }
  return null;
}

function nameIn(label: string): string | null {
  if ([...label].length > LABEL_CHARS_MAX || label.includes("\n")) return null;
  const name = label.replace(ESCAPED, "$1").replace(BLANKS, " ").replace(/^ | $/g, "");
  return name !== "" && [...name].length <= NAME_CHARS_MAX ? name : null;
}

/** What the lexer needs to know mentions; an object for each lexer, which writes into it. */
export function mentionOptions(): Pick<MarkedOptions, "extensions" | "hooks" | "tokenizer"> {
  const hooks = new Hooks();
  // A star in a name is no emphasis: the lexer looks for its pairs in the masked text.
  hooks.emStrongMask = masked;
  return {
    extensions: {
      renderers: {},
      childTokens: {},
      inline: [tokenAt],
      startInline: [(text: string) => text.search(OPENED)],
    },
    hooks,
    tokenizer: new MentionTokenizer(),
  };
}

function tokenAt(text: string): MentionToken | undefined {
  const found = mentionAt(text);
  return found ? { type: "mention", raw: text.slice(0, found.length), ...found.mention } : undefined;
}

function masked(text: string): string {
  let result = "";
  let at = 0;
  for (let next = text.search(OPENED); next >= 0; ) {
    const begin = at + next;
    const length = mentionAt(text.slice(begin))?.length ?? 0;
    result += text.slice(at, begin) + (length > 0 ? `[${"a".repeat(length - 2)}]` : text.charAt(begin));
    at = begin + Math.max(length, 1);
    next = text.slice(at).search(OPENED);
  }
  return result + text.slice(at);
}

/** An address without angle brackets ends before a mention. */
class MentionTokenizer extends Tokenizer {
  override url(text: string): Tokens.Link | undefined {
    const opened = text.search(OPENED);
    return super.url(opened < 0 ? text : text.slice(0, opened));
  }
}

interface CountedTarget {
  /** Where it ends in the text with numbers, and how much farther in the text as it was. */
  countedEnd: number;
  shift: number;
}

/** A text whose targets have their number for an id, so that the lexer's answer says where in it a mention is. */
export function numbered(text: string): { text: string; targets: CountedTarget[] } {
  const targets: CountedTarget[] = [];
  let shift = 0;
  const counted = text.replace(TARGETS, (target: string, kind: string, _: string, at: number) => {
    const written = `](${kind}:${targets.length})`;
    const countedEnd = at - shift + written.length;
    shift += target.length - written.length;
    targets.push({ countedEnd, shift });
    return written;
  });
  return { text: counted, targets };
}
