import type { ReactNode } from "react";
import { useEffect, useState } from "react";
import { asProblem } from "../api/problem.ts";
import { Button } from "./Button.tsx";
import { Command } from "./Command.tsx";

/** Nothing to show, why, and what to do about it. */
export function Empty(props: { title: string; children?: ReactNode; icon?: ReactNode; action?: ReactNode }) {
  return (
    <div className="state">
      {props.icon}
      <h2>{props.title}</h2>
      {props.children ? <p>{props.children}</p> : null}
      {props.action}
    </div>
  );
}

/** What went wrong, in its place on the page, with the way on. */
export function Failure(props: { error: unknown; retry?: () => void; compact?: boolean }) {
  const problem = asProblem(props.error);
  return (
    <div className={props.compact ? "state compact" : "state"} role="alert">
      <h2>{sentence(problem.message)}</h2>
      {problem.detail ? <p>{sentence(problem.detail)}</p> : null}
      {problem.next.map((command) => (
        <Command key={command} line={command} />
      ))}
      {props.retry && !problem.isMissing ? <Button onClick={props.retry}>Try again</Button> : null}
    </div>
  );
}

/** Grey bars in place of what is being read; not before 150 ms, so that a quick answer does not flicker. */
export function Skeleton(props: { rows?: number; label?: string }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="skeleton" role="status" aria-busy="true" aria-label={props.label ?? "Reading"}>
      {late
        ? Array.from({ length: props.rows ?? 6 }, (_, row) => (
            <i key={`row ${String(row)}`} aria-hidden="true" />
          ))
        : null}
    </div>
  );
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
