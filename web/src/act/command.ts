/** Command lines as a person types them; the server answers the same ones once an act is done. */

const PLAIN = /^[\w@%+=:,./-]+$/;
const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}\p{Zs}]/u;

/** A word as a shell reads it, without anything that a terminal would obey. */
export function quoted(word: string): string {
  if (PLAIN.test(word)) return word;
  const signs = [...word];
  if (signs.every(isPrintable)) return `'${word.replaceAll("'", `'"'"'`)}'`;
  const escapes = signs.map((sign) =>
    isPrintable(sign) && sign !== "\\" && sign !== "'" ? sign : bytes(sign),
  );
  return `$'${escapes.join("")}'`;
}

/** A command line of Turntree, for the workspace that the page shows. */
export function spell(workspace: string, ...words: readonly string[]): string {
  const line = ["turntree", ...words].map(quoted).join(" ");
  return workspace && workspace !== "default" ? `TURNTREE_WORKSPACE=${quoted(workspace)} ${line}` : line;
}

/** The digits by which people name a turn. */
export function digits(digest: string): string {
  return digest.replace(/^sha256:/, "").slice(0, 8);
}

function isPrintable(sign: string): boolean {
  return sign === " " || !UNPRINTABLE.test(sign);
}

function bytes(sign: string): string {
  return [...new TextEncoder().encode(sign)]
    .map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`)
    .join("");
}
