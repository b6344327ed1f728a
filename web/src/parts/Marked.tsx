import { marksOf, stretches } from "../core/marks.ts";

/** A text with its matches marked; without marks, the words of a search are looked for. */
export function Marked(props: {
  text: string;
  marks?: readonly (readonly [number, number])[];
  words?: string;
}) {
  const marks = props.marks ?? marksOf(props.text, props.words ?? "");
  return stretches(props.text, marks).map((part) =>
    part.isMarked ? <mark key={part.start}>{part.text}</mark> : <span key={part.start}>{part.text}</span>,
  );
}
