/** Text from outside, made safe to look at: what is invisible or turns the reading order is shown. */

/** Overrides and isolates of the reading order, and controls other than tab and line feed. Marks that
 * languages need (joiners, left-to-right and right-to-left marks) stay as they are. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: controls are what is looked for.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character begins a sequence.
const TERMINAL = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** The text with what cannot be seen written out: U+202E becomes ⟨202E⟩. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) => {
    const code = character.charCodeAt(0);
    return code < 0x20
      ? String.fromCharCode(0x2400 + code)
      : `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** What a terminal would have left on its screen: no colours, and of a line redrawn its last state. */
export function screenText(output: string): string {
  const plain = output.replace(TERMINAL, "").replace(/\r\n/g, "\n");
  if (!plain.includes("\r")) return visible(plain);
  return visible(
    plain
      .split("\n")
      .map((line) => line.split("\r").filter(Boolean).pop() ?? "")
      .join("\n"),
  );
}

/** The first `lines` lines and `chars` characters, and whether something was left out. */
export function beginning(text: string, lines: number, chars: number): { text: string; isCut: boolean } {
  let end = 0;
  for (let line = 0; line < lines && end >= 0; line++) end = text.indexOf("\n", line === 0 ? 0 : end + 1);
  if (end < 0 || end > chars) end = Math.min(text.length, chars);
  return { text: text.slice(0, end), isCut: end < text.length };
}

/** Pieces of a long text, each short enough to be laid out at once; a surrogate pair stays whole. */
export function piecesOf(text: string, size = 16_000): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + size);
    const line = text.lastIndexOf("\n", end);
    if (end < text.length && line > at + size / 2) end = line + 1;
    else if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1] ?? "")) end--;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

export function countLines(text: string): number {
  if (text === "") return 0;
  let lines = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}
