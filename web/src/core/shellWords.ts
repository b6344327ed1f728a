/** Words as a shell reads them, for command lines that the page shows. */

const PLAIN = /^[\w@%+=:,./~-]+$/u;

/** One word, quoted where it must be; no control character is ever shown as it is. */
export function quoted(word: string): string {
  if (PLAIN.test(word)) return word;
  const isOdd = [...word].some((letter) => isControl(letter.codePointAt(0) ?? 0));
  if (!isOdd) return `'${word.replaceAll("'", "'\\''")}'`;
  const escaped = [...word].map((letter) => {
    const code = letter.codePointAt(0) ?? 0;
    if (letter === "'" || letter === "\\") return `\\${letter}`;
    if (!isControl(code)) return letter;
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, "0")}`
      : `\\u${code.toString(16).padStart(4, "0")}`;
  });
  return `$'${escaped.join("")}'`;
}

/** A command line of words. */
export function joined(...words: string[]): string {
  return words.map(quoted).join(" ");
}

/** Control characters, and those that turn the direction of what follows. */
function isControl(code: number): boolean {
  return (
    code < 0x20 ||
    (code >= 0x7f && code < 0xa0) ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2066 && code <= 0x2069) ||
    code === 0xfeff
  );
}
