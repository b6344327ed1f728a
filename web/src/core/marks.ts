/** A text cut into stretches, each of them marked or not. */

export interface Stretch {
  /** Where it starts in the text. */
  start: number;
  text: string;
  isMarked: boolean;
}

/** Cuts a text at its marks: pairs of start and end, in any order; those outside the text are ignored. */
export function stretches(text: string, marks: readonly (readonly [number, number])[]): Stretch[] {
  const parts: Stretch[] = [];
  let at = 0;
  const add = (end: number, isMarked: boolean) => {
    if (end > at) parts.push({ start: at, text: text.slice(at, end), isMarked });
    at = Math.max(at, end);
  };
  for (const [start, end] of [...marks].sort((a, b) => a[0] - b[0])) {
    if (start >= text.length || end <= at) continue;
    add(Math.max(start, at), false);
    add(Math.min(end, text.length), true);
  }
  add(text.length, false);
  return parts;
}

/** The marks of words in a text, in any case of letters. */
export function marksOf(text: string, query: string): [number, number][] {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word.length > 1);
  const low = text.toLowerCase();
  const marks: [number, number][] = [];
  // A letter whose lower form is longer would shift every mark behind it.
  if (low.length !== text.length) return marks;
  for (const word of words) {
    for (let at = low.indexOf(word); at >= 0; at = low.indexOf(word, at + word.length)) {
      marks.push([at, at + word.length]);
    }
  }
  return marks;
}
