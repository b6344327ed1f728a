import { useEffect, useState } from "react";
import type { Piece } from "./highlight.ts";

/** Longer texts stay plain: colours are worth less than a page that answers. */
const CHARS_MAX = 60_000;
const LINE_CHARS_MAX = 2_000;

/** The text's lines in coloured pieces, once the highlighter is there; null until then, and for plain text. */
export function useHighlight(text: string, language: string): Piece[][] | null {
  const [shown, setShown] = useState<{ text: string; lines: Piece[][] | null } | null>(null);
  useEffect(() => {
    if (!language || text.length > CHARS_MAX || hasLongLine(text)) return;
    let isCurrent = true;
    import("./highlight.ts")
      .then(({ highlight }) => highlight(text, language))
      .then((lines) => {
        if (isCurrent) setShown({ text, lines });
      })
      // Code without colours is still code.
      .catch(() => undefined);
    return () => {
      isCurrent = false;
    };
  }, [text, language]);
  return shown?.text === text ? shown.lines : null;
}

function hasLongLine(text: string): boolean {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf("\n", at);
    if ((end < 0 ? text.length : end) - at > LINE_CHARS_MAX) return true;
    if (end < 0) return false;
    at = end + 1;
  }
  return false;
}
