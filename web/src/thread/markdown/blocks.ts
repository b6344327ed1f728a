/** Markdown as values: blocks of inlines. No HTML is made from what a model or a tool wrote.
 *
 * marked's lexer reads the text; this module decides how much of it the lexer may see. Three inputs
 * make it slow or end its stack: thousands of markers in one line, one very long paragraph, and one
 * very long text. The first two become plain text, the last is read in portions that end at a blank
 * line, so the time grows with the length of the text and nothing throws.
 */
import { Lexer, type Token, type Tokens } from "marked";
import { type Mention, type MentionToken, mentionAt, mentionOptions, numbered } from "./mentions.ts";

export type Inline =
  | { is: "text"; text: string }
  | { is: "code"; text: string }
  | { is: "break" }
  | { is: "strong" | "em" | "del" | "span"; of: Inline[] }
  | { is: "mention"; raw: string; mention: Mention }
  | { is: "link"; href: string; host: string; of: Inline[] }
  | { is: "image"; href: string; host: string; text: string };

export type Block =
  | { is: "paragraph"; of: Inline[] }
  | { is: "heading"; level: number; of: Inline[] }
  | { is: "code"; text: string; lang: string }
  | { is: "quote"; of: Block[] }
  | { is: "list"; start: number | null; items: ListItem[] }
  | { is: "table"; head: Cell[]; rows: Cell[][] }
  | { is: "rule" }
  | { is: "plain"; text: string };

export interface ListItem {
  done: boolean | null;
  of: Block[];
}

export interface Cell {
  align: "left" | "center" | "right" | null;
  of: Inline[];
}

/** A portion ends at the first blank line after this many characters … */
const PORTION_CHARS = 8_000;
/** … or at the first line that could begin a block, or at last at any line. The lexer's time grows with
 * the square of some lists and quotes, so a portion is short; a list that is cut goes on as a second one. */
const PORTION_CHARS_SOFT = 12_000;
const PORTION_CHARS_MAX = 24_000;
/** Code is read in one pass and may be long. */
const PORTION_CHARS_CODE = 128_000;
const INLINE_CHARS_MAX = 12_000;
/** Emphasis is matched pair by pair: its cost grows with the square of the markers. */
const INLINE_MARKERS_MAX = 600;
const NESTING_MAX = 12;

const LINE_MARKERS = /^(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])))+/;
const MARKER = />|[-*+]|\d+[.)]/g;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

export function parseMarkdown(text: string): Block[] {
  return portionsOf(text.replace(/\r\n?/g, "\n")).flatMap(blocksOf);
}

/** The text in portions that are Markdown of their own: each ends at a blank line outside of code. */
export function portionsOf(text: string): string[] {
  if (text.length <= PORTION_CHARS) return [text];
  const portions: string[] = [];
  let start = 0;
  let fence = "";
  for (let at = 0; at < text.length; ) {
    let end = text.indexOf("\n", at);
    if (end < 0) end = text.length;
    const length = end - at;
    // Only the beginning of a line can open or close code, so a line of megabytes costs nothing here.
    const line = text.slice(at, at + Math.min(length, 400));
    const mark = FENCE.exec(line)?.[1] ?? "";
    if (fence === "") fence = mark;
    else if (mark[0] === fence[0] && mark.length >= fence.length) fence = "";
    const size = end - start;
    const begins = !/\s/.test(text[end + 1] ?? "");
    const isOver =
      fence !== ""
        ? size >= PORTION_CHARS_CODE
        : size >= PORTION_CHARS_MAX ||
          (begins && size >= PORTION_CHARS_SOFT) ||
          (begins && size >= PORTION_CHARS && line.trim() === "");
    if (isOver) {
      portions.push(text.slice(start, end));
      start = end + 1;
      fence = "";
    }
    at = end + 1;
  }
  if (start < text.length) portions.push(text.slice(start));
  return portions;
}

function blocksOf(portion: string): Block[] {
  if (portion.trim() === "") return [];
  const longest = /^ {0,3}(```|~~~)/m.test(portion) ? 2 * PORTION_CHARS_CODE : 2 * PORTION_CHARS_MAX;
  if (portion.length > longest || isTooDeep(portion)) return [{ is: "plain", text: portion }];
  try {
    const lexer = new Lexer({ gfm: true, ...mentionOptions() });
    lexer.blockTokens(portion, lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      if (isTooDense(src)) tokens.push({ type: "text", raw: src, text: src, escaped: false });
      else lexer.inlineTokens(src, tokens);
    }
    return lexer.tokens.flatMap((token) => blockOf(token, 0));
  } catch {
    // The lexer gives up on some inputs by a plain Error, and a stack can end: the text is shown anyway.
    return [{ is: "plain", text: portion }];
  }
}

function isTooDeep(portion: string): boolean {
  return portion.split("\n").some((line) => {
    const markers = LINE_MARKERS.exec(line.slice(0, 400))?.[0];
    return markers !== undefined && (markers.match(MARKER)?.length ?? 0) > NESTING_MAX;
  });
}

function isTooDense(text: string): boolean {
  if (text.length > INLINE_CHARS_MAX) return true;
  let markers = 0;
  for (let at = 0; at < text.length; at++) {
    if ("*_~[]!`<\\".includes(text[at] ?? "") && ++markers > INLINE_MARKERS_MAX) return true;
  }
  return false;
}

function blockOf(token: Token, depth: number): Block[] {
  if (depth > NESTING_MAX) return [{ is: "plain", text: token.raw }];
  switch (token.type) {
    case "space":
      return [];
    case "hr":
      return [{ is: "rule" }];
    case "heading":
      return [{ is: "heading", level: (token as Tokens.Heading).depth, of: inlinesOf(token.tokens) }];
    case "code": {
      const code = token as Tokens.Code;
      return [{ is: "code", text: code.text, lang: code.lang ?? "" }];
    }
    case "blockquote":
      return [{ is: "quote", of: (token.tokens ?? []).flatMap((inner) => blockOf(inner, depth + 1)) }];
    case "list": {
      const list = token as Tokens.List;
      const items = list.items.map((item) => ({
        done: item.task ? item.checked === true : null,
        of: item.tokens.flatMap((inner) => (inner.type === "checkbox" ? [] : blockOf(inner, depth + 1))),
      }));
      return [{ is: "list", start: list.ordered ? Number(list.start || 1) : null, items }];
    }
    case "table": {
      const table = token as Tokens.Table;
      const cell = ({ align, tokens }: Tokens.TableCell): Cell => ({ align, of: inlinesOf(tokens) });
      return [{ is: "table", head: table.header.map(cell), rows: table.rows.map((row) => row.map(cell)) }];
    }
    case "paragraph":
    case "text":
      return [{ is: "paragraph", of: token.tokens ? inlinesOf(token.tokens) : [textOf(token.raw)] }];
    default:
      // A tag is text like any other text.
      return token.raw.trim() === "" ? [] : [{ is: "plain", text: token.raw.replace(/\n+$/, "") }];
  }
}

function inlinesOf(tokens: Token[] | undefined): Inline[] {
  return (tokens ?? []).map(inlineOf);
}

function inlineOf(token: Token): Inline {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return { is: token.type, of: inlinesOf(token.tokens) };
    case "codespan":
      return { is: "code", text: (token as Tokens.Codespan).text };
    case "br":
      return { is: "break" };
    case "link": {
      const { href } = token as Tokens.Link;
      const address = webAddress(href);
      const of = inlinesOf(token.tokens);
      if (address) return { is: "link", href: address.href, host: address.host, of };
      // What cannot be followed from here, such as a file's path, is said and not hidden.
      const said = of.map(plainOf).join("");
      const where = said === href || href === "" ? "" : ` (${href})`;
      if (mentionsOf(of).length > 0) return { is: "span", of: [...of, textOf(where)] };
      return textOf(`${said}${where}`);
    }
    case "image": {
      const { href, text } = token as Tokens.Image;
      const address = webAddress(href);
      return address
        ? { is: "image", href: address.href, host: address.host, text }
        : textOf(`[image: ${[text, /^data:/i.test(href) ? "" : href].filter(Boolean).join(", ")}]`);
    }
    case "escape":
      return textOf((token as Tokens.Escape).text);
    case "mention": {
      const { raw, kind, id, name, silent } = token as MentionToken;
      return { is: "mention", raw, mention: { kind, id, name, silent } };
    }
    default:
      return "tokens" in token && token.tokens ? flat(inlinesOf(token.tokens)) : textOf(token.raw);
  }
}

const textOf = (text: string): Inline => ({ is: "text", text });

const flat = (of: Inline[]): Inline => {
  const [only] = of;
  return of.length === 1 && only ? only : textOf(of.map(plainOf).join(""));
};

/** The words of an inline without its marks. */
export function plainOf(inline: Inline): string {
  switch (inline.is) {
    case "text":
    case "code":
    case "image":
      return inline.text;
    case "break":
      return "\n";
    case "mention":
      return `@${inline.mention.name}`;
    default:
      return inline.of.map(plainOf).join("");
  }
}

/** The address if a browser may follow it: http or https, without a name and password. */
export function webAddress(text: string): { href: string; host: string } | null {
  if (!/^https?:\/\//i.test(text) || text.length > 4_000) return null;
  try {
    const url = new URL(text);
    if (url.username || url.password) return null;
    // URL gives an internationalised host in ASCII, so that a look-alike is seen as one.
    return { href: url.href, host: url.host };
  } catch {
    return null;
  }
}

/** The mentions in a text and where they are in it, for text that is shown as it is. */
export function placedMentions(text: string): { mention: Mention; start: number; end: number }[] {
  const counted = numbered(text);
  if (counted.targets.length === 0) return [];
  return blockMentions(parseMarkdown(counted.text), false).flatMap(({ raw, mention }) => {
    const number = Number(mention.id);
    const target = counted.targets[number];
    if (!target) return [];
    // A name may hold the targets of others, in code: what is before it is shifted by those before it.
    const begin = target.countedEnd - raw.length;
    let before = number - 1;
    while (before >= 0 && (counted.targets[before]?.countedEnd ?? 0) > begin) before--;
    const start = begin + (counted.targets[before]?.shift ?? 0);
    const end = target.countedEnd + target.shift;
    const written = mentionAt(text.slice(start, end))?.mention;
    return written ? [{ mention: written, start, end }] : [];
  });
}

interface FoundMention {
  raw: string;
  mention: Mention;
  quoted: boolean;
}

/** The mentions in blocks, in their order. */
export function blockMentions(blocks: Block[], quoted: boolean): FoundMention[] {
  const found = (inlines: Inline[]) => mentionsOf(inlines).map((one) => ({ ...one, quoted }));
  return blocks.flatMap((block) => {
    switch (block.is) {
      case "paragraph":
      case "heading":
        return found(block.of);
      case "quote":
        return blockMentions(block.of, true);
      case "list":
        return block.items.flatMap((item) => blockMentions(item.of, quoted));
      case "table":
        return [block.head, ...block.rows].flat().flatMap((cell) => found(cell.of));
      default:
        return [];
    }
  });
}

function mentionsOf(inlines: Inline[]): { raw: string; mention: Mention }[] {
  return inlines.flatMap((inline) => {
    if (inline.is === "mention") return [{ raw: inline.raw, mention: inline.mention }];
    return "of" in inline ? mentionsOf(inline.of) : [];
  });
}
