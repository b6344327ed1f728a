import type { ReactNode } from "react";
import { agentName, toneOf } from "../core/agents.ts";

/** A short word about a state. The word carries the meaning; the colour repeats it. */
export function Chip(props: {
  kind?: "plain" | "ok" | "warn" | "bad" | "accent";
  children: ReactNode;
  title?: string;
}) {
  return (
    <span className={`chip ${props.kind ?? "plain"}`} title={props.title}>
      {props.children}
    </span>
  );
}

/** An agent's dot and name. */
export function Agent(props: { agent: string | null | undefined; children?: ReactNode }) {
  return (
    <span className={`agent tone-${toneOf(props.agent)}`}>
      <Dot />
      {agentName(props.agent)}
      {props.children}
    </span>
  );
}

/** Takes its colour from the `tone-N` class around it. */
export function Dot() {
  return <i className="dot" aria-hidden="true" />;
}
