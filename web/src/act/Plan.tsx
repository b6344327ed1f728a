import { type ReactNode, type RefObject, useEffect, useRef } from "react";
import { asProblem } from "../api/problem.ts";
import { Failure, Skeleton } from "../parts/States.tsx";
import { visible } from "../thread/text.ts";

/** How many files a plan lists. */
export const SHOWN_MAX = 200;
/** What is shown is what will be done: a plan does not change under the reader. */
export const PLANNED = { staleTime: "static" as const, gcTime: 0, retry: false };

/** Gives the way that is offered first the focus, as soon as it is known what it does. */
export function useReadyFocus(isReady: boolean): RefObject<HTMLDivElement | null> {
  const body = useRef<HTMLDivElement>(null);
  const wasReady = useRef(false);
  useEffect(() => {
    if (!isReady || wasReady.current) return;
    wasReady.current = true;
    body.current?.closest("form")?.querySelector<HTMLElement>("button[type=submit]")?.focus();
  }, [isReady]);
  return body;
}

/** A file that a plan leaves as it is, and why. */
export function StayLine(props: { path: ReactNode; why: string }) {
  return (
    <li className="stays">
      <i aria-hidden="true">–</i>
      {props.path}
      <small>{props.why}</small>
    </li>
  );
}

/** A file that was changed twice, why that is a conflict, and what becomes of it. */
export function ConflictLine(props: { path: ReactNode; why: string; end: string }) {
  return (
    <li className="both">
      <i aria-hidden="true">!</i>
      <span>
        {props.path}
        <small>{props.why}</small>
      </span>
      <small>{props.end}</small>
    </li>
  );
}

/** What to do about conflicts, and what the choice that is made means. */
export function ConflictChoice<Choice extends string>(props: {
  legend: string;
  choices: readonly (readonly [Choice, string])[];
  picked: string;
  pick: (choice: Choice) => void;
  hint: string;
}) {
  return (
    <fieldset className="act-choice">
      <legend>{props.legend}</legend>
      <div className="act-segments">
        {props.choices.map(([value, words]) => (
          <label key={value}>
            <input
              type="radio"
              name="conflicts"
              checked={props.picked === value}
              onChange={() => props.pick(value)}
            />
            <span>{words}</span>
          </label>
        ))}
      </div>
      <p className="act-hint">{props.hint}</p>
    </fieldset>
  );
}

/** What else there is to know about a plan. */
export function Notes({ notes }: { notes: readonly string[] }) {
  if (notes.length === 0) return null;
  return (
    <ul className="act-notes">
      {notes.map((note) => (
        <li key={note}>{visible(note)}</li>
      ))}
    </ul>
  );
}

/** In the place of a plan that is not there yet, or that cannot be made. */
export function NoPlan({ error }: { error: Error | null }) {
  return (
    <div className="act-body">
      {error ? <Failure error={asProblem(error)} compact /> : <Skeleton rows={4} label="Comparing files" />}
    </div>
  );
}
