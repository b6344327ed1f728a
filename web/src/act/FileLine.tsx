import type { ReactNode } from "react";
import type { FileStep } from "./wire.ts";

const SIGNS = { added: "A", changed: "M", removed: "D" } as const;
const DEEDS = { added: "comes back", changed: "changes back", removed: "is removed" } as const;

/** A file that goes back: what happens to it, and by how many lines. */
export function FileLine({
  step,
  path,
  note,
}: {
  step: FileStep;
  path: ReactNode;
  note?: string | undefined;
}) {
  const { plus, minus } = step;
  return (
    <li className={step.change}>
      <i aria-hidden="true">{SIGNS[step.change]}</i>
      {path}
      <span className="visually-hidden">{DEEDS[step.change]}</span>
      <small className="lines">
        {note ? <em>{note}</em> : null}
        {typeof plus === "number" ? <ins>+{plus}</ins> : null}
        {typeof minus === "number" ? <del>−{minus}</del> : null}
      </small>
    </li>
  );
}
